package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/dashboard"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/sharding"
)

const (
	askPatience  = 5 * time.Second
	bodyBytesMax = 64 << 10
	// drainMax bounds reading and answering POST /drain, which answers when the node is out.
	drainMax = 10 * time.Minute
)

// api is the HTTP API of a node.
type api struct {
	node     *peerage.Node
	counters *sharding.Region[load.Add, load.Total]
	registry *prometheus.Registry
	// external is set if the shards of the counters go where they are placed.
	external bool
	// dashboard are the options of the page.
	dashboard dashboard.Options
	// profiles serves those of the Go runtime.
	profiles bool
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/counters/{id}/ask", a.ask)
	mux.HandleFunc("POST /v1/counters/{id}/tell", a.tell)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{Registry: a.registry}))
	mux.HandleFunc("POST /drain", a.handleDrain)
	mux.HandleFunc("POST /place", a.handlePlace)
	mux.Handle("GET /data/", http.StripPrefix("/data", a.node.DataHandler()))
	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", dashboard.Handler(a.node, a.dashboard)))
	mux.Handle("/", a.node.Handler()) // healthz, readyz, status
	if a.profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and so on by their names
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func (a *api) ask(w http.ResponseWriter, r *http.Request) {
	req, ok := readAdd(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askPatience)
	defer cancel()
	t, err := a.counters.Ask(ctx, r.PathValue("id"), req)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, t)
}

func (a *api) tell(w http.ResponseWriter, r *http.Request) {
	req, ok := readAdd(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askPatience)
	defer cancel()
	if err := a.counters.Tell(ctx, r.PathValue("id"), req); err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusAccepted, struct{}{})
}

// handleDrain takes the node out of its cluster and answers when the node has left.
// The process keeps running and is not ready. The operator ends it, or the supervisor that
// watches /readyz does.
func (a *api) handleDrain(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	// Either may fail only on a connection that is gone.
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(drainMax))
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(drainMax))
	if err := a.node.Drain(r.Context()); err != nil {
		answer(w, http.StatusServiceUnavailable, failure{Error: err.Error(), Retryable: true})
		return
	}
	self := a.node.Self()
	answer(w, http.StatusOK, harness.Drained{Name: self.Name, Node: self.ID.String(), TookMS: float64(time.Since(began).Microseconds()) / 1000})
}

// handlePlace stores the wish to have a shard on the node of a name. The shard moves within a
// round of the coordinator.
func (a *api) handlePlace(w http.ResponseWriter, r *http.Request) {
	if !a.external {
		answer(w, http.StatusConflict, failure{Error: "the strategy of this cluster spreads shards evenly and reads no wishes: start its nodes with --strategy external"})
		return
	}
	shard, err := strconv.ParseUint(r.FormValue("shard"), 10, 32)
	if err != nil {
		answer(w, http.StatusBadRequest, failure{Error: fmt.Sprintf("shard is %q: choose a number", r.FormValue("shard"))})
		return
	}
	wish := map[sharding.ShardID]string{sharding.ShardID(shard): r.FormValue("node")}
	if err := a.node.Registry().Place(r.Context(), r.FormValue("type"), wish); err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func readAdd(w http.ResponseWriter, r *http.Request) (load.Add, bool) {
	var req load.Add
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil && !errors.Is(err, io.EOF) {
		answer(w, http.StatusBadRequest, failure{Error: `the body must be like {"n": 3}: ` + err.Error()})
		return req, false
	}
	return req, true
}

// failure is the body of an answer that is none.
type failure struct {
	Error string `json:"error"`
	// Retryable is set if the same request may succeed when it is sent again.
	// OutcomeUnknown is set if the request may have been carried out.
	Retryable      bool `json:"retryable"`
	OutcomeUnknown bool `json:"outcome_unknown"`
}

func refuse(w http.ResponseWriter, err error) {
	f := failure{Error: err.Error(), Retryable: sharding.Retryable(err), OutcomeUnknown: sharding.OutcomeUnknown(err)}
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, sharding.ErrUnknownType), errors.Is(err, sharding.ErrNoShard):
		code = http.StatusNotFound
	case errors.Is(err, sharding.ErrBadID), errors.Is(err, sharding.ErrTooLarge):
		code = http.StatusBadRequest
	case errors.Is(err, context.DeadlineExceeded):
		code = http.StatusGatewayTimeout
	case errors.Is(err, sharding.ErrNodeStopping): // for who reaches other nodes at this address
		f.Retryable, code = true, http.StatusServiceUnavailable
	case f.Retryable:
		code = http.StatusServiceUnavailable
	}
	answer(w, code, f)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// Ignore the error: it means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(body)
}
