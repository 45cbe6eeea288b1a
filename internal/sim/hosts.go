package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/coordinator"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/region"
)

// hosted is a shard that runs at a process: one queue, one handler at a time. The
// lease is checked at every dispatch.
type hosted struct {
	shard    protocol.ShardID
	token    protocol.Token
	queue    []*message
	stopping bool
	gone     bool
	// busySince is when the running handler began, never if none runs.
	busySince instant
}

const mailboxMax = 512

func (u *upper) startShard(e region.StartShard) {
	w, p := u.p.w, u.p
	if u.hosts[e.Shard] != nil {
		w.fail("S11", "%s is told to start shard %d (%s), which runs there (%s)", p.label, e.Shard, w.tokenText(e.Token), w.tokenText(u.hosts[e.Shard].token))
	}
	w.judge(w.hosting.Started(time.Duration(w.now), p.node.ID, e.Shard, e.Token))
	u.hosts[e.Shard] = &hosted{shard: e.Shard, token: e.Token, busySince: never}
	u.put(func() {
		u.stepRegion(region.ShardStarted{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
	})
}

func (u *upper) stopShard(e region.StopShard) {
	h := u.hosts[e.Shard]
	if h == nil || h.token != e.Token {
		u.told(e.Shard, e.Token)
		return
	}
	if h.stopping {
		return
	}
	h.stopping = true
	if e.To == 0 && e.Within == 0 {
		u.p.w.untaken[protocol.ShardToken{Shard: e.Shard, Token: e.Token}] = true
	}
	u.p.later(e.Within, func() {
		if u.on && !h.gone {
			u.p.w.hit(markForced)
			u.finishStop(h)
		}
	})
	u.stoppedMaybe(h)
}

func (u *upper) told(s protocol.ShardID, t protocol.Token) {
	u.put(func() {
		u.stepRegion(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: s, Token: t}}})
	})
}

// stoppedMaybe ends a stop when the queue is empty. Without a lease it waits: the
// stop handler does not run.
func (u *upper) stoppedMaybe(h *hosted) {
	if !h.stopping || h.gone || len(h.queue) > 0 || h.busySince != never || !u.p.leaseValid() {
		return
	}
	u.finishStop(h)
}

func (u *upper) finishStop(h *hosted) {
	h.gone = true
	u.p.w.dropped += len(h.queue)
	h.queue = nil
	u.hosts[h.shard] = nil
	u.p.w.hosting.Stopped(u.p.node.ID, h.shard)
	u.told(h.shard, h.token)
}

// dropInstances drops everything that runs here; no user code runs.
func (u *upper) dropInstances() {
	for i, h := range u.hosts {
		if h != nil {
			h.gone = true
			u.p.w.dropped += len(h.queue)
			h.queue = nil
			u.hosts[i] = nil
		}
	}
	u.p.w.hosting.Abandoned(u.p.node.ID)
}

// deliver puts a message into its entity's mailbox; false if the shard does not
// take messages here under that token.
func (u *upper) deliver(m *message, token protocol.Token) bool {
	h := u.hosts[m.shard]
	if h == nil || h.token != token || h.stopping {
		return false
	}
	if len(h.queue) >= mailboxMax {
		u.p.w.dropped++
		return true
	}
	h.queue = append(h.queue, m)
	u.dispatch(h)
	return true
}

// dispatch runs the next handler, if the lease holds.
func (u *upper) dispatch(h *hosted) {
	if h == nil || h.gone || h.busySince != never {
		return
	}
	w, p := u.p.w, u.p
	if !p.leaseValid() && !w.cfg.Mutant.Is("lease not checked") {
		return
	}
	if len(h.queue) == 0 {
		u.stoppedMaybe(h)
		return
	}
	m := h.queue[0]
	h.queue = h.queue[1:]
	at := time.Duration(w.now)
	w.judge(w.hosting.Acts(at, p.node.ID, h.shard, h.token))
	w.judge(w.messages.Processed(at, p.node.ID, m.sender, m.entity, m.seq))
	w.checkStrict(p, h)
	w.handled++
	if m.probe {
		if q := w.byID[m.sender]; q != nil {
			q.upper.probed[m.shard] = true
		}
	}
	h.busySince = w.now
	takes := time.Duration(0)
	if w.netRand.intn(8) == 0 {
		takes = w.netRand.dur(0, w.swarm.handleMax)
	}
	p.later(takes, func() {
		h.busySince = never
		if !h.gone {
			u.dispatch(h)
		}
	})
}

// checkStrict holds S1 in its strict form: no other process is inside a handler
// of the shard, unless it was paused or is slow beyond all bounds.
func (w *world) checkStrict(p *proc, h *hosted) {
	if w.swarm.wrongEvidence || w.driftBroken {
		return
	}
	for _, q := range w.running() {
		if q == p || !q.upper.on || q.paused || q.cost > 0 {
			continue
		}
		o := q.upper.hosts[h.shard]
		if o == nil || o.busySince == never || o.busySince < q.pausedUntil || w.now.sub(o.busySince) > 2*w.swarm.handleMax {
			continue
		}
		w.fail("S1 strict", "shard %d is handled at %s and at %s at once", h.shard, p.label, q.label)
	}
}

// talk is a modelled sender on every process.
func (u *upper) talk() {
	w := u.p.w
	w.after(w.setRand.dur(w.swarm.tellEvery/2, 2*w.swarm.tellEvery), func() {
		if !u.on {
			return
		}
		u.p.run(func() {
			if u.on && !u.p.over && !w.calm {
				u.tell(w.setRand.intn(w.swarm.entities), false)
			}
		})
		u.talk()
	})
}

func (u *upper) tell(entity int, probe bool) {
	u.seqs[entity]++
	u.p.w.told++
	u.post(&message{
		sender: u.p.node.ID, entity: entity, seq: u.seqs[entity], probe: probe,
		shard: protocol.ShardID(entity % u.p.w.swarm.shards),
	})
}

// acknowledged notes a write that reached its level.
func (w *world) acknowledged(c coordinator.Write) {
	for _, r := range c.Records {
		w.written[protocol.ShardToken{Shard: r.Shard, Token: r.Token}] = true
	}
}

// checkOrder holds S8: no HostShards leaves before its allocation is acknowledged,
// unless it only asks whether a shard that was started is still served.
func (w *world) checkOrder(p *proc, m protocol.Message) {
	orders, ok := m.(*protocol.HostShards)
	if !ok {
		return
	}
	for _, o := range orders.Shards {
		st := protocol.ShardToken{Shard: o.Shard, Token: o.Token}
		if !w.written[st] && !w.hosting.WasStarted(o.Shard, o.Token) {
			w.fail("S8", "%s orders shard %d (%s) before the allocation is acknowledged", p.label, o.Shard, w.tokenText(o.Token))
		}
	}
}

func (w *world) swarmVoters(v *view.View) []nodeID {
	var ids []nodeID
	for i := range v.Members {
		if v.Members[i].Status.Votes() {
			ids = append(ids, v.Members[i].ID)
		}
	}
	return ids
}

// present reports whether a node has been a member without a break until now.
func (w *world) present(id nodeID) bool {
	p := w.byID[id]
	return p != nil && p.alive && !p.over && w.newest != nil && w.newest.Member(id) != nil
}
