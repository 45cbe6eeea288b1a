package core

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// Keys that come back
//
// Of a durable key (Config.Keep) an old state may come back at any time: in the file
// of a member that was away. Its deletion must stand then, or the file would bring it
// back. So a deleted durable key is kept for Retain of its members' time, and a file
// that was away for longer is not taken in:
//
//   - A replica notes when it first saw a deletion (since, by the wall clock), and how
//     long it has run meanwhile (lived, which stands still while it is down: a cluster
//     that was down for months has not waited for anybody). It is ripe when it has been
//     there for Retain; or, from Limits.Tombstones on, when it is settled.
//   - Ripe ones are forgotten in rounds like everything else (prune.go), by all members
//     or by none. The *horizon* is the newest since that was forgotten so. It only
//     grows, goes with all that carries state, and is kept in the files.
//   - A replica knows up to when its deletions were those of all others: every Status
//     carries the sum of the sender's. When it was last equal to its own at every
//     peer, less evenMargin for what the clocks differ, the replica is *current*. That
//     is kept in the file too.
//   - A file whose current is before the horizon that the cluster tells may lack a
//     deletion that nobody can tell it any more. Nobody knows which of its keys those
//     are: all that came from it is set aside (Effects.SetAside), and the replica is
//     filled by the others. A file that is current has all that was forgotten, and joins.
//
// Generations of durable keys are never made smaller: base is the highest that was
// forgotten, and a new key begins there. So a deletion in a file, forgotten by the
// cluster, ends nothing that was created since.
//
// Who has just read its file is *fresh*: it takes no state and gives none until it
// knows the horizon, from any member that is not fresh, from all if all are, or because
// it is alone. What it has written itself meanwhile it keeps.
//
// What it does not cover: two parts of a cluster that both go on for longer than
// Retain (AssumeCrash), and a start in which a member that was away for longer than
// Retain founds the cluster anew before those come that went on: what they had deleted
// and forgotten, it has brought back. That is counted (Stats.LateHorizons).
//
// Rejected: comparing how many rounds a file has missed (every short absence would cost
// the file, also when all are down in turns); comparing times alone, without the sum (a
// member may be in the view, and have missed a deletion, for as long as a link is slow);
// dropping the tombstones that a file brings (they may be all that is left of a deletion).

// Memory is what a file of durable keys says beside the keys. Times are milliseconds of
// the wall clock, Lived milliseconds of running.
type Memory struct {
	// Current is up to when the file has the deletions that all members had, 0 for not
	// known; Horizon and Base are explained above.
	Current, Horizon, Base uint64
	// Lived is how long the file has been in use.
	Lived uint64
}

// Ended is a durable key that is deleted: when that was seen, and how long the file had
// been in use then.
type Ended struct {
	Key          string
	Since, Lived uint64
}

// evenMargin is what the clocks of members may differ, and frames may take.
const evenMargin = 10 * time.Minute

// end is what is known of one deletion.
type end struct{ since, lived, print uint64 }

// retaining is the part of the core that knows about durable keys.
//
// Invariant: ends has the deleted durable keys, endSum the sum of their prints; fresh
// only while nothing was taken from others.
type retaining struct {
	ends   map[string]end
	endSum uint64
	// current, horizon and base as in Memory. Found is current as the file had it,
	// of which restored says which keys came from it; without a file nothing is stale.
	current, horizon, base uint64
	found                  uint64
	restored               []string
	fresh                  bool
	heard                  map[view.NodeID]bool
	// own is what was written here while fresh.
	own []Item
	// livedBefore is Lived at birth.
	livedBefore uint64
	born        clock.Instant
	ripenAt     clock.Instant
}

func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

func (c *Core) wall(at clock.Instant) uint64 { return c.cfg.WallMillis + millis(at.Sub(0)) }

func (c *Core) lived() uint64 { return c.livedBefore + millis(c.now.Sub(c.born)) }

// Recall takes in what a file says beside its keys, after Restore and before the first
// Step.
func (c *Core) Recall(now clock.Instant, m Memory, ended []Ended) {
	c.now, c.born = now, now
	c.current, c.horizon, c.base, c.livedBefore = m.Current, m.Horizon, m.Base, m.Lived
	c.found = max(m.Current, m.Horizon)
	for key, e := range c.ends { // order-free: each by itself
		e.since, e.lived = c.wall(now), m.Lived
		c.ends[key] = e
	}
	for _, e := range ended {
		// One that others may not have is as good as new.
		have, ok := c.ends[e.Key]
		if ok && (e.Since <= c.found || c.blunder == blunderUnconfirmed) && c.blunder != blunderNewAges {
			have.since, have.lived = e.Since, min(e.Lived, m.Lived)
			c.ends[e.Key] = have
		}
	}
	for i := range c.store.buckets {
		for key := range c.store.buckets[i].items {
			if c.kept(key) {
				c.restored = append(c.restored, key)
			}
		}
	}
	slices.Sort(c.restored)
	c.fresh = len(c.restored) > 0 && c.blunder != blunderNotFresh
	c.heard = map[view.NodeID]bool{}
	if !c.fresh {
		c.found = math.MaxUint64
	}
}

// Memory returns what a file has to say beside its keys.
func (c *Core) Memory(now clock.Instant) Memory {
	c.now = max(c.now, now)
	c.moveOn()
	return Memory{Current: c.current, Horizon: c.horizon, Base: c.base, Lived: c.lived()}
}

