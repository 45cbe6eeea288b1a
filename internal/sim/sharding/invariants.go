package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// World is what the checkers and the models need of the run around them.
type World interface {
	// Newest returns the newest view that any process has held.
	Newest() *gossip.View
	// Side returns the side of a cluster, in runs in which two clusters start apart.
	Side(cluster uint64) int
	// CoreTraced is called for each trace event of a core, which is about a node or 0.
	CoreTraced(p *process.Process, kind string, about gossip.NodeID)
}

// Invariants has the checkers of all entity types, and the facts that they share.
type Invariants struct {
	run      *run.Run
	world    World
	members  *invariant.Membership
	messages *invariant.Messages
	// types are by number.
	types []*typeChecks
	// nodes are those of the running processes, by host; byID has all that ever were.
	nodes []*Node
	byID  map[gossip.NodeID]*Node
	// reported are the nodes of which a coordinator has said that they do not answer, and the
	// nodes of these coordinators: the leader removes one of the two.
	reported map[gossip.NodeID]bool
	// lastDeath is when a process last ended that had not handed everything over, or a
	// new generation began.
	lastDeath virtual.Instant
	// calls numbers the asks.
	calls uint64
	// misplaced counts the messages that a wrong home refused and that could not go
	// back without overtaking.
	misplaced int
}

// NewInvariants returns the checkers of a run.
func NewInvariants(r *run.Run, members *invariant.Membership, w World) *Invariants {
	inv := &Invariants{run: r, world: w, members: members, messages: invariant.NewMessages(), nodes: make([]*Node, r.Config.Nodes), byID: map[gossip.NodeID]*Node{}, reported: map[gossip.NodeID]bool{}}
	if r.Parts() {
		inv.messages.ExpectLineages()
	}
	for range r.Config.Types {
		inv.types = append(inv.types, newTypeChecks(inv))
	}
	return inv
}

func (v *Invariants) addNode(n *Node) {
	v.nodes[n.p.Slot], v.byID[n.p.ID()] = n, n
	v.messages.Sender(n.p.ID(), n.p.Number, n.p.Incarnation)
}

func (v *Invariants) removeNode(n *Node) {
	if v.nodes[n.p.Slot] == n {
		v.nodes[n.p.Slot] = nil
	}
}

// running lists the nodes of running processes.
func (v *Invariants) running() []*Node {
	var all []*Node
	for _, n := range v.nodes {
		if n != nil {
			all = append(all, n)
		}
	}
	return all
}

func (v *Invariants) newCall() uint64 {
	v.calls++
	return v.calls
}

// ExpectApart makes the checkers distinguish clusters that live side by side.
func (v *Invariants) ExpectApart(grace time.Duration) {
	for _, t := range v.types {
		t.hosting.Apart(v.world.Side, grace)
	}
}

// NoteAbsorbed reports that a view has admitted a process of another cluster.
// The process has met generations up to one.
func (v *Invariants) NoteAbsorbed(by *gossip.View, loser uint64, met uint32) {
	for _, t := range v.types {
		t.hosting.Absorbed(by, loser, met)
	}
}

// NoteResumed reports that the lease of a node became valid.
func (v *Invariants) NoteResumed(id gossip.NodeID) {
	for _, t := range v.types {
		v.run.Judge(t.hosting.Resumed(time.Duration(v.run.Now()), id))
	}
}

// NoteDeath reports that a new generation began: no member may have the writes of the dead.
func (v *Invariants) NoteDeath() { v.lastDeath = v.run.Now() }

// noteAbandoned reports that no instance of a process runs.
func (v *Invariants) noteAbandoned(n *Node) {
	if !n.hasHandedOver() {
		v.lastDeath = v.run.Now()
	}
	for _, t := range v.types {
		t.hosting.Abandoned(n.p.ID())
	}
}

// noteNoRoom notes at the asker that its ask found a buffer or a mailbox full.
func (v *Invariants) noteNoRoom(msg *datapath.Message, typ int) {
	if n := v.byID[msg.Sender]; n != nil && msg.Call != 0 {
		n.noteNoRoom(typ, msg.Call)
	}
}

// noteProbed notes at the sender of a probe that its shard is served.
func (v *Invariants) noteProbed(msg *datapath.Message, typ int) {
	if n := v.byID[msg.Sender]; n != nil {
		n.noteProbed(typ, msg.Shard)
	}
}

