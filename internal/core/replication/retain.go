package replication

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/zeebo/xxh3"
)

// Durable keys and old files
//
// An old state of a durable key (Config.Keep) may come back at any time, in the file of a
// member that was away. The deletion of the key must still stand then, or the file would
// bring the key back. So replicas keep the deletion of a durable key for Retain of their
// running time, and accept no file that was away for longer. The same holds for an entry
// of a map under a durable key: its tombstone is a deletion like that of a key.
//
//   - A replica notes when it first saw a deletion (since, by the wall clock), and its
//     running time then (lived, which stands still while the replica is down, so a
//     cluster that was down for months has not aged). A deletion has *expired* after
//     Retain of running time; above Limits.Tombstones, once it is settled.
//   - Rounds forget expired deletions (prune.go), at all members or at none. The
//     *horizon* is the newest since that was forgotten so. It only grows, is in every
//     message that carries state, and is kept in the files.
//   - A replica tracks until when it had the deletions of all peers: every Status carries
//     the sum of the sender's, or, while they change, the sums of 64 parts of them. A
//     replica is *current* as of the time when each sum last equalled its own at every
//     peer, less evenMargin for differences between clocks. That time is kept in the file
//     too.
//   - A file whose current is before the cluster's horizon may lack a deletion that all
//     members have forgotten. No member can name the keys concerned: all keys that came
//     from the file are set aside (Effects.SetAside), and the peers fill the replica. A
//     file that is current has all forgotten deletions, and is merged.
//
// Generations of durable keys never get smaller: minGeneration is the highest that was
// forgotten, and a new key begins there. So a deletion in a file that the cluster has
// forgotten deletes no key that was created since. For entries, maxForgottenStamp is the
// newest stamp that was forgotten: a new entry must be above it, also at a replica that
// joins with a file or without (barrier.inherited). Replicas that took part in the round
// hold the stamp in each map.
//
// Entries are forgotten by name and stamp, not as the whole garbage of a value: in a map
// in use, some tombstone is always young.
//
// A replica that has just loaded its file is *fresh*. It neither accepts nor sends state
// until it has learned the horizon: from any non-fresh member, from all members if all
// are fresh, or immediately if it is alone. It keeps its own writes of that time.
//
// Two cases are not covered. Two parts of a cluster may both continue for longer than
// Retain (AssumeCrash). And a member that was away for longer than Retain may found the
// cluster anew before the members that continued arrive: it has then brought back keys
// that they had deleted and forgotten. Stats.LateHorizons counts that.
//
// Rejected: comparing how many rounds a file has missed (every short absence would cost
// the file, also when all members are down in turns); comparing times alone, without the
// sum (a member may be in the view, and have missed a deletion, for as long as a link is
// slow); dropping the tombstones that a file brings (they may be the last copies of a
// deletion).

// Memory is the header of a file of durable keys. Times are milliseconds of the wall
// clock, Lived milliseconds of running.
type Memory struct {
	// Current is the time up to which the file has the deletions of all members, 0 if
	// unknown. Horizon and MinGeneration are explained above.
	Current, Horizon, MinGeneration uint64
	// Lived is how long the file has been in use.
	Lived uint64
	// MaxForgottenStamp is the newest time of a forgotten deletion of a map entry.
	MaxForgottenStamp uint64
}

// DeletionRecord describes the deletion of a durable key or, with Inside, of an entry of
// its map: when the replica saw it, and how long the file had been in use then.
type DeletionRecord struct {
	Key          string
	Inside       bool
	Entry        string
	Since, Lived uint64
}

// evenMargin bounds the difference of members' clocks and the delay of frames.
const evenMargin = 10 * time.Minute

// retention keeps a replica current with the deletions of its peers, and decides whether
// the keys of an old file may be merged.
type retention struct {
	*env
	members   *members
	clocks    *clocks
	barrier   *barrier
	deletions *deletions
	values    *values
	store     *store
	stream    *stream

	// current as in Memory. found is current as the file had it, restored are the keys that
	// came from it. Without a file no key is stale.
	current, found uint64
	restored       []string
	heardFrom      map[gossip.NodeID]bool
	// onSetAside is called after keys of the file have been removed.
	onSetAside func(now clock.Instant)
}

func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

func (s *deletions) lived() uint64 { return s.livedBefore + millis(s.now.Sub(s.born)) }

