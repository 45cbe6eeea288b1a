package coordinator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Check returns the first invariant of the core that does not hold. It is for
// simulators and tests, between steps; it costs a pass over all shards.
func (c *Core) Check() error {
	if c.term == 0 {
		if c.table.shards != nil || c.members.peers != nil {
			return fmt.Errorf("coordinator: state is kept out of office")
		}
		return nil
	}
	if c.term.Generation() != c.view.Epoch.Generation() {
		return fmt.Errorf("coordinator: term %v is of another generation than view %v", c.term, c.view.Epoch)
	}
	open, inWrites := 0, c.writes.beingWritten()
	for i := range c.table.shards {
		if c.table.shards[i].phase.waits() {
			open++
		}
		if err := c.checkShard(protocol.ShardID(i), inWrites); err != nil {
			return err
		}
	}
	if open != c.table.open {
		return fmt.Errorf("coordinator: %d shards wait, but open is %d", open, c.table.open)
	}
	if err := c.table.hosted.checkCounts(c.table.shards); err != nil {
		return err
	}
	if err := c.table.chooser.checkCounts(); err != nil {
		return err
	}
	for n, p := range c.members.peers { // order-free: any will do
		if p.owed != 0 && !c.waiting() {
			return fmt.Errorf("coordinator: %v owes an answer, but no order is in flight", n)
		}
	}
	for _, n := range c.census.pending {
		if c.view.Member(n) == nil {
			return fmt.Errorf("coordinator: the census waits for %v outside the view", n)
		}
	}
	return nil
}

// checkCounts compares the counts with the shards.
func (h hostedShards) checkCounts(shards []shard) error {
	at := hostedShards{}
	for i := range shards {
		at.countShard(&shards[i], 1)
	}
	if !maps.Equal(at, h) {
		return fmt.Errorf("coordinator: shards are hosted as %v, the count is %v", at, h)
	}
	return nil
}

// checkCounts compares the kept counts with the shards.
func (ch *chooser) checkCounts() error {
	if ch.counts == nil {
		return nil
	}
	var st strategy.State
	at := ch.countShards(&st)
	if st.Moving != 0 || len(st.Moved) != 0 {
		return fmt.Errorf("coordinator: counts are kept while %d shards move and %d have moved lately", st.Moving, len(st.Moved))
	}
	kept := maps.Clone(ch.counts)
	maps.DeleteFunc(kept, func(_ gossip.NodeID, list []protocol.ShardID) bool { return len(list) == 0 })
	if !maps.EqualFunc(at, kept, slices.Equal) {
		return fmt.Errorf("coordinator: shards count as %v, kept is %v", at, kept)
	}
	return nil
}

func (c *Core) checkShard(id protocol.ShardID, inWrites map[protocol.ShardToken]bool) error {
	s := &c.table.shards[id]
	fail := func(what string) error {
		return fmt.Errorf("coordinator: shard %v in phase %v, home %v, token %v: %s", id, s.phase, s.home, s.token, what)
	}
	switch {
	case (s.home == 0) != (s.phase == free):
		return fail("home and phase disagree")
	case s.home != 0 && c.view.Member(s.home) == nil:
		return fail("home is outside the view")
	case (len(s.moveOf().closers) > 0) != (s.phase == closing):
		return fail("closers and phase disagree")
	case (s.move != nil) != s.phase.moves():
		return fail("move and phase disagree")
	case (s.waitOf().from == 0) != s.waitOf().ended.IsZero():
		return fail("a former home without the token of its allocation, or the other way round")
	case s.waitOf().prefer != 0 && s.phase != free:
		return fail("preference of a shard that has a home")
	case s.token.Term > c.term:
		return fail("token is from the future")
	case s.phase == writing && !inWrites[protocol.ShardToken{Shard: id, Token: s.token}]:
		return fail("its record is in no write")
	case !c.table.surveyed && s.phase > claimed:
		return fail("acted upon before the census is through")
	case c.table.surveyed && (s.phase == recorded || s.phase == claimed):
		return fail("recorded after the census")
	case s.served() && len(s.waitOf().waiters) > 0:
		return fail("served, and a node still waits")
	}
	return nil
}

// beingWritten returns the allocations whose records are in a write.
func (w *writes) beingWritten() map[protocol.ShardToken]bool {
	in := map[protocol.ShardToken]bool{}
	add := func(records []protocol.Record) {
		for i := range records {
			in[protocol.ShardToken{Shard: records[i].Shard, Token: records[i].Token}] = true
		}
	}
	add(w.records)
	for i := range w.flying {
		add(w.flying[i].Records)
	}
	for i := range w.unknown {
		add(w.unknown[i].Records)
	}
	return in
}

// Term returns the term in which office is held here, zero if it is not.
func (c *Core) Term() gossip.Epoch { return c.term }

// Settled reports whether this core is in office, the census is through, and
// nothing is under way: every shard that was ever wanted is hosted.
func (c *Core) Settled() bool {
	if c.term == 0 || !c.table.surveyed || c.waiting() {
		return false
	}
	for i := range c.table.shards {
		s := &c.table.shards[i]
		if s.phase != hosted && (s.phase != free || s.known || len(s.waitOf().waiters) > 0) {
			return false
		}
	}
	return true
}

// Homes returns the homes of all hosted shards as far as this coordinator has learned
// them. It returns none if this core is not in office.
func (c *Core) Homes() []protocol.Home {
	var out []protocol.Home
	for i := range c.table.shards {
		if s := &c.table.shards[i]; s.served() {
			out = append(out, protocol.Home{Shard: protocol.ShardID(i), Node: s.home, Token: s.token})
		}
	}
	return out
}
