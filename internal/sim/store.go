package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// replica is the driver of the replicator core, and of the coordinator's store
// in it, as placement.DataStore keeps it.
type replica struct {
	p       *proc
	role    int
	core    *replication.Core
	fx      replication.Effects
	timer   timer
	ids     replication.RequestID
	answers map[replication.RequestID]func(replication.Reply)
	chats   uint64
	// unsaved are the durable keys whose newest state is not in the host's file. diskKnown
	// is set once the core has been notified that the disk fails.
	unsaved   map[string]bool
	diskKnown bool
}

const (
	storeTimeout = 500 * time.Millisecond
	keyShards    = "/shards"
	keyRegions   = "/regions"
	keyProxies   = "/proxies"
	keyClient    = "client"
	keyRegister  = "register"
	// stampTicks is a millisecond in the time of a stamp, a tick of crdt.HLC.
	stampTicks = 1 << 16
)

func (r *replica) start(p *proc, role int) {
	r.p, r.role = p, role
	cfg := replication.Config{
		Self: p.node.ID, Role: p.w.swarm.roles[p.w.swarm.roleOf(role)], Seed: p.w.setRand.Uint64(),
		Limits: replication.Limits{LogEntries: p.w.swarm.logEntries}, LeaseValid: r.leaseValid, Epochs: !r.ofRegister(),
	}
	if p.w.swarm.disks {
		cfg.Keep, cfg.WallMillis = p.w.isDurable, p.wallMillis()
	}
	if r.ofRegister() {
		cfg.Wall = func() uint64 { return stampClock(p.w, p.slot) }
	}
	r.core = replication.New(cfg)
	r.openFile()
	r.answers = map[replication.RequestID]func(replication.Reply){}
	r.timer = newTimer(p, func() { r.step(replication.Tick{}) })
	r.timer.set(r.core.Deadline())
}

func (r *replica) step(ev replication.Event) {
	p := r.p
	w := p.w
	if !p.layers.on {
		return
	}
	r.core.Step(p.now(), ev, &r.fx)
	r.save()
	for _, s := range r.fx.Send {
		class := transport.Control
		if s.Bulk {
			class = transport.Bulk
		}
		w.event(p, "replicate", uint64(s.To), func() string { return fmt.Sprintf("%s %T", w.name(s.To), s.Msg) })
		f := frame{transport.KindReplicator, forRole{r.role, s.Msg}}
		if w.swarm.datagrams && w.byID[s.To] != nil && !p.forgotten[s.To] {
			w.datagram(p, w.byID[s.To], f)
			continue
		}
		_ = p.send(s.To, class, f)
	}
	for i := range r.fx.Trace {
		t := &r.fx.Trace[i]
		w.noteUpper(string(t.Kind))
		w.event(p, string(t.Kind), uint64(t.Peer), func() string { return w.name(t.Peer) + " " + t.Key + " " + t.Detail })
	}
	replies := slices.Clone(r.fx.Reply)
	r.fx.Reset()
	for _, a := range replies {
		answer := r.answers[a.ID]
		delete(r.answers, a.ID)
		if answer != nil {
			answer(a)
		}
	}
	r.timer.set(r.core.Deadline())
}

func (r *replica) leaseValid() bool {
	return r.p.leaseValid() || r.p.w.cfg.Mutant.Is("majority without a lease")
}

func (r *replica) peer(id nodeID, up bool) {
	if up {
		r.step(replication.PeerUp{ID: id})
	} else {
		r.step(replication.PeerLost{ID: id})
	}
}

func (r *replica) ask(answer func(replication.Reply)) replication.RequestID {
	r.ids++
	r.answers[r.ids] = answer
	return r.ids
}

func (u *upper) fence(term gossip.Epoch) replicator.Fence {
	return replicator.Fence{Group: u.spec.name, Term: uint64(term)}
}

