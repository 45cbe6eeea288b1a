package replication

import (
	"maps"
	"slices"
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
// bring the key back. The same holds for an entry of a map under a durable key. So a
// deletion is kept for at least Retain, and a file that was away for longer is set aside.
//
// The members count *sweeps*, which are commits of the rounds of prune.go, sweepSteps of
// them in a Retain. Sweep t does two things, at all members or at none:
//
//	agreed     the leader names the deletions that it holds and that were not agreed
//	           before. Those that all members hold are agreed as of sweep t.
//	forgotten  deletions that were agreed as of sweep t-sweepsKept or before end.
//
// A file carries the sweep up to which it holds all agreed deletions. A file of sweep k
// has all deletions that are forgotten up to sweep k+sweepsKept. So it is merged if it
// missed fewer than sweepsKept sweeps, and is set aside otherwise: all keys that came from
// the file are removed (Effects.SetAside), and the peers fill the replica. One sweep less
// than could be missed, since a member that joins may meet one that it was not asked about.
//
// No clock decides what is forgotten or set aside. The running time of the leader only
// spaces the sweeps. That time is in the file, so restarts do not delay them, and it does
// not grow while all members are down: files of a cluster that was down for months have
// missed no sweep. A wall clock that is wrong or jumps has no effect.
//
// A replica agrees to a sweep only if it holds all deletions that are agreed already, and
// if all peers have acknowledged its entries from before the former sweep: those could
// bring back what is forgotten. A replica that joins, or learns of a higher sweep, holds
// the agreed deletions once it has taken over the state of every peer at that sweep.
//
// Generations of durable keys never get smaller: minGeneration is the highest that was
// forgotten, and a new key begins in the open generation above it (isOpen). So a deletion in a
// file that the cluster has forgotten deletes no key that was created since. A new key may have
// a value that its creator has not met: at members of an older sweep, or if the creator has just
// joined. The generation is open, so that value is not lost. For entries, maxForgottenStamp is the
// newest stamp that was forgotten: a new entry must be above it, also at a replica that
// joins with a file or without (barrier.inherited). Replicas that took part in the sweep
// hold the stamp in each map.
//
// A replica that has just loaded its file is *fresh*. It neither accepts nor sends state
// until it has learned the sweep: from any non-fresh member, from all members if all are
// fresh, or immediately if it is alone. So if all members come back with old files, the
// newest file decides, and no file is judged by its age alone. A fresh replica keeps its
// own writes.
//
// Three cases are not covered. Two parts of a cluster may both continue for longer than
// Retain (AssumeCrash). And a member that was away for longer than Retain may found the
// cluster anew before the members that continued arrive: it has then brought back keys
// that they had deleted and forgotten. Stats.LateFiles counts that. And a key that was deleted
// and created again may be created once more by a member that has met neither, in an open
// generation: an old file of a member that was away for less than Retain then brings back the
// deleted value.
//
// Rejected: an age by the wall clock (a clock that is set back merges any file, and one
// that is set forward sets all aside); an age for each deletion, in each file; comparing
// the rounds of prune.go (every short absence would cost the file); dropping the
// tombstones that a file brings (they may be the last copies of a deletion).

const (
	// sweepSteps is how many sweeps there are in a Retain, sweepsKept for how many an
	// agreed deletion is kept. An absence of less than a Retain misses at most sweepSteps.
	sweepSteps = 16
	sweepsKept = sweepSteps + 1
	// overEvery is the time between sweeps above Limits.Tombstones.
	overEvery = time.Minute
	// sweepDeletionsMax bounds the deletions that are agreed in one sweep.
	sweepDeletionsMax = 1 << 17
)

// Memory is the header of a file of durable keys.
type Memory struct {
	// Sweep is the sweep up to which the file holds all agreed deletions.
	Sweep, MinGeneration uint64
	// MaxForgottenStamp is the newest time of a forgotten deletion of a map entry.
	MaxForgottenStamp uint64
	// Ran is for how many milliseconds the file has been in use since the newest sweep.
	Ran uint64
	// Agreed has the agreed deletions. It is nil if they are not stored again.
	Agreed []AgreedDeletion
}

// AgreedDeletion is a deletion that all members held at a sweep.
type AgreedDeletion struct{ Print, Sweep uint64 }

// retention carries out sweeps, and decides whether the keys of an old file are merged.
type retention struct {
	*env
	members *members
	clocks  *clocks
	barrier *barrier
	values  *values
	store   *store
	stream  *stream
	table   *table

	// kept is the sweep up to which this replica holds all agreed deletions, promised the
	// sweep to which it has agreed last. Invariant: kept <= barrier.sweep.
	kept, promised uint64
	// agreed has the agreed deletions by their fingerprints, with their sweeps.
	agreed map[uint64]uint64
	// sweptAt is when the newest sweep reached this replica, or its start, mark the newest
	// own entry then. ranBefore is Memory.Ran at the start.
	sweptAt   clock.Instant
	mark      uint64
	ranBefore time.Duration

	// restored are the keys that came from the file; filed is set if there were any.
	restored []string
	filed    bool
	// reported has the peers whose Status has arrived while this replica is fresh.
	reported map[gossip.NodeID]bool
	// onSetAside is called after keys of the file have been removed.
	onSetAside func(now clock.Instant)
}

func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

// loadFile sets the header and the agreed deletions of a file.
func (rt *retention) loadFile(now clock.Instant, m Memory) {
	rt.now, rt.sweptAt, rt.ranBefore = now, now, time.Duration(m.Ran)*time.Millisecond
	rt.kept, rt.barrier.sweep, rt.barrier.minGeneration = m.Sweep, m.Sweep, m.MinGeneration
	rt.barrier.maxForgottenStamp, rt.barrier.inherited, rt.barrier.filed = m.MaxForgottenStamp, m.MaxForgottenStamp, m.MaxForgottenStamp
	for _, a := range m.Agreed {
		rt.agreed[a.Print] = a.Sweep
	}
	rt.restored = rt.keptKeys()
	rt.filed = len(rt.restored) > 0
	rt.barrier.fresh = rt.filed
	rt.reported = map[gossip.NodeID]bool{}
	rt.clocks.unjudged = rt.barrier.fresh && rt.cfg.Wall != nil
}

// fileHeader returns the header for the file, without the agreed deletions.
func (rt *retention) fileHeader(now clock.Instant) Memory {
	rt.now = max(rt.now, now)
	rt.advanceKept()
	return Memory{Sweep: rt.kept, MinGeneration: rt.barrier.minGeneration, MaxForgottenStamp: rt.barrier.maxForgottenStamp,
		Ran: millis(rt.ranBefore + rt.now.Sub(rt.sweptAt))}
}

// listAgreed returns the agreed deletions for the file, sorted.
func (rt *retention) listAgreed() []AgreedDeletion {
	out := make([]AgreedDeletion, 0, len(rt.agreed))
	for _, print := range slices.Sorted(maps.Keys(rt.agreed)) {
		out = append(out, AgreedDeletion{print, rt.agreed[print]})
	}
	return out
}

// advanceKept raises kept once the whole state of every peer at this sweep has been taken
// over.
func (rt *retention) advanceKept() {
	behind := func(p *peer) bool { return p.swept < rt.barrier.sweep }
	if !rt.barrier.fresh && rt.members.view != nil && !slices.ContainsFunc(rt.members.peers, behind) {
		rt.kept = rt.barrier.sweep
	}
}

// nextSweep returns when the leader's next sweep is due, clock.Never without deletions.
func (rt *retention) nextSweep() clock.Instant {
	step, forever := rt.cfg.Retain/sweepSteps, rt.cfg.Retain < 0
	switch over := rt.store.deletions > rt.cfg.Limits.Tombstones; {
	case rt.store.deletions == 0 && len(rt.agreed) == 0, !over && forever:
		return clock.Never
	case over && (forever || step > rt.cfg.overEvery):
		step = rt.cfg.overEvery
	}
	return rt.sweptAt.Add(step - rt.ranBefore)
}

// maySweep reports whether this replica agrees to a sweep.
func (rt *retention) maySweep() bool {
	rt.advanceKept()
	unsent := func(p *peer) bool { return p.acked < rt.mark }
	older := func(r *request) bool { return !r.done && r.seq <= rt.mark }
	return !rt.barrier.fresh && rt.kept == rt.barrier.sweep &&
		!slices.ContainsFunc(rt.members.peers, unsent) && !slices.ContainsFunc(rt.table.writes, older)
}

// newDeletions returns the fingerprints of deletions that are not agreed, sorted.
func (rt *retention) newDeletions() (out []uint64) {
	rt.store.eachDeletion(func(_ *item, _ string, print uint64) {
		if _, ok := rt.agreed[print]; !ok {
			out = append(out, print)
		}
	})
	slices.Sort(out)
	return out[:min(len(out), sweepDeletionsMax)]
}

// oldDeletions returns the agreed deletions that a sweep forgets, sorted.
func (rt *retention) oldDeletions(sweep uint64) (out []uint64) {
	for _, a := range rt.listAgreed() {
		if a.Sweep+sweepsKept <= sweep {
			out = append(out, a.Print)
		}
	}
	return out
}

// heldOf reports for each of some deletions whether this replica holds it.
func (rt *retention) heldOf(prints []uint64) []bool {
	here := map[uint64]bool{}
	rt.store.eachDeletion(func(_ *item, _ string, print uint64) { here[print] = true })
	out := make([]bool, len(prints))
	for i, print := range prints {
		out[i] = here[print]
	}
	return out
}

// sweep carries out the sweep of a commit.
func (rt *retention) sweep(m *Commit) {
	gone := map[uint64]bool{}
	for _, print := range m.Forgotten {
		gone[print] = true
		delete(rt.agreed, print)
	}
	for _, print := range m.Agreed {
		if _, before := rt.agreed[print]; !before { // a leader without a file asks again
			rt.agreed[print] = m.Sweep
		}
	}
	concerned := map[string]*item{}
	rt.store.eachDeletion(func(it *item, _ string, print uint64) {
		if gone[print] {
			concerned[it.key] = it
		}
	})
	for _, key := range slices.Sorted(maps.Keys(concerned)) {
		rt.forgetUnder(concerned[key], gone)
		rt.out.Forgotten = append(rt.out.Forgotten, key)
	}
	if rt.setSweep(max(rt.barrier.sweep, m.Sweep)); rt.promised == m.Sweep {
		rt.kept = m.Sweep
	}
}

// forgetUnder forgets deletions under a durable key: its own, or those of entries. A key
// that was created again, and an entry that was set again, stay as they are.
func (rt *retention) forgetUnder(it *item, gone map[uint64]bool) {
	if it.value == nil {
		rt.barrier.minGeneration = max(rt.barrier.minGeneration, it.gen)
		rt.values.removeItem(it)
		rt.stats.Pruned++
		return
	}
	it.copyIfPinned()
	dropped := it.value.(*entryMap).DropTombstones(func(entry string, s crdt.Stamp) bool {
		if !gone[entryPrint(it, entry, s)] {
			return false
		}
		rt.barrier.maxForgottenStamp = max(rt.barrier.maxForgottenStamp, s.Time)
		return true
	})
	rt.store.updateSums(it)
	rt.stats.Pruned += uint64(dropped)
}

// setSweep notes that this replica stands at a sweep.
func (rt *retention) setSweep(sweep uint64) {
	rt.barrier.sweep, rt.stream.shared = sweep, nil
	rt.sweptAt, rt.ranBefore, rt.mark = rt.now, 0, rt.stream.log.last()
}

// onStanding applies the sweep and the marks of a Status.
func (rt *retention) onStanding(p *peer, m *Status) {
	if rt.barrier.fresh || m.Floor <= rt.barrier.floor {
		// A replica at a lower floor learns the sweep with the Commit that it lacks.
		rt.raiseSweep(m.Sweep, m.MinGeneration)
	}
	if rt.barrier.maxForgottenStamp = max(rt.barrier.maxForgottenStamp, m.MaxForgottenStamp); rt.members.caughtUp == 0 {
		rt.barrier.inherited = max(rt.barrier.inherited, m.MaxForgottenStamp)
	}
	if !rt.barrier.fresh {
		return
	}
	rt.reported[p.id] = true
	if !m.Fresh || !rt.lacksReport() {
		rt.endFresh()
	}
}

// lacksReport reports whether the Status of some peer is still missing.
func (rt *retention) lacksReport() bool {
	return slices.ContainsFunc(rt.members.peers, func(p *peer) bool { return !rt.reported[p.id] })
}

// endFresh ends being fresh.
func (rt *retention) endFresh() {
	rt.barrier.fresh, rt.restored, rt.reported, rt.barrier.own = false, nil, nil, nil
}

// endFreshAlone ends being fresh if no peer is left to ask for the sweep.
func (rt *retention) endFreshAlone() {
	if rt.barrier.fresh && rt.members.view != nil && !rt.lacksReport() {
		rt.endFresh()
	}
}

// raiseSweep applies the sweep of another member.
func (rt *retention) raiseSweep(sweep, base uint64) {
	rt.barrier.minGeneration = max(rt.barrier.minGeneration, base)
	if sweep <= rt.barrier.sweep {
		return
	}
	missed := sweep - rt.kept
	switch stale := rt.filed && missed >= sweepsKept; {
	case stale && rt.barrier.fresh:
		rt.setAside()
	case stale:
		rt.stats.LateFiles++
		rt.traceEvent(TraceEvent{Kind: TraceLateFile})
	}
	rt.setSweep(sweep)
}

// setAside removes the keys that came from the file.
func (rt *retention) setAside() {
	for _, key := range rt.restored {
		rt.values.removeItem(rt.store.itemOf(key))
	}
	rt.stats.SetAside += uint64(len(rt.restored))
	rt.traceEvent(TraceEvent{Kind: TraceSetAside, Bytes: len(rt.restored)})
	rt.out.SetAside = true
	rt.restored, rt.filed = nil, false
	for i := range rt.barrier.own {
		// It has been decoded here before.
		_ = rt.values.mergeItem(nil, &rt.barrier.own[i], func(Refusal) {})
	}
	rt.onSetAside(rt.now)
}

// keptKeys returns the durable keys, deleted ones too, sorted.
func (rt *retention) keptKeys() (out []string) {
	for i := range rt.store.buckets {
		for key, it := range rt.store.buckets[i].items { // order-free: sorted below
			if it.kept {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}

// entryMap is the data type whose entries leave tombstones.
type entryMap = crdt.LWWMap[string, string]

// entryPrint is the fingerprint of an entry's tombstone.
func entryPrint(it *item, entry string, s crdt.Stamp) uint64 {
	h := xxh3.HashStringSeed(entry, it.hash)
	return fingerprint(h, it.gen, crdt.KindLWWMap, fingerprint(s.Time, s.Seq, 0, uint64(s.Node)))
}
