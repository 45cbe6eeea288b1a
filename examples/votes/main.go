// Command votes counts votes over HTTP, each poll an entity whose count three processes keep.
// Without a list of addresses it is a cluster of one:
//
//	go run ./examples/votes
//	curl -X POST 127.0.0.1:8101/votes/tea
//
// Chaos kills, pauses and restarts its processes, and checks what its clients saw:
//
//	go build -o examples/votes/votes ./examples/votes
//	go run ./cmd/peerage chaos --service examples/votes/chaos.yaml --rounds 5 --report out.html
package main

import (
	"context"
	"encoding/json"
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

// poll is the entity. The answer to a vote is the number of votes.
type poll struct{ Votes int }

type vote struct{}

func (p *poll) Handle(*sharding.Context, vote) (int, error) {
	p.Votes++
	return p.Votes, nil
}

func (p *poll) Snapshot(*sharding.Context) ([]byte, error) { return json.Marshal(p) }

func (p *poll) Restore(_ *sharding.Context, state []byte) error { return json.Unmarshal(state, p) }

func pollType() sharding.Type[vote, int] {
	return sharding.Type[vote, int]{
		Name: "poll", Shards: 64,
		New: func(string) sharding.Entity[vote, int] { return &poll{} },
		// A vote is confirmed when two of three processes have it.
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	}
}

func main() {
	cfg := peerage.LocalConfig()
	cfg.Cluster, cfg.Logger = "votes", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	flag.StringVar(&cfg.Name, "name", "a", "name of the node")
	flag.StringVar(&cfg.Listen, "listen", "127.0.0.1:7101", "address for other nodes")
	join := flag.String("join", "", "addresses of all nodes, with commas; the same list for each")
	web := flag.String("http", "127.0.0.1:8101", "address for HTTP")
	flag.Parse()
	if err := runVotes(withNodes(cfg, *join), *web); err != nil {
		log.Fatal(err)
	}
}

// withNodes sets where the other nodes are. A node without a list is alone.
func withNodes(cfg peerage.Config, list string) peerage.Config {
	if list == "" {
		cfg.Bootstrap = true
	} else {
		cfg.Join = strings.Split(list, ",")
	}
	return cfg
}

// startVotes starts a node, and returns it with the HTTP API of the service.
func startVotes(ctx context.Context, cfg peerage.Config) (*peerage.Node, http.Handler, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	polls, err := sharding.Register(node.Registry(), pollType())
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /votes/{poll}", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		n, err := polls.Ask(ctx, r.PathValue("poll"), vote{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]int{"votes": n}) // fails only if the client is gone
	})
	mux.Handle("/", node.Handler()) // /readyz, /status
	return node, mux, node.Start(ctx)
}

// runVotes serves until SIGTERM or Ctrl-C.
func runVotes(cfg peerage.Config, web string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node, api, err := startVotes(ctx, cfg)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: web, Handler: api, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("vote with POST http://%s/votes/POLL", web)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, node.Shutdown(last), server.Shutdown(last))
}