// Ended describes the end of a durable key; ok is false for one that lives, or is not
// known.
func (c *Core) Ended(key string) (e Ended, ok bool) {
	have, ok := c.ends[key]
	return Ended{Key: key, Since: have.since, Lived: have.lived}, ok
}

// moveOn brings current up to date.
func (c *Core) moveOn() {
	c.current = max(c.current, c.horizon)
	if c.fresh || c.view == nil {
		return
	}
	even := c.now
	for _, p := range c.peers {
		even = min(even, p.evenAt)
	}
	if margin := millis(c.cfg.evenMargin); even > 0 && c.wall(even) > margin {
		c.current = max(c.current, c.wall(even)-margin)
	}
}

// noteEnd keeps ends up to date after a change of it.
func (c *Core) noteEnd(it *item) {
	if c.cfg.Keep == nil || !c.kept(it.key) {
		return
	}
	c.forgetEnd(it.key)
	if it.value == nil {
		c.ends[it.key] = end{c.wall(c.now), c.lived(), it.print}
		c.endSum += it.print
	}
}

func (c *Core) forgetEnd(key string) {
	if e, ok := c.ends[key]; ok {
		c.endSum -= e.print
		delete(c.ends, key)
	}
}

// ripe reports whether the deletion of a durable key may be forgotten.
func (c *Core) ripe(it *item) (d Drop, ok bool) {
	e, ended := c.ends[it.key]
	if !ended {
		return d, false
	}
	age, settled := c.lived()-e.lived, 2*millis(c.cfg.evenMargin)
	if c.blunder == blunderWallAge {
		age = c.wall(c.now) - e.since
	}
	over := c.store.tombs > c.cfg.Limits.Tombstones
	return Drop{Key: it.key, Gen: it.gen, Since: max(e.since, 1)}, age >= millis(c.cfg.Retain) && c.cfg.Retain > 0 || over && age >= settled
}

// planRipe sets when the leader next looks for what has become ripe.
func (c *Core) planRipe() {
	switch {
	case !c.leads() || len(c.ends) == 0:
		c.ripenAt = clock.Never
	case c.ripenAt == clock.Never:
		every := c.cfg.evenMargin
		if c.cfg.Retain > 0 {
			every = min(every, c.cfg.Retain/32)
		}
		c.ripenAt = c.now.Add(max(every, c.cfg.PruneEvery))
	}
}

// ripen marks what has become ripe as worth a look.
func (c *Core) ripen() {
	c.ripenAt = clock.Never
	for key := range c.ends { // order-free: marks only
		it := c.store.get(key)
		if _, ok := c.ripe(it); ok {
			c.store.suspect(&c.store.buckets[bucketOf(it.hash)])
		}
	}
}

// hearStanding takes in what a Status says about its sender's standing.
func (c *Core) hearStanding(p *peer, m *Status) {
	if c.fresh || m.Floor <= c.floor {
		// Who is behind learns the horizon with the Commit that it lacks.
		c.raise(m.Horizon, m.Base)
	}
	if !c.fresh {
		return
	}
	c.heard[p.id] = true
	silent := func(p *peer) bool { return !c.heard[p.id] }
	if !m.Fresh || !slices.ContainsFunc(c.peers, silent) {
		c.establish()
	}
}

// establish ends being fresh.
func (c *Core) establish() {
	c.fresh, c.restored, c.heard, c.own = false, nil, nil, nil
}

// standAlone: nobody is there to be asked for the horizon.
func (c *Core) standAlone() {
	if silent := func(p *peer) bool { return !c.heard[p.id] }; c.fresh && c.view != nil && !slices.ContainsFunc(c.peers, silent) {
		c.establish()
	}
}

// raise takes in a horizon that another member tells.
func (c *Core) raise(horizon, base uint64) {
	c.base = max(c.base, base)
	if horizon <= c.horizon {
		return
	}
	switch stale := c.found < horizon && c.blunder != blunderNoHorizon; {
	case stale && c.fresh:
		c.setAside()
	case stale:
		c.stats.LateHorizons++
		c.trace(TraceEvent{Kind: TraceLateHorizon})
	}
	c.horizon, c.shared = horizon, nil
}

// setAside takes out what came from the file.
func (c *Core) setAside() {
	for _, key := range c.restored {
		it := c.store.get(key)
		c.forgetEnd(key)
		c.changed(it)
		c.store.remove(it)
		c.forgetEnd(key)
	}
	c.stats.SetAside += uint64(len(c.restored))
	c.trace(TraceEvent{Kind: TraceSetAside, Bytes: len(c.restored)})
	c.out.SetAside = true
	c.restored, c.found = nil, math.MaxUint64
	for i := range c.own {
		// It was decoded here before.
		_ = c.takeItem(&c.own[i])
	}
	for _, id := range slices.Sorted(maps.Keys(c.requests)) {
		// Who was asked has answered what it has beyond what is gone.
		if r := c.requests[id]; r.phase == reading {
			c.askAnew(c.now, r)
		}
	}
}

// KeptKeys returns the durable keys, deleted ones too, sorted.
func (c *Core) KeptKeys() []string {
	out := slices.Collect(maps.Keys(c.ends))
	for _, key := range c.store.names("") {
		if c.kept(key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
