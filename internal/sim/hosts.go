package sim

import (
	"cmp"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// hosted is a shard that runs at a process: one queue, one handler at a time. The
// lease is checked at every dispatch.
type hosted struct {
	shard    protocol.ShardID
	token    protocol.Token
	boxes    datapath.Mailboxes
	stopping bool
	gone     bool
	// to is where the state goes, within how long that may take.
	to     nodeID
	within time.Duration
	// states are those of its entities, of a type that has them.
	states map[int]uint64
	// busySince is when the running handler began, never if none runs.
	busySince virtual.Instant
}

func (u *upper) startShard(e region.StartShard) {
	w, p := u.p.w, u.p
	if u.hosts[e.Shard] != nil {
		w.fail("S11", "%s is ordered to start shard %d (%s), which runs there (%s)", p.label, e.Shard, w.tokenText(e.Token), w.tokenText(u.hosts[e.Shard].token))
	}
	t := w.types[u.number]
	w.judge(t.hosting.Started(time.Duration(w.Now()), p.node.ID, e.Shard, e.Token, u.regionView))
	h := &hosted{shard: e.Shard, token: e.Token, busySince: virtual.Never, states: map[int]uint64{}, boxes: datapath.Mailboxes{Most: w.swarm.mailboxMax}}
	u.hosts[e.Shard] = h
	if u.spec.state {
		if states := u.mover.Take(protocol.ShardToken{Shard: e.Shard, Token: e.Token}, e.From); states != nil {
			h.states = states
		}
		if w.members.Member(p.node.ID) {
			u.checkStates(h)
			t.ends[e.Shard] = howEnded{node: p.node.ID, token: e.Token, how: "not at all"}
		}
	}
	u.put(func() {
		u.stepRegion(region.ShardStarted{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
	})
}

func (u *upper) stopShard(e region.StopShard) {
	h := u.hosts[e.Shard]
	st := protocol.ShardToken{Shard: e.Shard, Token: e.Token}
	if h == nil || h.token != e.Token {
		if e.To == 0 || e.To == u.p.node.ID {
			u.told(e.Shard, e.Token)
			return
		}
		// Stopped before, and sent to a home that has died since.
		u.mover.Send(st, e.To, u.mover.Kept(st), e.Within)
		return
	}
	if h.stopping {
		return
	}
	h.stopping, h.to, h.within = true, e.To, e.Within
	h.boxes.Release()
	how := endedInOrder
	if e.To == 0 {
		how = "without a new home"
	}
	if e.To == 0 && e.Within == 0 {
		how = noTaker
		u.p.w.types[u.number].untaken[st] = true
	}
	u.noteEnd(h, how)
	u.p.later(cmp.Or(e.Within, stopTimeout), func() {
		if u.on && !h.gone && !u.p.w.cfg.Mutant.Is("no stop by force") {
			u.p.w.hit(markForced)
			u.noteEnd(h, "forced")
			u.finishStop(h)
		}
	})
	u.stoppedMaybe(h)
}

// noteEnd notes how the newest instance of a shard ends.
func (u *upper) noteEnd(h *hosted, how string) {
	ends := u.p.w.types[u.number].ends
	if e := ends[h.shard]; e.token == h.token && e.node == u.p.node.ID {
		e.how, e.to = how, h.to
		if e.begun == 0 {
			e.begun = u.p.w.Now()
		}
		ends[h.shard] = e
	}
}

func (u *upper) told(s protocol.ShardID, t protocol.Token) {
	u.put(func() {
		u.stepRegion(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: s, Token: t}}})
	})
}

// stoppedMaybe ends a stop when the queue is empty. Without a lease it waits: the
// stop handler does not run.
func (u *upper) stoppedMaybe(h *hosted) {
	if !h.stopping || h.gone || h.boxes.Len() > 0 || h.busySince != virtual.Never {
		return
	}
	if !u.p.leaseValid() && !u.p.w.cfg.Mutant.Is("stop handler without a lease") {
		return
	}
	// The stop handler is code of the entity as well.
	w := u.p.w
	w.judge(w.types[u.number].hosting.Acts(time.Duration(w.Now()), u.p.node.ID, h.shard, h.token))
	u.finishStop(h)
}

