package main

import (
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// options holds the flags.
type options struct {
	nodes, processes int
	// restarts is how many nodes a rolling restart restarts, 0 for all.
	restarts int
	// shards is the number of shards of each entity type, types that of types, 0 if views are played
	// without any. If grow is set, the shards grow, not the nodes.
	shards, types int
	grow          bool
	within        time.Duration
	seed          uint64
	json          bool
}

// valid reports whether the flags are within their bounds.
func (o *options) valid() bool {
	return o.nodes >= 10 && o.nodes <= 2000 && (o.processes == 0 || o.processes >= 3 && o.processes <= 200) &&
		o.restarts >= 0 && o.shards >= 1 && o.shards <= protocol.ShardsMax && o.types >= 0 && o.types <= 100 && (!o.grow || o.types > 0)
}
