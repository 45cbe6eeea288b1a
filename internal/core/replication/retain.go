package replication

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/zeebo/xxh3"
)

// Keys that come back
//
// Of a durable key (Config.Keep) an old state may come back at any time: in the file
// of a member that was away. Its deletion must stand then, or the file would bring it
// back. So a deleted durable key is kept for Retain of its members' time, and a file
// that was away for longer is not taken in. The same goes for an entry of a map under a
// durable key: its tombstone is an end like that of a key.
//
//   - A replica notes when it first saw a deletion (since, by the wall clock), and how
//     long it has run meanwhile (lived, which stands still while it is down: a cluster
//     that was down for months has not waited for anybody). It is ripe when it has been
//     there for Retain; or, from Limits.Tombstones on, when it is settled.
//   - Ripe ones are forgotten in rounds like everything else (prune.go), by all members
//     or by none. The *horizon* is the newest since that was forgotten so. It only
//     grows, goes with all that carries state, and is kept in the files.
//   - A replica knows up to when its deletions were those of all others: every Status
//     carries the sum of the sender's, or, while they change, the sums of 64 parts of
//     them. When each was last equal to its own at every peer, less evenMargin for what
//     the clocks differ, the replica is *current*. That is kept in the file too.
//   - A file whose current is before the horizon that the cluster tells may lack a
//     deletion that nobody can tell it any more. Nobody knows which of its keys those
//     are: all that came from it is set aside (Effects.SetAside), and the replica is
//     filled by the others. A file that is current has all that was forgotten, and joins.
//
// Generations of durable keys are never made smaller: base is the highest that was
// forgotten, and a new key begins there. So a deletion in a file, forgotten by the
// cluster, ends nothing that was created since. Of entries the ceiling is kept in the
// same way, the newest stamp that was forgotten: what is set anew must be above, at who
// comes with a file or without (Core.Inherited). Who was there knows it of each map.
//
// Entries are forgotten by name and stamp, not as all that a value can do without: of a
// map in use, some tombstone is always young.
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
	// Ceiling is the newest time of a map entry's end that was forgotten.
	Ceiling uint64
}

// Ended is a durable key that is deleted, or, with Inside, an entry of its map: when that
// was seen, and how long the file had been in use then.
type Ended struct {
	Key          string
	Inside       bool
	Entry        string
	Since, Lived uint64
}

// evenMargin is what the clocks of members may differ, and frames may take.
const evenMargin = 10 * time.Minute

// retaining is the part of the core that knows about durable keys.
//
// Invariant: ends has the deletions under durable keys; fresh only while nothing was
// taken from others.
type retaining struct {
	ends ends
	// current, horizon and base as in Memory. Found is current as the file had it,
	// of which restored says which keys came from it; without a file nothing is stale.
	current, horizon, base uint64
	found                  uint64
	restored               []string
	fresh                  bool
	heard                  map[gossip.NodeID]bool
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
	if c.blunder != blunderNoCeiling {
		c.ceiling, c.inherited, c.filed = m.Ceiling, m.Ceiling, m.Ceiling
	}
	c.found = max(m.Current, m.Horizon)
	c.recallEnds(m.Lived, ended)
	for i := range c.store.buckets {
		for key := range c.store.buckets[i].items {
			if c.kept(key) {
				c.restored = append(c.restored, key)
			}
		}
	}
	slices.Sort(c.restored)
	c.fresh = len(c.restored) > 0 && c.blunder != blunderNotFresh
	c.heard = map[gossip.NodeID]bool{}
	c.unjudged = c.fresh && c.cfg.Wall != nil
	if !c.fresh {
		c.found = math.MaxUint64
	}
}

// Memory returns what a file has to say beside its keys.
func (c *Core) Memory(now clock.Instant) Memory {
	c.now = max(c.now, now)
	c.moveOn()
	return Memory{Current: c.current, Horizon: c.horizon, Base: c.base, Lived: c.lived(), Ceiling: c.ceiling}
}

