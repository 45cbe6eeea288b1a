// Package replica drives the replicator cores of simulated processes, and the clients that use
// them. It does exactly the work of the shell in internal/replica, and keeps durable keys in
// files of the hosts.
//
// A Storage has what all replicators of a run share: the disks, the clocks that stamp, and the
// checkers of S4. Each process has a Node, with a Driver for each role that it carries, and in
// runs with clocks one more, for the register.
package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// shared is what the replicators of one process share.
type shared struct {
	p          *process.Process
	facts      Facts
	disks      *Disks
	clocks     *Clocks
	register   *register
	leaseValid func() bool
	view       *gossip.View
	on         bool
}

// Driver drives one replicator core.
type Driver struct {
	p      *process.Process
	shared *shared
	// store is the number of the replicator, role the name of its role.
	store   int
	role    string
	core    *replication.Core
	fx      replication.Effects
	timer   *virtual.Timer
	ids     replication.RequestID
	answers map[replication.RequestID]func(replication.Reply)
	disk    *disk
}

// Timeout is the deadline of requests.
const Timeout = 500 * time.Millisecond

func newDriver(sh *shared, store int) *Driver {
	p, s := sh.p, &sh.p.Run.Config
	d := &Driver{p: p, shared: sh, store: store, role: s.Roles[s.RoleOf(store)], answers: map[replication.RequestID]func(replication.Reply){}}
	cfg := replication.Config{
		Self: p.Node.ID, Role: d.role, Seed: p.Run.Rand.Setup.Uint64(),
		Limits: replication.Limits{LogEntries: s.LogEntries, FrameBytes: s.FrameBytes}, LeaseValid: d.leaseValid, Epochs: !d.hasRegister(),
	}
	if s.Disks {
		cfg.Keep = sh.disks.isDurable
	}
	if s.Requests {
		cfg.Limits.RequestOps, cfg.Limits.RequestBytes = limits.RequestOps, limits.RequestBytes
		cfg.Limits.ValueBytes, cfg.Limits.TotalBytes = limits.ValueBytes, limits.TotalBytes
		cfg.Expire, cfg.Retain, cfg.PruneEvery = expiry, s.Retain, s.PruneEvery
		cfg.PartialMin, cfg.FetchKeys = s.PartBytes, s.FetchKeys
	}
	if d.hasRegister() {
		cfg.Wall = func() uint64 { return sh.clocks.show(p.Slot) }
	}
	d.core = replication.New(cfg)
	if s.Disks {
		d.disk = sh.disks.openFor(p, d.core, &d.fx, store, func() bool { return sh.on })
	}
	d.timer = p.NewTimer(func() { d.step(replication.Tick{}) })
	d.timer.Set(d.core.Deadline())
	return d
}

// hasRegister reports whether this replicator has the register. The stamps of
// all other replicators are terms, not times (replica.Config.Terms).
func (d *Driver) hasRegister() bool { return d.store == len(d.p.Run.Config.Roles) }

func (d *Driver) leaseValid() bool {
	return d.shared.leaseValid()
}

// step gives the core one event and carries its effects out.
func (d *Driver) step(ev replication.Event) {
	p, r := d.p, d.p.Run
	if !d.shared.on {
		return
	}
	d.core.Step(p.Now(), ev, &d.fx)
	if d.disk != nil {
		d.disk.save()
	}
	for _, s := range d.fx.Send {
		class := transport.Control
		if s.Bulk {
			class = transport.Bulk
		}
		p.Event("replicate", uint64(s.To), func() string { return fmt.Sprintf("%s %T", r.Names.Name(s.To), s.Msg) })
		p.Net.SendUnordered(s.To, class, network.Frame{Kind: transport.KindReplicator, Msg: Message{d.store, s.Msg}})
	}
	for i := range d.fx.Trace {
		t := &d.fx.Trace[i]
		if m, rare := rareEvents[string(t.Kind)]; rare {
			r.Hit(m)
		}
		if t.Kind == replication.TraceEra && t.Key == keyRegister {
			d.shared.register.noteEra(t.Detail)
		}
		if t.Kind == replication.TraceAhead && t.Key == keyRegister {
			d.shared.register.noteRefused(p.Node.ID, r.Names.Name(t.Peer), r.Now())
		}
		p.Event(string(t.Kind), uint64(t.Peer), func() string { return r.Names.Name(t.Peer) + " " + t.Key + " " + t.Detail })
	}
	replies := slices.Clone(d.fx.Reply)
	d.fx.Reset()
	for _, a := range replies {
		answer := d.answers[a.ID]
		delete(d.answers, a.ID)
		if answer != nil {
			answer(a)
		}
	}
	d.timer.Set(d.core.Deadline())
}

