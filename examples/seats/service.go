package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/dashboard"
	"github.com/peerage-go/peerage/sharding"
)

// startService starts a node, and returns it with the HTTP API of the service.
func startService(ctx context.Context, cfg peerage.Config) (*peerage.Node, http.Handler, error) {
	metrics := prometheus.NewRegistry()
	cfg.Registerer = metrics
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), concertType())
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /concerts/{concert}", answerWith(region))
	mux.HandleFunc("PUT /concerts/{concert}/{seat}/{guest}", answerWith(region))
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", dashboard.Handler(node, dashboard.Options{})))
	mux.Handle("/", node.Handler()) // /readyz, /status and /where, among others
	return node, mux, node.Start(ctx)
}

// answerWith sends a booking to its concert, and returns the reply.
func answerWith(region *concerts) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		request := booking{Seat: r.PathValue("seat"), Guest: r.PathValue("guest")}
		// Retry: a booking that arrives twice does no harm.
		taken, err := region.Ask(ctx, r.PathValue("concert"), request, sharding.Retry())
		var refusal *sharding.HandlerError
		switch {
		case errors.As(err, &refusal): // the concert's own answer
			http.Error(w, refusal.Text, http.StatusConflict)
		case errors.Is(err, sharding.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			_ = json.NewEncoder(w).Encode(taken)
		}
	}
}