// loadFile sets the header and the deletions of a file.
func (rt *retention) loadFile(now clock.Instant, m Memory, ended []DeletionRecord) {
	rt.now, rt.deletions.born = now, now
	rt.current, rt.barrier.horizon, rt.barrier.minGeneration, rt.deletions.livedBefore = m.Current, m.Horizon, m.MinGeneration, m.Lived
	rt.barrier.maxForgottenStamp, rt.barrier.inherited, rt.barrier.filed = m.MaxForgottenStamp, m.MaxForgottenStamp, m.MaxForgottenStamp
	rt.found = max(m.Current, m.Horizon)
	rt.deletions.restoreAges(m.Lived, ended, rt.found)
	for i := range rt.store.buckets {
		for key := range rt.store.buckets[i].items {
			if rt.kept(key) {
				rt.restored = append(rt.restored, key)
			}
		}
	}
	slices.Sort(rt.restored)
	rt.barrier.fresh = len(rt.restored) > 0
	rt.heardFrom = map[gossip.NodeID]bool{}
	rt.clocks.unjudged = rt.barrier.fresh && rt.cfg.Wall != nil
	if !rt.barrier.fresh {
		rt.found = math.MaxUint64
	}
}

// fileHeader returns the header for the file.
func (rt *retention) fileHeader(now clock.Instant) Memory {
	rt.now = max(rt.now, now)
	rt.advanceCurrent()
	return Memory{Current: rt.current, Horizon: rt.barrier.horizon, MinGeneration: rt.barrier.minGeneration, Lived: rt.deletions.lived(), MaxForgottenStamp: rt.barrier.maxForgottenStamp}
}

// advanceCurrent brings current up to date.
func (rt *retention) advanceCurrent() {
	rt.current = max(rt.current, rt.barrier.horizon)
	if rt.barrier.fresh || rt.members.view == nil {
		return
	}
	even := rt.now
	for _, p := range rt.members.peers {
		even = min(even, slices.Min(p.evenAt[:]))
	}
	if margin := millis(rt.cfg.evenMargin); even > 0 && rt.wallAt(even) > margin {
		rt.current = max(rt.current, rt.wallAt(even)-margin)
	}
}

// expired reports whether a deletion under a durable key may be forgotten.
func (s *deletions) expired(e deletion) bool {
	age, settled := s.lived()-e.lived, 2*millis(s.cfg.evenMargin)
	over := s.n > s.cfg.Limits.Tombstones
	return age >= millis(s.cfg.Retain) && s.cfg.Retain > 0 || over && age >= settled
}

// expiredUnder returns the expired deletions under a durable key: its own, or those of
// entries of its map, as many as fit into one drop.
func (s *deletions) expiredUnder(it *item) (d Drop, ok bool) {
	e := s.of[it.key]
	switch {
	case e == nil:
		return d, false
	case e.whole.print != 0:
		return Drop{Key: it.key, Gen: it.gen, Since: max(e.whole.since, 1)}, s.expired(e.whole)
	}
	e.updateDue(s.expired)
	d = Drop{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Since: 1}
	m, _ := it.value.(*entryMap)
	for i, size := len(e.due)-1, 0; i >= 0 && len(d.Deletions) < dropDeletionsMax && size < s.cfg.Limits.FrameBytes/4; i-- {
		entry := e.due[i]
		if x, still := e.inside[entry]; still && s.expired(x) {
			stamp, _ := m.Stamp(entry)
			d.Deletions, d.Since = append(d.Deletions, entryDeletion{entry, stamp}), max(d.Since, x.since)
			size += len(entry) + entryDeletionBytes
		}
	}
	return d, len(d.Deletions) > 0
}

// updateDue updates due. It scans all entries only if one may have expired and none is left of
// those that had at the last scan.
func (e *keyDeletions) updateDue(expired func(deletion) bool) {
	for n := len(e.due); n > 0; n-- {
		if x, still := e.inside[e.due[n-1]]; still && expired(x) {
			return
		}
		e.due = e.due[:n-1]
	}
	if !expired(deletion{lived: e.oldest}) {
		return
	}
	e.oldest = math.MaxUint64
	for entry, x := range e.inside { // order-free: sorted below
		if expired(x) {
			e.due = append(e.due, entry)
		}
		e.oldest = min(e.oldest, x.lived)
	}
	slices.SortFunc(e.due, func(a, b string) int { return strings.Compare(b, a) })
}

// onStanding applies the horizon and the marks of a Status.
func (rt *retention) onStanding(p *peer, m *Status) {
	if rt.barrier.fresh || m.Floor <= rt.barrier.floor {
		// A replica at a lower floor learns the horizon with the Commit that it lacks.
		rt.raiseHorizon(m.Horizon, m.MinGeneration)
	}
	if rt.barrier.maxForgottenStamp = max(rt.barrier.maxForgottenStamp, m.MaxForgottenStamp); rt.members.caughtUp == 0 {
		rt.barrier.inherited = max(rt.barrier.inherited, m.MaxForgottenStamp)
	}
	if !rt.barrier.fresh {
		return
	}
	rt.heardFrom[p.id] = true
	if !m.Fresh || !rt.hasUnheardPeer() {
		rt.endFresh()
	}
}