// hasHome reports whether a type has a home to go to in a view: a member that hosts it and
// stays, in numbers that are enough.
func (v *Invariants) hasHome(in *gossip.View, t *seed.Type) bool {
	homes := 0
	for _, q := range v.running() {
		if m := in.Member(q.p.ID()); m != nil && m.Status == gossip.Up && v.run.Config.Hosts(q.p.Slot, t) && !q.member.Leaving() {
			homes++
		}
	}
	return homes >= max(v.run.Config.MinMembers, 1)
}

// noteReport records that a coordinator has reported that a member does not answer.
func (v *Invariants) noteReport(coordinator, member gossip.NodeID) {
	v.reported[coordinator], v.reported[member] = true, true
}

// removedUnplanned reports whether the newest view has left out a node that was not leaving, or that
// had a part in a report of a coordinator before it had left.
func (v *Invariants) removedUnplanned(id gossip.NodeID) bool {
	n := v.byID[id]
	return n != nil && (!n.member.Leaving() || v.reported[id] && !n.hasHandedOver()) && v.world.Newest().Member(id) == nil
}

// sideOf returns the side of the cluster that a process stands in.
func (v *Invariants) sideOf(member *membership.Driver) int {
	if held := member.View(); held != nil {
		return v.world.Side(held.Cluster)
	}
	return 0
}

// checkHandler checks that a handler may begin to work on a message.
func (v *Invariants) checkHandler(m *base, st protocol.ShardToken, msg *datapath.Message) {
	r, p := v.run, m.p
	at := time.Duration(r.Now())
	r.Judge(m.checks.hosting.Acts(at, p.Node.ID, st.Shard, st.Token))
	if msg.Copy == nil {
		r.Judge(v.messages.Processed(at, p.Node.ID, msg.Sender, v.sideOf(m.site.member)<<24|m.number<<16|msg.Entity<<2|msg.Caller, msg.Seq))
	}
	if msg.Call != 0 {
		r.Judge(m.checks.asks.Ran(at, invariant.Ask{Asker: msg.Sender, Call: msg.Call}))
	}
	v.checkStrict(m, st.Shard)
}

// checkStrict holds S1 in its strict form: no other process is inside a handler
// of the shard, unless it was paused or is slow beyond all bounds.
func (v *Invariants) checkStrict(m *base, shard protocol.ShardID) {
	r := v.run
	for _, q := range v.running() {
		if q.p == m.p || !v.judgesBeside(m, q) {
			continue
		}
		since := q.busySince(m.number, shard)
		if since == virtual.Never || since < q.p.Thread.PausedUntil() || r.Now().Sub(since) > 2*r.Config.HandleMax {
			continue
		}
		r.Fail("S1 strict", "shard %d is handled at %s and at %s simultaneously", shard, m.p.Label, q.p.Label)
	}
}

// judgesBeside reports whether what runs at another process is judged beside what runs at this one:
// that process was not paused, and neither is slow beyond all bounds.
func (v *Invariants) judgesBeside(m *base, q *Node) bool {
	switch r := v.run; {
	case q.p.Thread.Paused() || q.p.Thread.Slow():
		return false
	case v.sideOf(m.site.member) != v.sideOf(q.member) || r.Parts() && !v.areMembers(m.p.ID(), q.p.ID()):
		return false // package invariant has what holds between two clusters or lineages
	}
	return (!q.member.Leaving() || v.run.Config.Drain) && !q.draining.late // else it goes in the middle of its work, as no Node does
}

// areMembers reports whether both are members of the newest view of one lineage.
func (v *Invariants) areMembers(a, b gossip.NodeID) bool {
	return v.members.Lineage(a) == v.members.Lineage(b) && v.members.Member(a) && v.members.Member(b)
}

// CheckEnd checks what must hold of a whole run: no ask hangs (L3), and planned moves lose no
// message (G9).
func (v *Invariants) CheckEnd() {
	for _, n := range v.running() {
		if t := n.p.Thread; t.Paused() || n.p.Removed() || t.Slow() || t.Waiting() > 0 {
			continue
		}
		n.checkDeadlines()
	}
	if v.run.Config.Orderly && v.misplaced > 0 {
		v.run.Fail("G9", "planned moves lost %d messages", v.misplaced)
	}
}
