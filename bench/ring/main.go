// Command ring counts over HTTP on a plain hash ring. A process keeps the counts of the keys that
// hash to it, and forwards requests for all other keys. It has no views, leases, tokens or copies:
// it is the baseline of the chaos benchmark, which shows what the same faults do to such a service.
//
//	go build -o bench/ring/ring ./bench/ring
//	go run ./cmd/peerage chaos --service bench/ring/static.yaml --rounds 5 --out static.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	self := flag.String("listen", "127.0.0.1:7101", "address for other processes")
	join := flag.String("join", "", "addresses of all processes, with commas; the same list for each")
	web := flag.String("http", "127.0.0.1:8101", "address for HTTP")
	check := flag.Duration("check", 0, "interval of health checks: a process that fails three leaves the ring until it answers (0: the ring never changes)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := newRing(*self, strings.Split(*join, ","))
	if err := serveRing(ctx, r, *web, *check); err != nil {
		log.Fatal(err)
	}
}

// serveRing serves clients and other processes until ctx ends.
func serveRing(ctx context.Context, r *ring, web string, check time.Duration) error {
	servers := []*http.Server{
		{Addr: r.self, Handler: r.peerHandler(), ReadHeaderTimeout: 5 * time.Second},
		{Addr: web, Handler: r.clientHandler(), ReadHeaderTimeout: 5 * time.Second},
	}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.ListenAndServe() }()
	}
	if check > 0 {
		go checkPeers(ctx, r, check)
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, servers[1].Shutdown(last), servers[0].Shutdown(last))
}

// checkPeers checks the other processes in each interval until ctx ends.
func checkPeers(ctx context.Context, r *ring, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.checkAll(ctx, interval)
		}
	}
}

// clientHandler serves the users of the service.
func (r *ring) clientHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /votes/{key}", func(w http.ResponseWriter, q *http.Request) {
		ctx, cancel := context.WithTimeout(q.Context(), 2*time.Second)
		defer cancel()
		n, err := r.addAnywhere(ctx, q.PathValue("key"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]int{"votes": n}) // fails only if the client is gone
	})
	return mux
}

// peerHandler serves the other processes.
func (r *ring) peerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /alive", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /counts/{key}", func(w http.ResponseWriter, q *http.Request) {
		_ = json.NewEncoder(w).Encode(r.addHere(q.PathValue("key"))) // fails only if the caller is gone
	})
	return mux
}
