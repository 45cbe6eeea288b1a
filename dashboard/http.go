package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

//go:embed page
var assets embed.FS

// policy lets the page load and query its own handler, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	// actionHeader must be set by requests that change something: a form of another site
	// cannot set it.
	actionHeader = "X-Peerage-Action"
	keysMax      = 200
	textMax      = 4 << 10
	findMax      = 100
)

// routes returns the handler.
func (h *hub) routes() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]string{"/{$}": "index.html", "/page.js": "page.js", "/draw.js": "draw.js", "/page.css": "page.css", "/icon.svg": "icon.svg"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, assets, "page/"+file) })
	}
	mux.HandleFunc("GET /stream", h.serveStream)
	mux.HandleFunc("GET /state", h.serveState)
	mux.HandleFunc("GET /find", h.serveFind)
	mux.HandleFunc("GET /explain", h.serveExplain)
	mux.HandleFunc("GET /keys", h.serveKeys)
	mux.HandleFunc("POST /drain", h.serveDrain)
	mux.HandleFunc("POST /place", h.servePlace)
	mux.HandleFunc("POST /passivate", h.servePassivate)
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("Cache-Control", "no-store")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		guarded.ServeHTTP(w, r)
	})
}

// serveStream sends a state after each poll until the page is closed.
func (h *hub) serveStream(w http.ResponseWriter, r *http.Request) {
	s := h.openStream(r.URL.Query().Get("type"))
	if s == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many dashboards are open", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's own would end the stream
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		select {
		case state := <-s.states:
			_ = control.SetWriteDeadline(time.Now().Add(writeMax)) // not in httptest
			_, err := fmt.Fprintf(w, "data: %s\n\n", state)
			if err == nil {
				err = control.Flush()
			}
			if err != nil {
				h.closeStream(s, errors.Is(err, os.ErrDeadlineExceeded))
				return
			}
		case <-r.Context().Done():
			h.closeStream(s, false)
			return
		}
	}
}

// serveState answers with one state, for programs.
func (h *hub) serveState(w http.ResponseWriter, r *http.Request) {
	typ := r.URL.Query().Get("type")
	states, _ := h.pollOnce(map[string]bool{typ: true})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(states[typ]) // fails only if the client is gone
}

// found is the answer of a search.
type found struct {
	// Exact is the entity with just this id, if the home of its shard answers.
	Exact  *sharding.Location  `json:"exact,omitempty"`
	Note   string              `json:"note,omitempty"`
	Found  []sharding.Location `json:"found"`
	More   bool                `json:"more,omitempty"`
	Failed []string            `json:"failed,omitempty"`
}

func (h *hub) serveFind(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*queryMax)
	defer cancel()
	q := r.URL.Query()
	typ, text := q.Get("type"), q.Get("q")
	if len(text) > textMax {
		http.Error(w, "the text is too long", http.StatusBadRequest)
		return
	}
	all, failed, err := h.from.Search(ctx, typ, text)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	out := found{Found: all[:min(len(all), findMax)], More: len(all) > findMax}
	for _, f := range failed {
		out.Failed = append(out.Failed, f.Name)
	}
	if text != "" {
		at, err := h.from.Where(ctx, typ, text)
		switch {
		case err == nil:
			out.Exact = &at
		case errors.Is(err, sharding.ErrNoHome):
			out.Note = "its shard has no home yet: the first message gives it one"
		default:
			out.Note = err.Error()
		}
	}
	writeJSON(w, out)
}

func (h *hub) serveExplain(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*queryMax)
	defer cancel()
	q := r.URL.Query()
	typ := q.Get("type")
	n, err := strconv.ParseUint(q.Get("shard"), 10, 32)
	shard := sharding.ShardID(n)
	if id := q.Get("id"); id != "" && len(id) <= textMax {
		shard, err = h.from.ShardOf(typ, id)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	history, err := h.from.Explain(ctx, typ, shard)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	const shown = 60
	history.Events = history.Events[max(0, len(history.Events)-shown):]
	writeJSON(w, history)
}

func (h *hub) serveKeys(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*queryMax)
	defer cancel()
	q := r.URL.Query()
	keys, err := h.from.Keys(ctx, q.Get("role"), q.Get("prefix"))
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	writeJSON(w, map[string]any{"keys": keys[:min(len(keys), keysMax)], "of": len(keys)})
}

// mayAct reports whether a request that changes something is allowed, and answers it if not.
func mayAct(w http.ResponseWriter, r *http.Request, allowed bool) bool {
	switch {
	case !allowed:
		http.Error(w, "this dashboard is read-only", http.StatusForbidden)
	case r.Header.Get(actionHeader) == "":
		http.Error(w, actionHeader+" is missing", http.StatusForbidden)
	default:
		return true
	}
	return false
}

func (h *hub) serveDrain(w http.ResponseWriter, r *http.Request) {
	if !mayAct(w, r, h.options.AllowDrain) {
		return
	}
	h.options.Logger.Info("dashboard: this node drains, as the page asked", "from", r.RemoteAddr)
	go func() {
		if err := h.from.Drain(context.Background()); err != nil {
			h.options.Logger.Warn("dashboard: the drain failed; look at the status of the node", "err", err)
		}
	}()
	w.WriteHeader(http.StatusAccepted)
}

func (h *hub) servePlace(w http.ResponseWriter, r *http.Request) {
	if !mayAct(w, r, h.options.AllowPlace) {
		return
	}
	var q struct {
		Type  string           `json:"type"`
		Shard sharding.ShardID `json:"shard"`
		Node  string           `json:"node"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, textMax)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.options.Logger.Info("dashboard: a shard is placed, as the page asked", "type", q.Type, "shard", q.Shard, "node", q.Node, "from", r.RemoteAddr)
	if err := h.from.Place(r.Context(), q.Type, map[sharding.ShardID]string{q.Shard: q.Node}); err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *hub) servePassivate(w http.ResponseWriter, r *http.Request) {
	if !mayAct(w, r, h.options.AllowPassivate) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*queryMax)
	defer cancel()
	var q struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*textMax)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.options.Logger.Info("dashboard: an entity is passivated, as the page asked", "type", q.Type, "entity", q.ID, "from", r.RemoteAddr)
	at, err := h.from.Passivate(ctx, q.Type, q.ID)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	writeJSON(w, at)
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, sharding.ErrUnknownType), errors.Is(err, sharding.ErrNoShard), errors.Is(err, sharding.ErrNoRole):
		return http.StatusNotFound
	case errors.Is(err, sharding.ErrBadID):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client is gone
}
