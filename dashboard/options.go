package dashboard

import (
	"context"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding"
)

// Options are the settings of a Handler. The zero Options show everything and change nothing.
type Options struct {
	// Streams is the number of pages that may be open at a time; more are refused with 503.
	// Default: 32.
	Streams int
	// AllowDrain lets the page drain the node of this handler (peerage.Node.Drain).
	AllowDrain bool
	// AllowPlace lets the page set the wanted node of a shard (sharding.Registry.Place).
	AllowPlace bool
	// AllowPassivate lets the page end the instance of an entity (sharding.Registry.Passivate).
	AllowPassivate bool
	// Logger receives a warning when a page is dropped because it reads too slowly, and
	// a line for each action. Default: discard.
	Logger *slog.Logger
}

const defaultStreams = 32

func discarded() *slog.Logger { return slog.New(slog.DiscardHandler) }

// source is what the dashboard asks of a node.
type source interface {
	Collect(ctx context.Context) figures.Cluster
	Shards(ctx context.Context, typ string) (sharding.ClusterStats, error)
	Search(ctx context.Context, typ, text string) ([]sharding.Location, []sharding.NodeFailure, error)
	Where(ctx context.Context, typ, id string) (sharding.Location, error)
	Explain(ctx context.Context, typ string, shard sharding.ShardID) (sharding.History, error)
	ShardOf(typ, id string) (sharding.ShardID, error)
	Keys(ctx context.Context, role, prefix string) ([]string, error)
	Drain(ctx context.Context) error
	Place(ctx context.Context, typ string, wanted map[sharding.ShardID]string) error
	Passivate(ctx context.Context, typ, id string) (sharding.Location, error)
}

// The times of the dashboard. A query of all members takes at most queryMax; then members
// without an answer are shown as not answering.
const (
	pollEvery = time.Second
	pollApart = 150 * time.Millisecond
	// pollPerNode slows the polls of large clusters: 100 members are asked every 3 s.
	pollPerNode = 30 * time.Millisecond
	queryMax    = 900 * time.Millisecond
	writeMax    = 5 * time.Second
)
