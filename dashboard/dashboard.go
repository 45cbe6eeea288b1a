package dashboard

import (
	"cmp"
	"context"
	"net/http"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding"
)

// Handler returns the handler of the page of a node's cluster. Mount it with
// http.StripPrefix under a path that ends in a slash. It may be called before the node is
// started, and serves until the node is closed. It subscribes to the node's events for as
// long as the node lives, so make one Handler for a node.
//
// Requests that change something are refused unless the Options allow them, and also if a
// browser sends them for a page of another origin.
func Handler(node *peerage.Node, o Options) http.Handler {
	o.Streams = cmp.Or(max(o.Streams, 0), defaultStreams)
	if o.Logger == nil {
		o.Logger = discarded()
	}
	collect, err := door.Open[func(context.Context) figures.Cluster](node)
	if err != nil {
		panic(err) // both packages are of one module
	}
	h := newHub(nodeSource{node, collect}, o)
	node.Subscribe(h.onEvent)
	return h.routes()
}

// nodeSource is a node as a source.
type nodeSource struct {
	*peerage.Node
	collect func(context.Context) figures.Cluster
}

func (n nodeSource) Collect(ctx context.Context) figures.Cluster { return n.collect(ctx) }

func (n nodeSource) Shards(ctx context.Context, typ string) (sharding.ClusterStats, error) {
	return n.Registry().Cluster(ctx, typ)
}

func (n nodeSource) Search(ctx context.Context, typ, text string) ([]sharding.Location, []sharding.NodeFailure, error) {
	return n.Registry().Search(ctx, typ, text)
}

func (n nodeSource) Where(ctx context.Context, typ, id string) (sharding.Location, error) {
	return n.Registry().Where(ctx, typ, id)
}

func (n nodeSource) Explain(ctx context.Context, typ string, shard sharding.ShardID) (sharding.History, error) {
	return n.Registry().Explain(ctx, typ, shard)
}

func (n nodeSource) ShardOf(typ, id string) (sharding.ShardID, error) {
	return n.Registry().ShardOf(typ, id)
}

func (n nodeSource) Place(ctx context.Context, typ string, wanted map[sharding.ShardID]string) error {
	return n.Registry().Place(ctx, typ, wanted)
}

func (n nodeSource) Passivate(ctx context.Context, typ, id string) (sharding.Location, error) {
	return n.Registry().Passivate(ctx, typ, id)
}

func (n nodeSource) Keys(ctx context.Context, role, prefix string) ([]string, error) {
	d := n.Data(role)
	if d == nil {
		return nil, sharding.ErrNoRole
	}
	return d.Keys(ctx, prefix)
}
