package replica

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

func TestHandlerShowsKeysValuesAndPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		r := m.nodes[1]
		must(t, r.Update(t.Context(), []operation.Op{addTo(1, "users", "ada"), setEntry(1, "routes", "a", 1),
			replication.Mutate("hits", crdt.KindGCounter, 20, func(v crdt.Value) crdt.Value { return v.(*crdt.GCounter).Add(1, 7) })}, replicator.All))
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
		if get("/keys?prefix=&after=hits", &keys) != 200 || len(keys) != 2 || keys[0].Key != "routes" || keys[0].Kind != "LWWMap[string,string]" || keys[0].Bytes == 0 {
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

// What operators compare: a key has one digest wherever its value is the same, and a
// peer that is cut off lags.
func TestHandlerShowsWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, nil)
		get := func(id gossip.NodeID, path string, into any) {
			rec := httptest.NewRecorder()
			Handler(m.nodes[id]).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			if rec.Code != 200 {
				t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
			}
			must(t, json.Unmarshal(rec.Body.Bytes(), into))
		}
		digests := func() (out [2]keyPage) {
			for i, id := range []gossip.NodeID{1, 3} {
				var keys []keyPage
				get(id, "/keys?prefix=users", &keys)
				out[i] = keys[0]
			}
			return out
		}
		must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "users", "ada"), addTo(1, "other", "x")}, replicator.All))
		if d := digests(); d[0].Digest != d[1].Digest || d[0].Digest == "0" {
			t.Errorf("the same at both: %+v", d)
		}
		m.isolate(3, true)
		must(t, m.nodes[1].Update(t.Context(), []operation.Op{addTo(1, "users", "bob")}, replicator.Majority(0, 0)))
		if d := digests(); d[0].Digest == d[1].Digest {
			t.Errorf("different at the two: %+v", d)
		}
		synctest.Wait()
		var status statusPage
		get(1, "/", &status)
		lag := map[string]uint64{}
		for _, p := range status.Peers {
			lag[p.ID] = p.Lag
		}
		if lag[gossip.NodeID(2).String()] != 0 || lag[gossip.NodeID(3).String()] != 1 {
			t.Errorf("lag %v", lag)
		}
	})
}

func TestHandlerListsManyKeysInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMesh(t, 1, nil).nodes[1]
		ops := make([]operation.Op, keysListedMax+5)
		for i := range ops {
			ops[i] = addTo(1, fmt.Sprintf("k%05d", i), "e")
		}
		must(t, r.Update(t.Context(), ops, replicator.Local))
		after, seen := "", 0
		for _, want := range []int{keysListedMax, 5, 0} {
			var page []keyPage
			rec := httptest.NewRecorder()
			Handler(r).ServeHTTP(rec, httptest.NewRequest("GET", "/keys?after="+after, nil))
			must(t, json.Unmarshal(rec.Body.Bytes(), &page))
			if len(page) != want {
				t.Fatalf("after %q: %d keys, want %d", after, len(page), want)
			}
			for _, k := range page {
				if k.Key != fmt.Sprintf("k%05d", seen) {
					t.Fatalf("%q is number %d", k.Key, seen)
				}
				after = k.Key
				seen++
			}
		}
		rec := httptest.NewRecorder()
		Handler(r).ServeHTTP(rec, httptest.NewRequest("POST", "/keys", nil))
		if rec.Code != 405 {
			t.Errorf("it does more than read: %d", rec.Code)
		}
	})
}

// Whatever else is asked than to look is refused.
func TestHandlerOnlyReads(t *testing.T) {
	r := New(Config{Self: 1, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	defer r.Close()
	for _, path := range []string{"/", "/keys", "/value?key=k"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			w := httptest.NewRecorder()
			Handler(r).ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
}