// moveOn brings current up to date.
func (c *Core) moveOn() {
	c.current = max(c.current, c.horizon)
	if c.fresh || c.view == nil {
		return
	}
	even := c.now
	for _, p := range c.peers {
		even = min(even, slices.Min(p.evenAt[:]))
	}
	if margin := millis(c.cfg.evenMargin); even > 0 && c.wall(even) > margin {
		c.current = max(c.current, c.wall(even)-margin)
	}
}

// ripe reports whether a deletion under a durable key may be forgotten.
func (c *Core) ripe(e end) bool {
	age, settled := c.lived()-e.lived, 2*millis(c.cfg.evenMargin)
	if c.blunder == blunderWallAge {
		age = c.wall(c.now) - e.since
	}
	over := c.ends.n > c.cfg.Limits.Tombstones
	return age >= millis(c.cfg.Retain) && c.cfg.Retain > 0 || over && age >= settled
}

// ripeUnder returns what may be forgotten under a durable key: its deletion, or those of
// entries of its map, as many as fit into a line of a round.
func (c *Core) ripeUnder(it *item) (d Drop, ok bool) {
	e := c.ends.of[it.key]
	switch {
	case e == nil:
		return d, false
	case e.whole.print != 0:
		return Drop{Key: it.key, Gen: it.gen, Since: max(e.whole.since, 1)}, c.ripe(e.whole)
	}
	e.look(c.ripe)
	d = Drop{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Since: 1}
	m, _ := it.value.(*entryMap)
	for i, size := len(e.due)-1, 0; i >= 0 && len(d.Ends) < dropEndsMax && size < c.cfg.Limits.FrameBytes/4; i-- {
		entry := e.due[i]
		if x, still := e.inside[entry]; still && c.ripe(x) {
			stamp, _ := m.Stamp(entry)
			d.Ends, d.Since = append(d.Ends, entryEnd{entry, stamp}), max(d.Since, x.since)
			size += len(entry) + entryEndBytes
		}
	}
	return d, len(d.Ends) > 0
}

// look brings due up to date. It looks at every entry only if one may be ripe and none
// is left of those that were so at the last look.
func (e *keyEnds) look(ripe func(end) bool) {
	for n := len(e.due); n > 0; n-- {
		if x, still := e.inside[e.due[n-1]]; still && ripe(x) {
			return
		}
		e.due = e.due[:n-1]
	}
	if !ripe(end{lived: e.oldest}) {
		return
	}
	e.oldest = math.MaxUint64
	for entry, x := range e.inside { // order-free: sorted below
		if ripe(x) {
			e.due = append(e.due, entry)
		}
		e.oldest = min(e.oldest, x.lived)
	}
	slices.SortFunc(e.due, func(a, b string) int { return strings.Compare(b, a) })
}

