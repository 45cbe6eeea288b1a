package replica

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/figures"
)

// keysListedMax bounds an answer of Handler; the listing goes on with ?after=.
const keysListedMax = 1000

// Handler returns a read-only HTTP handler that shows the content of r to operators, as
// JSON:
//
//	/       statistics and the lag of every peer
//	/keys   names, sizes and digests of up to 1,000 keys; ?prefix= and ?after=
//	/value  one value, ?key=, of a large one the first MiB or so
//
// Elements are shown as text if they are text, else as decoded msgpack, else as {"base64",
// "bytes"}. Since elements carry no type, a small number that is also a letter shows as
// that letter. The handler shows all data to every client: protect it as the data requires.
func Handler(r *Replicator) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", r.serveStatus)
	mux.HandleFunc("GET /keys", r.serveKeys)
	mux.HandleFunc("GET /value", r.serveValue)
	return mux
}

type statusPage struct {
	Self  string             `json:"self"`
	Role  string             `json:"role"`
	Stats figures.Replicator `json:"stats"`
	Peers []peerPage         `json:"peers"`
}

type peerPage struct {
	ID       string `json:"id"`
	Down     bool   `json:"down"`
	Lag      uint64 `json:"lag"`
	CaughtUp bool   `json:"caughtUp"`
}

type keyPage struct {
	Key    string `json:"key"`
	Kind   string `json:"kind"`
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest"`
	Value  any    `json:"value,omitempty"`
	// Truncated: the value is larger than what is shown of it.
	Truncated bool `json:"truncated,omitempty"`
}

func (r *Replicator) serveStatus(w http.ResponseWriter, req *http.Request) {
	stats, peers, err := r.Status(req.Context())
	page := statusPage{Self: r.cfg.Self.String(), Role: r.cfg.Role, Stats: stats, Peers: []peerPage{}}
	for _, p := range peers {
		page.Peers = append(page.Peers, peerPage{p.ID.String(), p.Down, p.Lag, p.CaughtUp})
	}
	writeJSON(w, page, err)
}

func (r *Replicator) serveKeys(w http.ResponseWriter, req *http.Request) {
	page, after := []keyPage{}, req.FormValue("after")
	err := r.call(req.Context(), func() {
		names := r.loop.core.Keys(req.FormValue("prefix"))
		from, found := slices.BinarySearch(names, after)
		if found {
			from++
		}
		for _, k := range names[from:min(len(names), from+keysListedMax)] {
			page = append(page, r.describeKey(k))
		}
	})
	writeJSON(w, page, err)
}

func (r *Replicator) serveValue(w http.ResponseWriter, req *http.Request) {
	var page keyPage
	var v crdt.Value
	err := r.call(req.Context(), func() {
		key := req.FormValue("key")
		page = r.describeKey(key)
		if v = r.loop.core.Value(key); v != nil {
			v = v.Clone()
		}
	})
	if err == nil && v == nil {
		http.Error(w, "no such key", http.StatusNotFound)
		return
	}
	if v != nil {
		show := &valueRenderer{left: shownBytesMax}
		page.Value = show.renderValue(v)
		page.Truncated = show.cut
	}
	writeJSON(w, page, err)
}

func (r *Replicator) describeKey(key string) keyPage {
	s := r.loop.core.Key(key)
	return keyPage{Key: key, Kind: kindName(s.Kind), Bytes: s.Bytes, Digest: strconv.FormatUint(s.Print, 16)}
}

func writeJSON(w http.ResponseWriter, page any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The client has gone if this fails.
	_ = json.NewEncoder(w).Encode(page)
}

func kindName(k crdt.Kind) string {
	if k == 0 {
		return "deleted"
	}
	return k.String()
}
