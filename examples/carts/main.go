// Command carts is a small service: shopping carts over HTTP, each an entity that
// takes several kinds of commands. All nodes are given the same list, of which two must
// be there before there is a cluster:
//
//	go run ./examples/carts -name a -listen 127.0.0.1:7101 -http 127.0.0.1:8101 -join 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
//	go run ./examples/carts -name b -listen 127.0.0.1:7102 -http 127.0.0.1:8102 -join 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
//	go run ./examples/carts -name c -listen 127.0.0.1:7103 -http 127.0.0.1:8103 -join 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
//	curl -X POST 127.0.0.1:8101/carts/ada/tea
//	curl 127.0.0.1:8102/carts/ada
//
// More nodes join with the same list. A node that crashes is started again with the same
// command. On Ctrl-C or SIGTERM a node hands its carts over, with what is in them.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

func main() {
	cfg := peerage.Config{Cluster: "carts"}
	flag.StringVar(&cfg.Name, "name", "", "name of the node")
	flag.StringVar(&cfg.Listen, "listen", "", "address for other nodes")
	list := flag.String("join", "", "addresses where nodes may be found, separated by commas; the same for all nodes")
	web := flag.String("http", "127.0.0.1:8101", "address for HTTP")
	flag.Parse()
	if *list != "" {
		cfg.Join = strings.Split(*list, ",")
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node, handler, err := startNode(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr: *web, Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: time.Minute,
	}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	slog.Info("serving", "api", "http://"+*web+"/carts/")
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// First hand over the carts, which other nodes may still ask for, then stop HTTP.
	if err := errors.Join(node.Shutdown(last), server.Shutdown(last)); err != nil {
		log.Fatal(err)
	}
}

// startNode joins the cluster, and returns the node and what it serves.
func startNode(ctx context.Context, cfg peerage.Config) (*peerage.Node, http.Handler, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	carts, err := sharding.Register(node.Registry(), cartType())
	if err != nil {
		return nil, nil, err
	}
	if err := node.Start(ctx); err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /carts/{id}", askHandler(carts, func(*http.Request) command { return show{} }))
	mux.HandleFunc("POST /carts/{id}/{item}", askHandler(carts, func(r *http.Request) command { return put{r.PathValue("item")} }))
	mux.HandleFunc("DELETE /carts/{id}", askHandler(carts, func(*http.Request) command { return empty{} }))
	mux.Handle("/", node.Handler()) // /readyz, /status, /where?type=cart&id=ada and the like
	return node, mux, nil
}
