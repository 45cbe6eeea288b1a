// Command carts is a small service: shopping carts over HTTP, each an entity that
// takes several kinds of commands. Start one, and as many more as you like:
//
//	go run ./examples/carts -name a -listen 127.0.0.1:7101 -http 127.0.0.1:8101
//	go run ./examples/carts -name b -http 127.0.0.1:8102 -join 127.0.0.1:7101
//	curl -X POST 127.0.0.1:8101/carts/ada/tea
//	curl 127.0.0.1:8102/carts/ada
//
// On Ctrl-C or SIGTERM a node hands its carts over, with what is in them.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

func main() {
	var cfg peerage.Config
	flag.StringVar(&cfg.Gossip.Name, "name", "", "name of the node")
	flag.StringVar(&cfg.Gossip.Listen, "listen", "", "address for other nodes")
	join := flag.String("join", "", "address of another node")
	web := flag.String("http", "127.0.0.1:8101", "address for HTTP")
	flag.Parse()
	if *join != "" {
		cfg.Gossip.ContactPoints = []string{*join}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node, handler, err := start(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *web, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// First the carts, which others may ask for meanwhile, then HTTP.
	log.Println("stopping:", errors.Join(node.Shutdown(last), server.Shutdown(last)))
}

// start joins the cluster, and returns the node and what it serves.
func start(ctx context.Context, cfg peerage.Config) (*peerage.Node, http.Handler, error) {
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
	mux.HandleFunc("GET /carts/{id}", ask(carts, func(*http.Request) command { return show{} }))
	mux.HandleFunc("POST /carts/{id}/{item}", ask(carts, func(r *http.Request) command { return put{r.PathValue("item")} }))
	mux.HandleFunc("DELETE /carts/{id}", ask(carts, func(*http.Request) command { return empty{} }))
	mux.Handle("/", node.Handler()) // /readyz, /status, /where?type=cart&id=ada and the like
	return node, mux, nil
}