func (u *upper) finishStop(h *hosted) {
	h.gone = true
	u.fail(h)
	u.hosts[h.shard] = nil
	t := u.p.w.types[u.number]
	t.hosting.Stopped(u.p.node.ID, h.shard)
	if e := t.ends[h.shard]; e.token == h.token {
		e.stopped = true
		t.ends[h.shard] = e
	}
	if st := (protocol.ShardToken{Shard: h.shard, Token: h.token}); h.to != 0 && h.to != u.p.node.ID {
		u.mover.Send(st, h.to, h.states, h.within)
		return
	}
	u.told(h.shard, h.token)
}

// fail drops what waits in the mailboxes of a shard that has ended.
func (u *upper) fail(h *hosted) {
	for _, m := range h.boxes.Clear() {
		u.p.w.dropped++
		u.reply(m.Message, outcomeUnknown)
	}
}

// dropInstances drops everything that runs here; no user code runs.
func (u *upper) dropInstances() {
	for i, h := range u.hosts {
		if h != nil {
			h.gone = true
			u.noteEnd(h, "abandoned")
			u.fail(h)
			u.hosts[i] = nil
		}
	}
	u.p.w.types[u.number].hosting.Abandoned(u.p.node.ID)
}

// Deliver puts a message into the mailbox of its entity, or lets it wait for room.
func (u *upper) Deliver(m *message, left time.Duration, p *datapath.Place) {
	h, expires := u.hosts[m.Shard], clock.Never
	if left > 0 {
		expires = u.p.now().Add(left)
	}
	if !h.boxes.Put(datapath.Ready{Message: m, Expires: expires}, p, u.Count) {
		u.p.w.dropped++
		u.p.w.noRoom(m, u.number)
		u.reply(m, refusedHere)
		return
	}
	if u.p.w.cfg.Mutant.Is("answered before it ran") {
		u.reply(m, answered)
	}
	u.dispatch(h)
}

// dispatch runs the next handler, if the lease holds.
func (u *upper) dispatch(h *hosted) {
	if h == nil || h.gone || h.busySince != virtual.Never {
		return
	}
	w, p := u.p.w, u.p
	if !u.mayAct() {
		return
	}
	m, ok := h.boxes.Take()
	if !ok {
		u.stoppedMaybe(h)
		return
	}
	if ask := (callOf{m.Sender, m.Call}); m.Call != 0 && (u.gone[ask] || p.now() >= m.Expires) {
		// Cancelled asks do no work; their askers have already failed them.
		delete(u.gone, ask)
		w.hit(markAskExpired)
		u.dispatch(h)
		return
	}
	u.handleMessage(h, m.Message)
	h.busySince = w.Now()
	takes := time.Duration(0)
	if w.netRand.IntN(8) == 0 {
		takes = w.netRand.Duration(0, w.swarm.handleMax)
	}
	returns := func() {
		h.busySince = virtual.Never
		if !w.cfg.Mutant.Is("answered before it ran") {
			u.reply(m.Message, afterwards(h))
		}
		if !h.gone {
			u.dispatch(h)
		}
	}
	if !u.blocked(h, returns) {
		p.later(takes, returns)
	}
}

// mayAct reports whether the lease holds: by the clock, at every dispatch.
func (u *upper) mayAct() bool {
	switch m := u.p.w.cfg.Mutant; {
	case m.Is("lease not checked"):
		return true
	case m.Is("lease checked by a timer"):
		return u.p.member.valid && u.p.member.abandoning == 0
	}
	return u.p.leaseValid()
}

// afterwards returns the outcome of an ask whose handler has returned.
// It is unknown for an abandoned instance, whose successor has no record of the ask.
func afterwards(h *hosted) outcomeOf {
	if h.gone {
		return outcomeUnknown
	}
	return answered
}

