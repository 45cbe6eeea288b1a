// Command replay sends a stream of events through a cluster of three processes,
// one entity per file named in the stream, and compares what each entity has
// added up with one straight pass over the stream.
//
//	go run ./examples/replay --file events.csv.gz
//
// The stream has the columns unix_seconds,entity,added,deleted. Without --file
// and without PEERAGE_REPLAY_FILE in the environment, a small synthetic stream is
// used.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

//go:embed sample.csv
var sample []byte

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	file := flags.String("file", os.Getenv("PEERAGE_REPLAY_FILE"), "stream of events, .csv or .csv.gz")
	member := flags.String("member-of", "", "(internal) run as a member of the cluster with this `list` of addresses")
	listen := flags.String("listen", "", "(internal) the `address` in that list to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *member != "" {
		return beMember(ctx, *listen, strings.Split(*member, ","))
	}
	events, err := load(*file)
	if err != nil {
		return err
	}
	return replay(ctx, events, out)
}

func load(path string) ([]event, error) {
	if path == "" {
		return read(bytes.NewReader(sample))
	}
	return readFile(path)
}

// file is the entity: what became of one file of the stream.
type file struct{ sum totals }

// change is its request: apply an event, or just tell the totals.
type change struct {
	Apply          bool
	Added, Deleted int64
}

// Handle applies a change and answers with the totals.
func (f *file) Handle(_ *sharding.Context, c change) (totals, error) {
	if c.Apply {
		f.sum.apply(event{added: c.Added, deleted: c.Deleted})
	}
	return f.sum, nil
}

func fileType() sharding.Type[change, totals] {
	return sharding.Type[change, totals]{
		Name: "file", Shards: 60, MinMembers: processes,
		New: func(string) sharding.Entity[change, totals] { return &file{} },
	}
}

const processes = 3

// join starts a node of this program's cluster. All nodes have the same list.
func join(ctx context.Context, addr string, list []string) (*peerage.Node, *sharding.Region[change, totals], error) {
	cfg := peerage.LocalConfig()
	cfg.Cluster, cfg.Listen, cfg.Join = "replay", addr, list
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	files, err := sharding.Register(node.Registry(), fileType())
	if err != nil {
		return nil, nil, err
	}
	return node, files, node.Start(ctx)
}

// beMember hosts its share of the files until the parent ends.
func beMember(ctx context.Context, addr string, list []string) error {
	node, _, err := join(ctx, addr, list)
	if err != nil {
		return err
	}
	parent := make(chan struct{})
	go func() {
		defer close(parent)
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
	}()
	select {
	case <-parent:
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(node.Shutdown(stop))
}
