package region

import "github.com/peerage-go/peerage/internal/core/protocol"

// stopShard begins the stop of a shard, in answer to the order with that Seq, if any.
func (hs *hostTable) stopShard(s StopShard, order uint64) {
	h := hs.list.entryOf(s.Shard)
	s.Term = hs.floors.term
	h.phase, h.stop = stopping, &hostStop{to: s.To, answers: order, next: h.stopOf().next}
	hs.traceShard(TraceStop, s.Shard, s.To, s.Token, "")
	hs.do(s)
}

// shardStopped handles the shell's report that the shards have stopped:
// the floor rises, and Stopped is sent until a coordinator confirms it.
func (hs *hostTable) shardStopped(shards []protocol.ShardToken) {
	for _, st := range shards {
		if !hs.list.hasShard(st.Shard) {
			continue
		}
		h := hs.list.entryOf(st.Shard)
		if h.phase == none || h.token != st.Token {
			continue
		}
		if k, to := hs.states.kept[st.Shard], h.stopOf().to; k.Token == h.token && to != 0 && hs.view.Member(to) == nil {
			if h.stop.stranded = true; h.stop.again.to != 0 {
				hs.redirectState(st.Shard, h.stop.again)
			}
			continue
		}
		hs.finishStop(st.Shard)
	}
}

// finishStop reports that a shard has stopped, in answer to the order for it. So a
// coordinator that has since named another home can tell which of its orders was obeyed.
func (hs *hostTable) finishStop(s protocol.ShardID) {
	h := hs.list.entryOf(s)
	stop := h.stopOf()
	order := protocol.Head{Seq: stop.answers}
	hs.states.noteSent(protocol.ShardToken{Shard: s, Token: h.token}, stop.to)
	hs.traceShard(TraceStopped, s, hs.cfg.Self, h.token, "")
	hs.recordStopped(s)
	hs.outbox.stopped.addAnswer(hs.link.node, &order, protocol.ShardToken{Shard: s, Token: hs.floors.Token(s)})
	hs.startNext(stop.next)
}

// goOn handles an order for a stopping shard: a repetition, or an order to send the
// state elsewhere because its receiver has left. An order without a receiver is
// not noted before the shard has stopped. Its coordinator repeats it until it is answered,
// and a stranded or stopped shard answers it immediately (turn, promise). Until
// then a member may join that can take the state, and the next order names it.
func (hs *hostTable) goOn(s protocol.ShardID, order turning) {
	switch stop := hs.list.entryOf(s).stop; {
	case stop.stranded:
		hs.redirectState(s, order)
	case stop.to == order.to:
		stop.answers = order.seq
	case order.to != 0 && hs.view.Member(stop.to) == nil:
		stop.again = order
	}
}

// redirectState sends the state of a stranded shard to another home. If none is named, the
// stop ends, and the state stays here for the shard's next home. An order from
// before the coordinator saw the former one go changes nothing.
func (hs *hostTable) redirectState(s protocol.ShardID, order turning) {
	h := hs.list.entryOf(s)
	switch {
	case order.to == 0:
		h.stop.answers = order.seq
		hs.finishStop(s)
	case hs.view.Member(order.to) != nil:
		hs.stopShard(StopShard{Shard: s, Token: h.token, To: order.to, Within: order.within}, order.seq)
	}
}

// giveUp ends the stop of a stranded shard that gets no other home.
func (hs *hostTable) giveUp(s protocol.ShardID) {
	if h := hs.list.copyOf(s); h.stopOf().stranded {
		hs.finishStop(s)
	}
}

// recordStopped records a shard's stop in the floors and the routes.
func (hs *hostTable) recordStopped(s protocol.ShardID) {
	hs.arm()
	hs.floors.stopped(s, hs.list.copyOf(s).token)
	hs.list.drop(s)
	hs.hosting--
	hs.routes.closeOwn(s)
}

// startNext starts the shard that waited for the stop, unless the lease has ended: then
// the coordinator repeats the order.
func (hs *hostTable) startNext(o *protocol.HostOrder) {
	if o != nil && hs.lease && hs.takes(o.Shard) {
		hs.startShard(*o)
	}
}

// abandoned drops all shards that live here without running user code. They are
// reported as stopped: their tokens are floors now.
func (hs *hostTable) abandoned() {
	hs.do(AbandonAll{})
	for id, h := range hs.list.usedShards() {
		if h.phase == none {
			continue
		}
		hs.traceShard(TraceAbandoned, id, hs.cfg.Self, h.token, "")
		hs.recordStopped(id)
	}
	hs.reportStopped()
}

// reportStopped repeats the reports that no coordinator has confirmed.
func (hs *hostTable) reportStopped() {
	if hs.link.node == 0 {
		return
	}
	for _, st := range hs.floors.owed() {
		hs.outbox.stopped.addAnswer(hs.link.node, nil, st)
	}
}

// sendElsewhere stops once more a shard that stopped here with its state, so that the
// state goes to another home: its receiver has died, or takes no shards.
func (hs *hostTable) sendElsewhere(o protocol.HandOffOrder, order turning) bool {
	k := hs.states.kept[o.Shard]
	if k.From != hs.cfg.Self || k.Token != o.Token || o.To == hs.cfg.Self || hs.view.Member(o.To) == nil {
		return false
	}
	if hs.states.sent[o.Shard] == o.To {
		// A late duplicate of the same order: the state has been sent there.
		return false
	}
	hs.list.entryOf(o.Shard).token = o.Token
	hs.hosting++
	hs.floors.started(o.Shard, o.Token)
	hs.stopShard(StopShard{Shard: o.Shard, Token: o.Token, To: o.To, Within: order.within}, order.seq)
	return true
}