// handleMessage has a handler begin to work on a message, and asks the checkers.
func (u *upper) handleMessage(h *hosted, m *message) {
	w, p := u.p.w, u.p
	at, t := time.Duration(w.Now()), w.types[u.number]
	w.judge(t.hosting.Acts(at, p.node.ID, h.shard, h.token))
	w.judge(w.messages.Processed(at, p.node.ID, m.Sender, w.sideOf(p)<<24|u.number<<16|m.Entity<<2|m.Caller, m.Seq))
	if m.Call != 0 {
		w.judge(t.asks.Ran(at, invariant.Ask{Asker: m.Sender, Call: m.Call}))
	}
	w.checkStrict(u, h)
	if u.spec.state {
		h.states[m.Entity] = t.states.Handled(m.Entity, h.states[m.Entity], uint64(m.Sender)^m.Seq)
	}
	w.handled++
	if q := w.byID[m.Sender]; m.Probe && q != nil {
		q.layers.types[u.number].probed[m.Shard] = true
	}
}

// checkStrict holds S1 in its strict form: no other process is inside a handler
// of the shard, unless it was paused or is slow beyond all bounds.
func (w *world) checkStrict(u *upper, h *hosted) {
	p := u.p
	if w.swarm.wrongEvidence || w.driftBroken {
		return
	}
	for _, q := range w.running() {
		if q == p || !q.layers.on || q.paused || q.cost > 0 {
			continue
		}
		if w.sideOf(p) != w.sideOf(q) {
			continue // package invariant has what holds between two clusters
		}
		if q.member.leaving && !w.swarm.drain {
			continue // it goes in the middle of its work, as no Node does
		}
		o := q.layers.types[u.number].hosts[h.shard]
		if o == nil || o.busySince == virtual.Never || o.busySince < q.pausedUntil || w.Now().Sub(o.busySince) > 2*w.swarm.handleMax {
			continue
		}
		w.fail("S1 strict", "shard %d is handled at %s and at %s simultaneously", h.shard, p.label, q.label)
	}
}

// talk is a modelled sender on every process.
func (u *upper) talk() {
	w := u.p.w
	w.After(w.setRand.Duration(w.swarm.tellEvery/2, 2*w.swarm.tellEvery), func() {
		if !u.on {
			return
		}
		u.p.run(func() {
			if u.on && !u.p.over && !w.calm && !u.foreign {
				u.tell(w.setRand.IntN(u.spec.entities), false)
			}
		})
		u.talk()
	})
}

// acknowledged notes a write that reached its level.
func (t *typeWorld) acknowledged(c coordinator.Write) {
	for _, r := range c.Records {
		t.written[protocol.ShardToken{Shard: r.Shard, Token: r.Token}] = true
	}
}

// checkOrder holds S8: no HostShards leaves before its allocation is acknowledged,
// unless it only asks whether a shard that was started is still served.
func (w *world) checkOrder(u *upper, m protocol.Message) {
	orders, ok := m.(*protocol.HostShards)
	if !ok {
		return
	}
	for _, o := range orders.Shards {
		st := protocol.ShardToken{Shard: o.Shard, Token: o.Token}
		if t := w.types[u.number]; !t.written[st] && !t.hosting.WasStarted(o.Shard, o.Token) {
			w.fail("S8", "%s orders shard %d (%s) before the allocation is acknowledged", u.p.label, o.Shard, w.tokenText(o.Token))
		}
	}
}

func voters(v *gossip.View, role string) []nodeID {
	var ids []nodeID
	for _, m := range v.WithRole(role) {
		ids = append(ids, m.ID)
	}
	return ids
}

// present reports whether a node has been a member without a break until now.
func (w *world) present(id nodeID) bool {
	p := w.byID[id]
	return p != nil && p.alive && !p.over && w.newest != nil && w.newest.Member(id) != nil
}
