package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// file is the entity: the totals of one file of the stream.
type file struct{ sum totals }

// change is its request: apply an event, or only return the totals.
type change struct {
	Apply          bool
	Added, Deleted int64
}

// Handle applies a change and answers with the totals.
func (f *file) Handle(_ *sharding.Context, c change) (totals, error) {
	if c.Apply {
		f.sum.addEvent(event{added: c.Added, deleted: c.Deleted})
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

// settingsOf returns those of one process. All processes have the same list.
func settingsOf(addr string, list []string) peerage.Config {
	cfg := peerage.LocalConfig()
	cfg.Cluster, cfg.Listen, cfg.Join = "replay", addr, list
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return cfg
}

// joinCluster starts a node of this program's cluster.
func joinCluster(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sharding.Region[change, totals], error) {
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
	node, _, err := joinCluster(ctx, settingsOf(addr, list))
	if err != nil {
		return err
	}
	parent := make(chan struct{})
	go func() {
		defer close(parent)
		_, _ = io.Copy(io.Discard, os.Stdin) // only its end matters
	}()
	select {
	case <-parent:
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(node.Shutdown(stop))
}