// write performs a coordinator's write and answers it.
func (u *upper) write(w coordinator.Write) {
	r := u.repl
	if !u.on {
		return
	}
	id := r.ask(func(a replication.Reply) {
		result, higher := outcome(a.Err)
		u.put(func() {
			if result == coordinator.OK {
				u.p.w.types[u.number].acknowledged(w)
			}
			u.stepCoordinator(coordinator.WriteDone{ID: w.ID, Result: result, Higher: higher})
		})
	})
	level := replicator.Majority(0, 0)
	if u.p.w.cfg.Mutant.Is("ack on local write") {
		level = replicator.Local
	}
	r.step(replication.Update{ID: id, Ops: u.ops(w), Level: level, Fence: u.fence(w.Term), Deadline: u.p.now().Add(storeTimeout)})
}

func (u *upper) ops(w coordinator.Write) []operation.Op {
	self := crdt.NodeID(u.p.node.ID)
	var ops []operation.Op
	if len(w.Records) > 0 {
		ops = append(ops, replication.Mutate(u.spec.name+keyShards, crdt.KindLWWMap, 64*len(w.Records), func(v crdt.Value) crdt.Value {
			m := v.(*crdt.LWWMap[string, string])
			var delta crdt.Value
			for _, rec := range w.Records {
				at := crdt.Stamp{Time: uint64(rec.Token.Term), Node: self, Seq: rec.Token.Seq}
				delta = joined(delta, m.Set(shardKey(rec.Shard), recordText(rec), at))
			}
			return delta
		}))
	}
	sets := func(key string, add []nodeID) {
		if len(add)+len(w.Gone) == 0 {
			return
		}
		ops = append(ops, replication.Mutate(key, crdt.KindORSet, 64*len(add), func(v crdt.Value) crdt.Value {
			s := v.(*crdt.ORSet[string])
			var delta crdt.Value
			for _, n := range add {
				if !s.Contains(nodeKey(n)) {
					delta = joined(delta, s.Add(self, nodeKey(n)))
				}
			}
			for _, n := range w.Gone {
				delta = joined(delta, s.Remove(nodeKey(n)))
			}
			return delta
		}))
	}
	sets(u.spec.name+keyRegions, w.Regions)
	sets(u.spec.name+keyProxies, w.Proxies)
	return ops
}

// joined merges deltas of one type; nil is none.
func joined[T interface {
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

// read performs a coordinator's read and answers it.
func (u *upper) read(c coordinator.Read) {
	r, name := u.repl, u.spec.name
	if !u.on {
		return
	}
	id := r.ask(func(a replication.Reply) {
		done := coordinator.ReadDone{ID: c.ID}
		done.Result, done.Higher = outcome(a.Err)
		if a.Err == nil {
			done.Records = records(a.Values[0])
			done.Regions, done.Proxies = nodesOf(a.Values[1]), nodesOf(a.Values[2])
		}
		u.put(func() { u.stepCoordinator(done) })
	})
	r.step(replication.Read{
		ID: id, Keys: []string{name + keyShards, name + keyRegions, name + keyProxies}, Level: replicator.Majority(0, 0),
		Fence: u.fence(c.Term), Deadline: u.p.now().Add(storeTimeout),
	})
}

func outcome(err error) (coordinator.Result, gossip.Epoch) {
	var fenced *replicator.Error
	switch {
	case err == nil:
		return coordinator.OK, 0
	case errors.As(err, &fenced) && fenced.Code == replicator.ErrFenced:
		return coordinator.Fenced, gossip.Epoch(fenced.Higher)
	}
	return coordinator.Unknown, 0
}

func shardKey(s protocol.ShardID) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(s)))
}

func nodeKey(n nodeID) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func recordText(r protocol.Record) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(r.Home))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Token.Term))
	b = binary.BigEndian.AppendUint64(b, r.Token.Seq)
	b = binary.BigEndian.AppendUint64(append(b, byte(r.State)), uint64(r.From))
	return string(binary.BigEndian.AppendUint64(append(b, r.Moves), uint64(r.Since)))
}