// rareEvents are the rare states among the core's trace events.
var rareEvents = map[string]coverage.Mark{
	"fence refused":  coverage.Fenced,
	"log cut":        coverage.LogCut,
	"read repair":    coverage.ReadRepair,
	"digests differ": coverage.Descend,
}

// Update makes a request to write. It calls answer with the outcome.
func (d *Driver) Update(u replication.Update, answer func(replication.Reply)) {
	u.ID = d.newRequest(answer)
	d.step(u)
}

// Read makes a request to read at majority. It calls answer with the outcome.
func (d *Driver) Read(r replication.Read, answer func(replication.Reply)) {
	r.Level = replicator.Majority(0, 0)
	d.readAt(r, answer)
}

// readAt makes a request to read at its level, and returns the number of the request.
func (d *Driver) readAt(r replication.Read, answer func(replication.Reply)) replication.RequestID {
	r.ID = d.newRequest(answer)
	d.step(r)
	return r.ID
}

// JoinDeltas merges deltas of one type; nil is none.
func JoinDeltas[T interface {
	comparable
	crdt.Value
}](all crdt.Value, d T) crdt.Value {
	var none T
	if d == none {
		return all
	}
	if all == nil {
		return d
	}
	if _, err := all.Join(d); err != nil {
		panic(err)
	}
	return all
}

// Lost returns the newest view before which confirmed values may be gone.
func (d *Driver) Lost() gossip.Epoch { return d.core.Lost() }

// Value returns this replica's value of a key, nil if there is none. It must not be changed, nor
// kept beyond the next step.
func (d *Driver) Value(key string) crdt.Value { return d.core.Value(key) }

// isDurable reports whether a key is kept in the host's file.
func (d *Driver) isDurable(key string) bool { return d.disk != nil && d.disk.disks.isDurable(key) }

func (d *Driver) newRequest(answer func(replication.Reply)) replication.RequestID {
	d.ids++
	d.answers[d.ids] = answer
	return d.ids
}

// WriteLevel is the level of writes at majority.
func (d *Driver) WriteLevel() replicator.Level {
	return replicator.Majority(0, 0)
}

// Deadline returns the deadline of a request that is made now.
func (d *Driver) Deadline() clock.Instant { return d.p.Now().Add(Timeout) }

// voters returns the members of a view that vote on the keys of a role.
func voters(v *gossip.View, role string) []gossip.NodeID {
	var ids []gossip.NodeID
	for _, m := range v.WithRole(role) {
		ids = append(ids, m.ID)
	}
	return ids
}

// checkMajority checks a premise of S4 when a request at majority has succeeded.
// No such request may succeed at a node that the newest view leaves out, even if other
// removed nodes have answered.
func (d *Driver) checkMajority() {
	r, newest := d.p.Run, d.shared.facts.Newest()
	if newest != nil && newest.Member(d.p.ID()) == nil && !r.Parts() {
		r.Fail("S4", "a majority at %s, which was removed", d.p.Label)
	}
}

// judgeRead checks S4 of a read at majority that succeeded. In runs in which a removed node may
// hold a lease, only members of the newest view of their lineage are judged.
func (d *Driver) judgeRead(c *invariant.Durable, begun int, has func(string) bool) {
	r, id := d.p.Run, d.p.ID()
	if !r.Parts() {
		r.Judge(c.Read(time.Duration(r.Now()), begun, has, d.shared.facts.Present))
		return
	}
	if held, current := d.shared.facts.Current(id); current {
		present := func(voter gossip.NodeID) bool { return d.shared.facts.PresentBeside(voter, id) }
		r.Judge(c.ReadIn(time.Duration(r.Now()), begun, held, has, present))
	}
}

// Voters returns the view of this node and the members that vote in it. ok is false at a removed node,
// in a run in which such a node may write: what it writes does not count.
func (d *Driver) Voters() (held *gossip.View, ids []gossip.NodeID, ok bool) {
	held, current := d.shared.facts.Current(d.p.ID())
	if !current && d.p.Run.Parts() || d.shared.view == nil {
		return nil, nil, false
	}
	return held, voters(d.shared.view, d.role), true
}

// MustHave reports whether this node must have what voters of a view have stored: too few of them were
// lost since, and the view precedes that of the node.
func (d *Driver) MustHave(in *gossip.View, ids []gossip.NodeID) bool {
	id, facts := d.p.ID(), d.shared.facts
	if !d.p.Run.Parts() {
		return invariant.Retains(ids, facts.Present)
	}
	held, current := facts.Current(id)
	return current && invariant.Precedes(in, held) && invariant.Retains(ids, func(voter gossip.NodeID) bool { return facts.PresentBeside(voter, id) })
}

// noteAcked records a write at majority that was acknowledged, unless a removed node has made
// it in a run that allows that.
func (d *Driver) noteAcked(c *invariant.Durable, word string) {
	if held, ids, ok := d.Voters(); ok {
		c.Acked(word, held, ids)
	}
}