// hasUnheardPeer reports whether the Status of some peer is still missing.
func (rt *retention) hasUnheardPeer() bool {
	return slices.ContainsFunc(rt.members.peers, func(p *peer) bool { return !rt.heardFrom[p.id] })
}

// endFresh ends being fresh.
func (rt *retention) endFresh() {
	rt.barrier.fresh, rt.restored, rt.heardFrom, rt.barrier.own = false, nil, nil, nil
}

// endFreshAlone ends being fresh if no peer is left to ask for the horizon.
func (rt *retention) endFreshAlone() {
	if rt.barrier.fresh && rt.members.view != nil && !rt.hasUnheardPeer() {
		rt.endFresh()
	}
}

// raiseHorizon applies the horizon of another member.
func (rt *retention) raiseHorizon(horizon, base uint64) {
	rt.barrier.minGeneration = max(rt.barrier.minGeneration, base)
	if horizon <= rt.barrier.horizon {
		return
	}
	switch stale := rt.found < horizon; {
	case stale && rt.barrier.fresh:
		rt.setAside()
	case stale:
		rt.stats.LateHorizons++
		rt.traceEvent(TraceEvent{Kind: TraceLateHorizon})
	}
	rt.barrier.horizon, rt.stream.shared = horizon, nil
}

// setAside removes the keys that came from the file.
func (rt *retention) setAside() {
	for _, key := range rt.restored {
		rt.values.removeItem(rt.store.itemOf(key))
	}
	rt.stats.SetAside += uint64(len(rt.restored))
	rt.traceEvent(TraceEvent{Kind: TraceSetAside, Bytes: len(rt.restored)})
	rt.out.SetAside = true
	rt.restored, rt.found = nil, math.MaxUint64
	for i := range rt.barrier.own {
		// It has been decoded here before.
		_ = rt.values.mergeItem(nil, &rt.barrier.own[i], func(Refusal) {})
	}
	rt.onSetAside(rt.now)
}