func records(v crdt.Value) []protocol.Record {
	m, ok := v.(*crdt.LWWMap[string, string])
	if !ok || m == nil {
		return nil
	}
	var out []protocol.Record
	for k, text := range m.All() {
		b := []byte(text)
		out = append(out, protocol.Record{
			Shard: protocol.ShardID(binary.BigEndian.Uint32([]byte(k))),
			Home:  nodeID(binary.BigEndian.Uint64(b)),
			Token: protocol.Token{Term: gossip.Epoch(binary.BigEndian.Uint64(b[8:])), Seq: binary.BigEndian.Uint64(b[16:])},
			State: protocol.RecordState(b[24]),
			From:  nodeID(binary.BigEndian.Uint64(b[25:])),
			Moves: b[33], Since: gossip.Epoch(binary.BigEndian.Uint64(b[34:])),
		})
	}
	slices.SortFunc(out, func(a, b protocol.Record) int { return int(a.Shard) - int(b.Shard) })
	return out
}

func nodesOf(v crdt.Value) []nodeID {
	s, ok := v.(*crdt.ORSet[string])
	if !ok || s == nil {
		return nil
	}
	var out []nodeID
	for e := range s.All() {
		out = append(out, nodeID(binary.BigEndian.Uint64([]byte(e))))
	}
	slices.Sort(out)
	return out
}

// chat is an application that writes and reads at majority, for S4.
func (r *replica) chat() {
	p := r.p
	w := p.w
	if !w.swarm.clientWrites || r.ofRegister() {
		return
	}
	w.After(w.setRand.Duration(50*time.Millisecond, 600*time.Millisecond), func() {
		if !p.layers.on || w.calm {
			return
		}
		p.run(r.say)
		r.chat()
	})
}

func (r *replica) say() {
	p := r.p
	w := p.w
	v := p.layers.view
	if !p.layers.on || v == nil {
		return
	}
	deadline := p.now().Add(storeTimeout)
	if w.setRand.Coin() {
		r.chats++
		word := fmt.Sprintf("%s/%d", p.label, r.chats)
		op := replication.Mutate(keyClient, crdt.KindORSet, 64, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORSet[string]).Add(crdt.NodeID(p.node.ID), word)
		})
		id := r.ask(func(a replication.Reply) {
			if a.Err == nil {
				r.endedWell()
				w.event(p, "word acknowledged", r.chats, func() string { return word + " in " + w.viewText(p.layers.view) })
				w.durable[r.role].Acked(word, voters(p.layers.view, w.swarm.roles[r.role]))
			}
		})
		level := replicator.Majority(0, 0)
		if w.cfg.Mutant.Is("ack on local write") {
			level = replicator.Local
		}
		r.step(replication.Update{ID: id, Ops: []operation.Op{op}, Level: level, Deadline: deadline})
		return
	}
	begun := w.durable[r.role].Begin()
	id := r.ask(func(a replication.Reply) {
		if a.Err != nil {
			return
		}
		r.endedWell()
		s, _ := a.Values[0].(*crdt.ORSet[string])
		has := func(word string) bool { return s != nil && s.Contains(word) }
		w.event(p, "words read", uint64(begun), func() string { return "in " + w.viewText(p.layers.view) })
		w.judge(w.durable[r.role].Read(time.Duration(w.Now()), begun, has, w.present))
	})
	r.step(replication.Read{ID: id, Keys: []string{keyClient}, Level: replicator.Majority(0, 0), Deadline: deadline})
}

// endedWell checks a premise of S4 when a request at majority has succeeded.
// No such request may succeed at a node that the newest view leaves out, even if other
// removed nodes have answered.
func (r *replica) endedWell() {
	w := r.p.w
	if w.newest != nil && w.newest.Member(r.p.node.ID) == nil && !w.swarm.wrongEvidence && !w.driftBroken {
		w.fail("S4", "a majority at %s, which was removed", r.p.label)
	}
}

// register checks the clients' writes of the register.
type register struct {
	invariant.Durable
	// begun and acked have, by word, the times at which its write began and was acknowledged.
	begun, acked map[string]virtual.Instant
	writes       int
}

