package replicator

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator/core"
)

func TestHandlerShowsKeysValuesAndPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		r := m.nodes[1]
		must(t, r.Update(t.Context(), []Op{addTo(1, "users", "ada"), setEntry(1, "routes", "a", 1),
			core.Mutate("hits", crdt.KindGCounter, 20, func(v crdt.Value) crdt.Value { return v.(*crdt.GCounter).Add(1, 7) })}, All))
		get := func(path string, into any) int {
			rec := httptest.NewRecorder()
			Handler(r).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			if rec.Code == 200 {
				must(t, json.Unmarshal(rec.Body.Bytes(), into))
			}
			return rec.Code
		}
		var status statusPage
		if get("/", &status) != 200 || status.Stats.Keys != 3 || len(status.Peers) != 2 || status.Peers[0].Lag != 0 {
			t.Errorf("%+v", status)
		}
		var keys []keyPage
		if get("/keys?prefix=&after=hits", &keys) != 200 || len(keys) != 2 || keys[0].Key != "routes" || keys[0].Kind != "LWWMap" || keys[0].Bytes == 0 {
			t.Errorf("%+v", keys)
		}
		var one struct{ Value []string }
		if get("/value?key=users", &one) != 200 || len(one.Value) != 1 || one.Value[0] != "ada" {
			t.Errorf("%+v", one)
		}
		var hits struct{ Value int }
		if get("/value?key=hits", &hits) != 200 || hits.Value != 7 {
			t.Errorf("%+v", hits)
		}
		var routes struct{ Value map[string]string }
		if get("/value?key=routes", &routes) != 200 || routes.Value["a"] != "value" {
			t.Errorf("%+v", routes)
		}
		if code := get("/value?key=none", nil); code != 404 {
			t.Errorf("code %d", code)
		}
		must(t, r.Close())
		if code := get("/keys", nil); code != 503 {
			t.Errorf("closed: code %d", code)
		}
	})
}