// keptKeys returns the durable keys, deleted ones too, sorted.
func (rt *retention) keptKeys() []string {
	var out []string
	for key, e := range rt.deletions.of { // order-free: sorted below
		if e.whole.print != 0 {
			out = append(out, key)
		}
	}
	for _, key := range rt.store.liveNames("") {
		if rt.kept(key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// Deletions
//
// Deletions of durable keys, and of entries of maps under durable keys, each have an age.

// entryMap is the data type whose entries leave tombstones.
type entryMap = crdt.LWWMap[string, string]

// deletion is one deletion: when this replica saw it by the wall clock, and how long it had run
// then. Print is its share of the sums.
type deletion struct{ since, lived, print uint64 }

// keyDeletions holds the deletions under one durable key.
//
// Invariant: whole.print is 0 unless the key is deleted, and inside then empty; gen and era
// are those of the key; oldest is at most the least lived of inside.
type keyDeletions struct {
	gen    uint64
	era    uint8
	whole  deletion
	inside map[string]deletion
	oldest uint64
	// due are the entries that had expired at the last scan, the last ones first.
	due []string
}

// deletionParts is the number of sums into which deletions are divided. With one sum, two
// replicas would be found equal only in moments without deletions.
const deletionParts = 64

// deletionsQuiet is how long after a change a Status carries the sums by parts.
const deletionsQuiet = 10 * time.Second

// deletions holds all deletions under durable keys.
//
// Invariant: n counts them; sums has the sum of their prints, by the first bits of these.
type deletions struct {
	*env
	// livedBefore is Lived at the start of the core.
	livedBefore uint64
	born        clock.Instant
	of          map[string]*keyDeletions
	n           int
	sums        [deletionParts]uint64
	// movedAt is when they last changed.
	movedAt clock.Instant
}

func (s *deletions) countDeletion(e deletion, sign int) {
	s.n += sign
	s.sums[e.print/(1<<64/deletionParts)] += e.print * uint64(sign)
}

// forget removes the deletions under a key.
func (s *deletions) forget(key string) {
	e := s.of[key]
	if e == nil {
		return
	}
	if e.whole.print != 0 {
		s.countDeletion(e.whole, -1)
	}
	for _, x := range e.inside { // order-free: sums
		s.countDeletion(x, -1)
	}
	delete(s.of, key)
}

// forgetInside removes the deletion of an entry.
func (s *deletions) forgetInside(key, entry string) {
	e := s.of[key]
	if e == nil {
		return
	}
	if x, ok := e.inside[entry]; ok {
		s.countDeletion(x, -1)
		if delete(e.inside, entry); len(e.inside) == 0 {
			delete(s.of, key)
		}
	}
}

// addDeletion notes a deletion of the present.
func (s *deletions) addDeletion(it *item, entry string, print uint64) {
	e := s.of[it.key]
	if e == nil {
		e = &keyDeletions{gen: it.gen, era: it.era, oldest: math.MaxUint64}
		s.of[it.key] = e
	}
	x := deletion{s.wallAt(s.now), s.lived(), print}
	s.countDeletion(x, 1)
	s.movedAt = s.now
	if it.value == nil {
		e.whole = x
		return
	}
	if e.inside == nil {
		e.inside = map[string]deletion{}
	}
	e.inside[entry] = x
	e.oldest = min(e.oldest, x.lived)
}

// noteDeletions updates the deletions under an item after a change; delta was joined with
// its value, and is nil if the value was deleted.
func (s *deletions) noteDeletions(it *item, delta crdt.Value) {
	if !s.kept(it.key) {
		return
	}
	m, isMap := it.value.(*entryMap)
	if e := s.of[it.key]; e != nil && (e.gen != it.gen || e.era != it.era || !isMap || e.whole.print != 0) {
		s.forget(it.key)
		if e.era != it.era && isMap {
			delta = it.value // all have other stamps
		}
	}
	if it.value == nil {
		s.addDeletion(it, "", it.print)
		return
	}
	d, ok := delta.(*entryMap)
	if !isMap || !ok {
		return
	}
	for k := range d.All() { // order-free: each by itself
		s.noteInside(it, m, k)
	}
	for k := range d.Deleted() { // order-free: each by itself
		s.noteInside(it, m, k)
	}
}

// noteInside updates the deletion of one entry.
func (s *deletions) noteInside(it *item, m *entryMap, entry string) {
	if _, live := m.Get(entry); live {
		s.forgetInside(it.key, entry)
		return
	}
	stamp, _ := m.Stamp(entry)
	print := entryPrint(it, entry, stamp)
	if e := s.of[it.key]; e != nil && e.inside[entry].print == print {
		return
	}
	s.forgetInside(it.key, entry)
	s.addDeletion(it, entry, print)
}

// entryPrint is the fingerprint of an entry's tombstone.
func entryPrint(it *item, entry string, s crdt.Stamp) uint64 {
	h := xxh3.HashStringSeed(entry, it.hash)
	return fingerprint(h, it.gen, crdt.KindLWWMap, fingerprint(s.Time, s.Seq, 0, uint64(s.Node)))
}

// listRecords describes the deletions under a durable key, sorted by entry.
func (s *deletions) listRecords(key string) (out []DeletionRecord) {
	e := s.of[key]
	if e == nil {
		return nil
	}
	if e.whole.print != 0 {
		return []DeletionRecord{{Key: key, Since: e.whole.since, Lived: e.whole.lived}}
	}
	for entry, x := range e.inside { // order-free: sorted below
		out = append(out, DeletionRecord{Key: key, Inside: true, Entry: entry, Since: x.since, Lived: x.lived})
	}
	slices.SortFunc(out, func(a, b DeletionRecord) int { return strings.Compare(a.Entry, b.Entry) })
	return out
}

// restoreAges sets the ages of the deletions that a file has. All remaining ones
// under keys of the file count as new.
func (s *deletions) restoreAges(lived uint64, ended []DeletionRecord, found uint64) {
	young := func(x *deletion) { x.since, x.lived = s.wallAt(s.now), lived }
	for _, e := range s.of { // order-free: each by itself
		young(&e.whole)
		for entry, x := range e.inside { // order-free: each by itself
			young(&x)
			e.inside[entry] = x
		}
		e.oldest = lived
	}
	for _, f := range ended {
		e := s.of[f.Key]
		// A deletion that peers may lack counts as new, too.
		if e == nil || f.Since > found {
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

// statusSums returns the sums for a Status: the total, and for a while after a change the
// sums of the parts.
func (s *deletions) statusSums(quiet bool) []uint64 {
	if !quiet {
		return s.sums[:]
	}
	total := uint64(0)
	for _, v := range s.sums {
		total += v
	}
	return []uint64{total}
}

// compareSums notes which parts of a peer's deletions equal the own ones.
func (s *deletions) compareSums(p *peer, sums []uint64) {
	mine := s.statusSums(len(sums) == 1)
	if len(sums) != len(mine) {
		return
	}
	for i := range p.evenAt {
		if at := i * len(mine) / deletionParts; sums[at] == mine[at] {
			p.evenAt[i] = s.now
		}
	}
}
