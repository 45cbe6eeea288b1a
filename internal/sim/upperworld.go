package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/sharding/coordinator"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/region"
)

// upperWorld is what the checkers of the upper layers know of the whole.
type upperWorld struct {
	messages *invariant.Messages
	durable  invariant.Durable
	// written are the allocations whose write was acknowledged.
	written map[protocol.ShardToken]bool

	told, handled, dropped int
	// misplaced counts the messages that a wrong home refused and that could not go
	// back without overtaking.
	misplaced int
	// untaken are the allocations that ended because nobody was left to take the
	// shard: all members drain. Then messages have no place to go.
	untaken map[protocol.ShardToken]bool
}

// misplace counts messages to an allocation that were lost because its node
// refused them.
func (w *world) misplace(s protocol.ShardID, t protocol.Token, n int) {
	w.dropped += n
	if !w.untaken[protocol.ShardToken{Shard: s, Token: t}] {
		w.misplaced += n
	}
}

func (w *world) startUpperWorld() {
	w.messages = invariant.NewMessages()
	w.written, w.untaken = map[protocol.ShardToken]bool{}, map[protocol.ShardToken]bool{}
}

const (
	servedBound   = 15 * time.Second
	probeEvery    = 500 * time.Millisecond
	convergeBound = 10 * time.Second
)

// endUpperLiveness asks L1 and L6 of the hosts in q: every process among them gets
// a message to every shard, each shard lives once, and replicas become equal.
func (w *world) endUpperLiveness(q map[int]bool) {
	if w.cfg.ViewsOnly || w.swarm.minMembers > len(q) || w.swarm.wrongEvidence || w.driftBroken {
		return
	}
	from := w.now
	for _, p := range w.running() {
		clear(p.upper.probed)
	}
	next := w.now
	if !w.untilTrue(servedBound, 20*time.Millisecond, func() bool {
		if w.now >= next {
			next = w.now.add(probeEvery)
			w.probe(q)
		}
		return w.served(q)
	}) {
		w.fail("L6", "not every shard is served %v after the cluster was whole: %s", servedBound, w.unserved(q))
	}
	w.event(nil, "settled: shards", uint64(w.now.sub(from)), func() string { return w.now.sub(from).String() })
	if !w.untilTrue(convergeBound, 100*time.Millisecond, func() bool { return w.converged(q) }) {
		w.fail("L2", "replicas differ %v after heal", convergeBound)
	}
}

// probe sends a message from each process to each shard that has not answered.
func (w *world) probe(q map[int]bool) {
	for i := range w.hosts {
		p := w.hosts[i].proc
		if !q[i] || p == nil || !p.upper.on {
			continue
		}
		for s := range min(w.swarm.shards, w.swarm.entities) {
			if !p.upper.probed[protocol.ShardID(s)] {
				p.run(func() { p.upper.tell(s, true) })
			}
		}
	}
}

func (w *world) served(q map[int]bool) bool {
	for i := range w.hosts {
		p := w.hosts[i].proc
		if !q[i] {
			continue
		}
		if p == nil || !p.upper.on || len(p.upper.probed) < min(w.swarm.shards, w.swarm.entities) {
			return false
		}
	}
	return true
}

func (w *world) unserved(q map[int]bool) string {
	var b strings.Builder
	for i := range w.hosts {
		p := w.hosts[i].proc
		if !q[i] || p == nil || !p.upper.on {
			continue
		}
		for s := range min(w.swarm.shards, w.swarm.entities) {
			if !p.upper.probed[protocol.ShardID(s)] {
				rt := &p.upper.routes[s]
				fmt.Fprintf(&b, "%s -> %d (route open %v suspended %v home %s buf %d, live %v); ", p.label, s, rt.open, rt.suspended, w.name(rt.home), len(rt.buf), w.names(w.hosting.Live(protocol.ShardID(s))))
			}
		}
	}
	return b.String()
}

// converged reports whether the replicas of q are equal (L2).
func (w *world) converged(q map[int]bool) bool {
	first, seen := uint64(0), false
	for i := range w.hosts {
		p := w.hosts[i].proc
		if !q[i] || p == nil || !p.upper.on {
			continue
		}
		d := p.upper.repl.core.Digest()
		if seen && d != first {
			return false
		}
		first, seen = d, true
	}
	return true
}

// upperMarks names the trace kinds of the upper layers that are rare states.
var upperMarks = map[string]mark{
	coordinator.TraceMove:         markMove,
	coordinator.TraceCancel:       markMoveCancelled,
	coordinator.TraceClaim:        markClaim,
	coordinator.TraceClaimStale:   markClaimStale,
	coordinator.TraceStillServed:  markStillServed,
	coordinator.TraceWriteUnknown: markWriteUnknown,
	coordinator.TraceYield:        markYield,
	region.TraceStaleTerm:         markStaleTerm,
	region.TraceStaleToken:        markStaleToken,
	region.TraceHeld:              markHeld,
	"fence refused":               markFenced,
	"log cut":                     markLogCut,
	"read repair":                 markReadRepair,
	"digests differ":              markDescend,
}

func (w *world) noteUpper(kind string) {
	if m, ok := upperMarks[kind]; ok {
		w.hit(m)
	}
}

func (w *world) tokenText(t protocol.Token) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%d.%d/%d", t.Term.Generation()-w.wallAtStart, uint32(t.Term), t.Seq)
}

func (w *world) protocolText(m protocol.Message) string {
	h := m.Header()
	return fmt.Sprintf("%s %s view %d %+v", protocol.Name(m), w.tokenText(h.Stamp()), uint32(h.View), m)
}

// upperState is one process's part of a failure report.
func (p *proc) upperState() string {
	u := &p.upper
	if !u.on {
		return ""
	}
	var b strings.Builder
	if t := u.coord.Term(); t != 0 {
		fmt.Fprintf(&b, "coordinates in term %s ", p.w.tokenText(protocol.Token{Term: t}))
	}
	b.WriteString("hosts")
	for i, h := range u.hosts {
		if h != nil {
			fmt.Fprintf(&b, " %d(%s q%d)", i, p.w.tokenText(h.token), len(h.queue))
		}
	}
	return b.String()
}

func sortedIDs(set map[nodeID]bool) []nodeID {
	ids := make([]nodeID, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