// planRipe sets when the leader next looks for what has become ripe.
func (c *Core) planRipe() {
	switch {
	case !c.leads() || c.ends.n == 0:
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
	for key, e := range c.ends.of { // order-free: marks only
		if e.whole.print != 0 && c.ripe(e.whole) || e.whole.print == 0 && c.ripe(end{lived: e.oldest}) {
			c.store.suspect(&c.store.buckets[bucketOf(c.store.get(key).hash)])
		}
	}
}

// hearStanding takes in what a Status says about its sender's standing.
func (c *Core) hearStanding(p *peer, m *Status) {
	if c.fresh || m.Floor <= c.floor {
		// Who is behind learns the horizon with the Commit that it lacks.
		c.raise(m.Horizon, m.Base)
	}
	if c.ceiling = max(c.ceiling, m.Ceiling); c.caughtUp == 0 {
		c.inherited = max(c.inherited, m.Ceiling)
	}
	if !c.fresh {
		return
	}
	c.heard[p.id] = true
	if !m.Fresh || !c.silence() {
		c.establish()
	}
}

// silence reports whether there is a peer that has not been heard yet.
func (c *Core) silence() bool {
	return slices.ContainsFunc(c.peers, func(p *peer) bool { return !c.heard[p.id] })
}

// establish ends being fresh.
func (c *Core) establish() {
	c.fresh, c.restored, c.heard, c.own = false, nil, nil, nil
}

// standAlone ends being fresh if no peer is left to ask for the horizon.
func (c *Core) standAlone() {
	if c.fresh && c.view != nil && !c.silence() {
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
		c.vanish(c.store.get(key))
	}
	c.stats.SetAside += uint64(len(c.restored))
	c.trace(TraceEvent{Kind: TraceSetAside, Bytes: len(c.restored)})
	c.out.SetAside = true
	c.restored, c.found = nil, math.MaxUint64
	for i := range c.own {
		// It was decoded here before.
		_ = c.takeItem(nil, &c.own[i], func(Refusal) {})
	}
	for _, id := range slices.Sorted(maps.Keys(c.requests)) {
		// Who was asked has answered what it has beyond what is gone.
		if r := c.requests[id]; r.phase == reading || r.phase == stamping {
			c.askAnew(c.now, r)
		}
	}
}

// KeptKeys returns the durable keys, deleted ones too, sorted.
func (c *Core) KeptKeys() []string {
	var out []string
	for key, e := range c.ends.of { // order-free: sorted below
		if e.whole.print != 0 {
			out = append(out, key)
		}
	}
	for _, key := range c.store.names("") {
		if c.kept(key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// Ends
//
// Deletions of durable keys, and of entries of maps under durable keys, are *ends*. Each
// has its age.

// entryMap is the data type whose entries leave tombstones.
type entryMap = crdt.LWWMap[string, string]

// end is one deletion: when this replica saw it by the wall clock, and how long it had run
// then. Print is its share of the sums.
type end struct{ since, lived, print uint64 }

// keyEnds is what is known of the deletions under one durable key.
//
// Invariant: whole.print is 0 unless the key is deleted, and inside then empty; gen and era
// are those of the key; oldest is at most the least lived of inside.
type keyEnds struct {
	gen    uint64
	era    uint8
	whole  end
	inside map[string]end
	oldest uint64
	// due are entries that were ripe at the last look, the last ones first.
	due []string
}

// endParts is the number of sums that ends are divided into. With one sum, two replicas
// would only ever be found equal in moments without deletions.
const endParts = 64

// endsQuiet is for how long after a change the sums are told by parts.
const endsQuiet = 10 * time.Second

// ends is all that is known of deletions.
//
// Invariant: n counts them; sums has the sum of their prints, by the first bits of these.
type ends struct {
	of   map[string]*keyEnds
	n    int
	sums [endParts]uint64
	// movedAt is when they last changed.
	movedAt clock.Instant
}

func (s *ends) count(e end, sign int) {
	s.n += sign
	s.sums[e.print/(1<<64/endParts)] += e.print * uint64(sign)
}

// forget takes out what is known of a key.
func (s *ends) forget(key string) {
	e := s.of[key]
	if e == nil {
		return
	}
	if e.whole.print != 0 {
		s.count(e.whole, -1)
	}
	for _, x := range e.inside { // order-free: sums
		s.count(x, -1)
	}
	delete(s.of, key)
}

// forgetInside takes out what is known of an entry.
func (s *ends) forgetInside(key, entry string) {
	e := s.of[key]
	if e == nil {
		return
	}
	if x, ok := e.inside[entry]; ok {
		s.count(x, -1)
		if delete(e.inside, entry); len(e.inside) == 0 {
			delete(s.of, key)
		}
	}
}

// addEnd notes an end of now.
func (c *Core) addEnd(it *item, entry string, print uint64) {
	e := c.ends.of[it.key]
	if e == nil {
		e = &keyEnds{gen: it.gen, era: it.era, oldest: math.MaxUint64}
		c.ends.of[it.key] = e
	}
	x := end{c.wall(c.now), c.lived(), print}
	c.ends.count(x, 1)
	c.ends.movedAt = c.now
	if it.value == nil {
		e.whole = x
		return
	}
	if e.inside == nil {
		e.inside = map[string]end{}
	}
	e.inside[entry] = x
	e.oldest = min(e.oldest, x.lived)
}

// noteEnds keeps the ends under it up to date after a change; delta is what has been
// joined with its value, nil if that is gone.
func (c *Core) noteEnds(it *item, delta crdt.Value) {
	if !c.kept(it.key) {
		return
	}
	m, isMap := it.value.(*entryMap)
	if e := c.ends.of[it.key]; e != nil && (e.gen != it.gen || e.era != it.era || !isMap || e.whole.print != 0) {
		c.ends.forget(it.key)
		if e.era != it.era && isMap {
			delta = it.value // all have other stamps
		}
	}
	if it.value == nil {
		c.addEnd(it, "", it.print)
		return
	}
	d, ok := delta.(*entryMap)
	if !isMap || !ok {
		return
	}
	for k := range d.All() { // order-free: each by itself
		c.noteInside(it, m, k)
	}
	for k := range d.Deleted() { // order-free: each by itself
		c.noteInside(it, m, k)
	}
}

// noteInside keeps what is known of one entry up to date.
func (c *Core) noteInside(it *item, m *entryMap, entry string) {
	if _, live := m.Get(entry); live {
		c.ends.forgetInside(it.key, entry)
		return
	}
	stamp, _ := m.Stamp(entry)
	print := entryPrint(it, entry, stamp)
	if e := c.ends.of[it.key]; e != nil && e.inside[entry].print == print {
		return
	}
	c.ends.forgetInside(it.key, entry)
	c.addEnd(it, entry, print)
}

// entryPrint is the fingerprint of an entry's tombstone.
func entryPrint(it *item, entry string, s crdt.Stamp) uint64 {
	h := xxh3.HashStringSeed(entry, it.hash)
	return fingerprint(h, it.gen, crdt.KindLWWMap, fingerprint(s.Time, s.Seq, 0, uint64(s.Node)))
}

// Ended describes the deletions under a durable key: its own, or those of entries of its
// map, in the order of their names. There are none under a key that is not durable.
func (c *Core) Ended(key string) (out []Ended) {
	e := c.ends.of[key]
	if e == nil {
		return nil
	}
	if e.whole.print != 0 {
		return []Ended{{Key: key, Since: e.whole.since, Lived: e.whole.lived}}
	}
	for entry, x := range e.inside { // order-free: sorted below
		out = append(out, Ended{Key: key, Inside: true, Entry: entry, Since: x.since, Lived: x.lived})
	}
	slices.SortFunc(out, func(a, b Ended) int { return strings.Compare(a.Entry, b.Entry) })
	return out
}

// recallEnds takes in the ages of deletions that a file has. All others under keys of the
// file are as good as new.
func (c *Core) recallEnds(lived uint64, ended []Ended) {
	young := func(x *end) { x.since, x.lived = c.wall(c.now), lived }
	for _, e := range c.ends.of { // order-free: each by itself
		young(&e.whole)
		for entry, x := range e.inside { // order-free: each by itself
			young(&x)
			e.inside[entry] = x
		}
		e.oldest = lived
	}
	if c.blunder == blunderNewAges {
		return
	}
	for _, f := range ended {
		e := c.ends.of[f.Key]
		// One that others may not have is as good as new, too.
		if e == nil || f.Since > c.found && c.blunder != blunderUnconfirmed {
			continue
		}
		old := min(f.Lived, lived)
		if x, ok := e.inside[f.Entry]; ok && f.Inside {
			x.since, x.lived = f.Since, old
			e.inside[f.Entry], e.oldest = x, min(e.oldest, old)
		} else if !f.Inside {
			e.whole.since, e.whole.lived = f.Since, old
		}
	}
}

// told returns what a Status says of the ends: their sum, and for a while after a change
// the sums that it consists of.
func (s *ends) told(quiet bool) []uint64 {
	if !quiet {
		return s.sums[:]
	}
	total := uint64(0)
	for _, v := range s.sums {
		total += v
	}
	return []uint64{total}
}

// hearEnds notes which ends of a peer's are the same as here.
func (c *Core) hearEnds(p *peer, sums []uint64) {
	mine := c.ends.told(len(sums) == 1)
	if len(sums) != len(mine) {
		return
	}
	for i := range p.evenAt {
		if at := i * len(mine) / endParts; sums[at] == mine[at] || c.blunder == blunderAnyEven {
			p.evenAt[i] = c.now
		}
	}
}
