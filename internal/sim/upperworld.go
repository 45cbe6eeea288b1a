package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// upperWorld holds the checkers of the upper layers, and the facts that they share.
type upperWorld struct {
	messages *invariant.Messages
	// durable is by role, types by number.
	durable  []invariant.Durable
	register register
	types    []*typeWorld
	// lastDeath is when a process last ended that had not handed everything over, or a
	// new generation began.
	lastDeath virtual.Instant
	// calls numbers the asks, outcomes counts how they ended.
	calls    uint64
	outcomes [timedOut + 1]int

	told, handled, dropped int
	// misplaced counts the messages that a wrong home refused and that could not go
	// back without overtaking.
	misplaced int
}

func (w *world) startUpperWorld() {
	w.messages = invariant.NewMessages()
	w.durable = make([]invariant.Durable, len(w.swarm.roles))
	w.register = register{begun: map[string]virtual.Instant{}, acked: map[string]virtual.Instant{}}
	for range w.swarm.types {
		w.types = append(w.types, &typeWorld{
			hosting: invariant.NewHosting(w.members), states: invariant.NewStates(), asks: invariant.NewAsks(),
			written: map[protocol.ShardToken]bool{}, untaken: map[protocol.ShardToken]bool{}, ends: map[protocol.ShardID]howEnded{}, offices: map[officeOf]nodeID{},
		})
	}
	if w.swarm.policy != nil {
		w.hit(markPolicy)
	}
}

const (
	servedBound   = 15 * time.Second
	probeEvery    = 500 * time.Millisecond
	convergeBound = 10 * time.Second
)

// endUpperLiveness asks L1 and L6 of the hosts in q: every process among them gets
// a message to every shard of every type that q can host, each shard lives once, and
// replicas become equal.
func (w *world) endUpperLiveness(q map[int]bool) {
	if w.cfg.ViewsOnly || w.swarm.wrongEvidence || w.driftBroken {
		return
	}
	from := w.Now()
	for _, u := range w.uppers(q) {
		clear(u.probed)
	}
	next := w.Now()
	if !w.untilTrue(servedBound, 20*time.Millisecond, func() bool {
		if w.Now() >= next {
			next = w.Now().Add(probeEvery)
			w.probe(q)
		}
		return w.unserved(q) == ""
	}) {
		w.fail("L6", "not every shard is served %v after the cluster was whole: %s", servedBound, w.unserved(q))
	}
	if !w.untilTrue(servedBound, 100*time.Millisecond, func() bool { return w.outdated() == "" }) {
		w.fail("G2", "%v after the cluster was whole a token is below those of a cluster that it has absorbed: %s", servedBound, w.outdated())
	}
	w.noteServed(q)
	w.event(nil, "settled: shards", uint64(w.Now().Sub(from)), func() string { return w.Now().Sub(from).String() })
	checkRegister(w, q)
	if !w.untilTrue(convergeBound, 100*time.Millisecond, func() bool { return w.converged(q) }) {
		w.fail("L2", "replicas differ %v after heal", convergeBound)
	}
	w.checkWords(q)
}

// uppers lists the drivers on the hosts in q.
func (w *world) uppers(q map[int]bool) []*upper {
	var all []*upper
	for i := range w.hosts {
		if p := w.hosts[i].proc; q[i] && p != nil && p.layers.on {
			all = append(all, p.layers.types...)
		}
	}
	return all
}

// hostable reports whether the hosts in q are enough for a type.
func (w *world) hostable(t *typeSpec, q map[int]bool) bool {
	n := 0
	for i := range w.hosts {
		n += int(b2u(q[i] && w.swarm.hosts(i, t)))
	}
	return n >= max(w.swarm.minMembers, 1)
}

// probe sends a message from each process to each shard that has not answered.
func (w *world) probe(q map[int]bool) {
	for _, u := range w.uppers(q) {
		for s := range min(u.spec.shards, u.spec.entities) {
			if w.hostable(u.spec, q) && !u.foreign && !u.probed[protocol.ShardID(s)] {
				u.p.run(func() { u.tell(s, true) })
			}
		}
	}
}

// unserved describes the shards and hosts in q that do not serve, "" if all do.
func (w *world) unserved(q map[int]bool) string {
	var b strings.Builder
	for i := range w.hosts {
		if p := w.hosts[i].proc; q[i] && (p == nil || !p.layers.on) {
			fmt.Fprintf(&b, "%s is down; ", label(i, 0))
		}
	}
	for _, u := range w.uppers(q) {
		for s := range min(u.spec.shards, u.spec.entities) {
			if !w.hostable(u.spec, q) || u.probed[protocol.ShardID(s)] || !w.swarm.runs(u.p.slot, u.spec) {
				continue
			}
			home, state, held := u.path.Describe(protocol.ShardID(s))
			fmt.Fprintf(&b, "%s -> %s %d (route %s, home %s, %d messages held, live %v); ", u.p.label, u.spec.name, s, state,
				w.name(home), held, w.names(w.types[u.number].hosting.Live(protocol.ShardID(s))))
		}
	}
	return b.String()
}

// noteServed sets the marks of a run that serves again.
func (w *world) noteServed(q map[int]bool) {
	for _, u := range w.uppers(q) {
		if w.hostable(u.spec, q) && w.swarm.runs(u.p.slot, u.spec) && !w.swarm.hosts(u.p.slot, u.spec) {
			w.hit(markProxy)
		}
		if w.hostable(u.spec, q) && u.spec.role > 0 {
			w.hit(markSecondRole)
		}
	}
}

// converged reports whether the replicas of q are equal, of each role (L2).
func (w *world) converged(q map[int]bool) bool {
	for role := range w.swarm.storeCount() {
		first, seen := uint64(0), false
		for i := range w.hosts {
			p := w.hosts[i].proc
			if !q[i] || p == nil || !p.layers.on || p.layers.stores[role] == nil {
				continue
			}
			d := p.layers.stores[role].core.Digest()
			if seen && d != first {
				return false
			}
			first, seen = d, true
		}
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
	region.TraceDeclined:          markDeclined,
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
	return fmt.Sprintf("%d.%d/%d", int64(t.Term.Generation())-int64(w.wallAtStart), uint32(t.Term), t.Seq)
}

func (w *world) protocolText(m protocol.Message) string {
	h := m.Header()
	return fmt.Sprintf("%s %s view %d %+v", protocol.Name(m), w.tokenText(h.Stamp()), uint32(h.View), m)
}

// upperState is one process's part of a failure report.
func (p *proc) upperState() string {
	var b strings.Builder
	for _, u := range p.layers.types {
		fmt.Fprintf(&b, "| %s ", u.spec.name)
		if u.coord != nil && u.coord.Term() != 0 {
			fmt.Fprintf(&b, "coordinates in term %s ", p.w.tokenText(protocol.Token{Term: u.coord.Term()}))
		}
		b.WriteString("hosts")
		for i, h := range u.hosts {
			if h != nil {
				fmt.Fprintf(&b, " %d(%s q%d)", i, p.w.tokenText(h.token), h.boxes.Len())
			}
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
