package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
)

// The shares of dead writers in maps of counters are put together by rounds like all
// that is forgotten (prune.go; crdt/gather.go says why it must be so). What differs:
// the writers are named, for a replica may stand in a later view when it hears of the
// commit, with more of them dead; and who has agreed carries it out, whatever it has
// changed since.

// gatherWritersMax bounds the writers of one line of a round. More come in later
// rounds.
const gatherWritersMax = 64

// loose returns the shares of dead writers that could be put together in a value.
func (c *Core) loose(it *item) (d Drop, ok bool) {
	g, ok := it.value.(crdt.Gatherer)
	if !ok {
		return d, false
	}
	d = Drop{Key: it.key, Era: it.era, Kind: it.kind(), Writers: g.Loose(c.dead, gatherWritersMax)}
	d.Garbage = g.Shares(d.writer)
	return d, len(d.Writers) > 0
}

func (d *Drop) writer(n crdt.NodeID) bool { return slices.Contains(d.Writers, n) }

// agreesToGather reports whether this replica has the same shares of the same dead.
func (c *Core) agreesToGather(d *Drop, v crdt.Value) bool {
	g, ok := v.(crdt.Gatherer)
	alive := slices.ContainsFunc(d.Writers, func(n crdt.NodeID) bool { return !c.dead(n) })
	return ok && !alive && g.Shares(d.writer) == d.Garbage
}

// gather carries out a line of a commit. The content stays what it is.
func (c *Core) gather(d *Drop, it *item) {
	g, ok := it.value.(crdt.Gatherer)
	if !ok || it.gen != 0 || it.kind() != d.Kind {
		return // ended since, and all else will be too
	}
	if c.blunder == blunderGatherUnchanged && g.Shares(d.writer) != d.Garbage {
		return
	}
	if g.Gather(d.writer) {
		c.store.settle(it)
		c.stats.Pruned += uint64(d.Garbage.Items)
	}
}