// ofRegister reports whether this replicator has the register. The stamps of
// all other replicators are terms, not times (replica.Config.Terms).
func (r *replica) ofRegister() bool { return r.role == len(r.p.w.swarm.roles) }

// writeRegister sets the register, and calls answer with the outcome.
func (r *replica) writeRegister(answer func(error)) {
	p := r.p
	w := p.w
	reg := &w.register
	reg.writes++
	word := fmt.Sprintf("%s/%d", p.label, reg.writes)
	reg.begun[word] = w.Now()
	op := operation.Op{Key: keyRegister, Kind: crdt.KindLWWRegister, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 64, Blind: true, Entries: []string{""}, Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
			at := crdt.Stamp{Time: max(above[0]+1, wall*stampTicks), Node: crdt.NodeID(p.node.ID)}
			if w.cfg.Mutant.Is("stamps by the own clock") {
				at.Time = stampClock(w, p.slot) * stampTicks
			}
			if d := v.(*crdt.LWWRegister[string]).Set(word, at); d != nil {
				return d
			}
			return nil
		}}, nil
	}}
	id := r.ask(func(a replication.Reply) {
		if a.Err == nil {
			r.endedWell()
			reg.acked[word] = w.Now()
			reg.Acked(word, voters(p.layers.view, w.swarm.roles[0]))
		}
		answer(a.Err)
	})
	r.step(replication.Update{ID: id, Ops: []operation.Op{op}, Level: replicator.Majority(0, 0), Deadline: p.now().Add(storeTimeout)})
}

// readRegister reads the register and checks S4. For each write acknowledged before the read
// began, the value read must not be one that was acknowledged before that write began.
func (r *replica) readRegister() {
	w := r.p.w
	reg := &w.register
	begun := reg.Begin()
	id := r.ask(func(a replication.Reply) {
		if a.Err != nil {
			return
		}
		got := ""
		if v, ok := a.Values[0].(*crdt.LWWRegister[string]); ok && v != nil {
			got, _ = v.Value()
		}
		since, acked := reg.acked[got]
		standsAbove := func(word string) bool {
			return got != "" && (got == word || !acked || since >= reg.begun[word])
		}
		w.judge(reg.Read(time.Duration(w.Now()), begun, standsAbove, w.present))
		w.hit(markRegisterRead)
	})
	r.step(replication.Read{ID: id, Keys: []string{keyRegister}, Level: replicator.Majority(0, 0), Deadline: r.p.now().Add(storeTimeout)})
}

// useRegister writes and reads the register until the run's faults end.
func (r *replica) useRegister() {
	w := r.p.w
	if !r.ofRegister() {
		return
	}
	w.After(w.clockRand.Duration(20*time.Millisecond, 400*time.Millisecond), func() {
		if !r.p.layers.on || w.calm {
			return
		}
		r.p.run(func() {
			if r.p.layers.view == nil {
				return
			}
			if w.clockRand.Coin() {
				r.readRegister()
			} else {
				r.writeRegister(func(error) {})
			}
		})
		r.useRegister()
	})
}

// checkRegister checks that each host in q can write the register, despite the stamps that
// its clocks have left. A value with a stamp ahead of the clocks stays on its writer alone
// until it is overwritten. So this check precedes the comparison of replicas.
func checkRegister(w *world, q map[int]bool) {
	if !w.swarm.clocks {
		return
	}
	for i := range w.hosts {
		p := w.hosts[i].proc
		if !q[i] {
			continue
		}
		var last error
		written, next := false, w.Now()
		if !w.untilTrue(convergeBound, 100*time.Millisecond, func() bool {
			if w.Now() >= next {
				next = w.Now().Add(probeEvery)
				p.run(func() {
					p.layers.stores[len(w.swarm.roles)].writeRegister(func(err error) { last, written = err, written || err == nil })
				})
			}
			return written
		}) {
			w.fail("L2", "%s cannot write the register %v after the clocks were set right: %v", p.label, convergeBound, last)
		}
	}
}
