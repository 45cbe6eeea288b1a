// Command hello starts a node of a small cluster, and has its butler greet it. Three of them
// form a cluster; the arguments are the address of the node, then those of its peers:
//
//	go run ./examples/hello 127.0.0.1:7101 127.0.0.1:7102 127.0.0.1:7103
//	go run ./examples/hello 127.0.0.1:7102 127.0.0.1:7103 127.0.0.1:7101
//	go run ./examples/hello 127.0.0.1:7103 127.0.0.1:7101 127.0.0.1:7102
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// greeter is an entity: one instance for each id, with state of its own.
type greeter struct{ Guests int }

// Handle handles one message at a time, so it needs no lock.
func (g *greeter) Handle(ctx *sharding.Context, name string) (string, error) {
	g.Guests++
	return fmt.Sprintf("%s greets %s, guest number %d", ctx.ID(), name, g.Guests), nil
}

// Snapshot and Restore carry the state to other processes.
func (g *greeter) Snapshot(*sharding.Context) ([]byte, error)      { return json.Marshal(g) }
func (g *greeter) Restore(_ *sharding.Context, state []byte) error { return json.Unmarshal(state, g) }

var greeterType = sharding.Type[string, string]{
	Name: "greeter",
	New:  func(id string) sharding.Entity[string, string] { return &greeter{} },
	// A reply waits until two of three processes hold the state that it shows.
	State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
}

// startGreeters starts a node of the cluster, as cfg says.
func startGreeters(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sharding.Region[string, string], error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	greeters, err := sharding.Register(node.Registry(), greeterType)
	if err != nil {
		return nil, nil, err
	}
	return node, greeters, node.Start(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(),
		os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := peerage.Config{Cluster: "hello", Logger: slog.Default()} // alone: a cluster of one
	if len(os.Args) > 1 {
		cfg.Listen, cfg.Join = os.Args[1], os.Args[1:]
	}
	node, greeters, err := startGreeters(ctx, cfg)
	check(err)
	answer, err := greeters.Ask(ctx, "the butler", node.Self().Addr)
	check(err)
	fmt.Println(answer)
	<-ctx.Done() // Ctrl-C: hand all shards over, then leave
	check(node.Shutdown(context.Background()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
