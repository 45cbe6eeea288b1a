package sharding

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/eventqueue"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
	"github.com/peerage-go/peerage/internal/transport"
)

// shell runs the region core and, on nodes of the type's role, the coordinator
// core of one type, in one goroutine. It carries out their effects in order and
// decides nothing.
type shell struct {
	s    *service
	info typeInfo
	// path is nil for a type that only other nodes run: its region answers a census and
	// hosts nothing.
	path  dataPath
	inc   *incarnation
	inbox *eventqueue.Queue
	ended chan struct{}
	trace *traceRing

	// transfers moves the states of shards in handoffs.
	transfers *statetransfer.Type
	// recoveries is nil unless the type's state is replicated.
	recoveries *recoveries

	region *region.Core
	coord  *coordinator.Core
	regOut region.Effects
	cooOut coordinator.Effects
	// loopback are messages between the two cores of this node.
	loopback []loopback
	// regionTerm and officeTerm are the terms of which the cores spoke last.
	regionTerm, officeTerm gossip.Epoch
	// warnedFar is set once a term far beyond the view was warned of.
	warnedFar bool
	// inOffice is the term of the office that the coordinator holds, 0 for none.
	inOffice atomic.Uint64
	// greeted are the members outside the role that have been sent our settings, up to view
	// greetedIn.
	greeted   map[gossip.NodeID]bool
	greetedIn gossip.Epoch
	// messagesWarned is the last term in which a difference of messages was logged.
	messagesWarned gossip.Epoch

	view       atomic.Pointer[gossip.View]
	registered atomic.Bool
	// elected is the coordinator's node by this node's view and declines.
	elected atomic.Uint64
	// refused is why the coordinator does not register this node, nil if it does.
	refused atomic.Pointer[string]
	term    atomic.Uint64
	drained chan struct{}
}

// received is a decoded message of another node.
type received struct {
	from gossip.NodeID
	msg  protocol.Message
}

// loopback is a message from one core of this node to the other.
type loopback struct{ msg protocol.Message }

// These are what else happens to a shell; events of one core go as they are.
type (
	viewChanged  struct{ view *gossip.View }
	leaseChanged struct{ valid bool }
	abandoned    struct{ done chan struct{} }
	// statesRecovered allows a shard with replicated state to start.
	statesRecovered struct {
		shard ShardID
		token Token
	}
	// superseded reports a newer allocation of a shard; writes under this token will never be
	// acknowledged.
	superseded struct {
		shard ShardID
		token Token
	}
)

// replicateStates makes the shell replicate its type's states.
func (sh *shell) replicateStates() {
	sh.inc.states = sh.s.replicated.Host(sh.info.name, sh.info.role, sh.info.state.copySettings(), statecopy.Host{
		Recovered:  func(shard ShardID, token Token) { sh.inbox.Put(statesRecovered{shard, token}) },
		Superseded: func(shard ShardID, token Token) { sh.inbox.Put(superseded{shard, token}) },
		Counters:   &sh.path.base().counters.replication,
	})
	sh.recoveries = newRecoveries(sh.inc.states)
}

// startRecovered starts a shard unless it was stopped or abandoned meanwhile.
func (sh *shell) startRecovered(ev statesRecovered) {
	if states, ok := sh.recoveries.takeShard(ev.shard, ev.token); ok {
		sh.startWith(ev.shard, ev.token, states)
	}
}

// endSuperseded ends a shard that has a newer allocation.
func (sh *shell) endSuperseded(ev superseded) {
	waited := false
	if sh.recoveries != nil {
		_, waited = sh.recoveries.takeShard(ev.shard, ev.token)
	}
	if !waited && sh.path.hosted(ev.shard) != ev.token {
		return
	}
	sh.path.abandonShard(ev.shard, ev.token)
	sh.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: ev.shard, Token: ev.token}}})
}

func (sh *shell) run() {
	defer close(sh.ended)
	defer sh.watchPlaces()()
	timer := time.NewTimer(clock.Ahead(0))
	defer timer.Stop()
	var batch []any
	for {
		select {
		case <-sh.s.ctx.Done():
			return
		case <-sh.inbox.Ready():
		case <-timer.C:
			sh.tick()
		}
		batch = sh.inbox.Take(batch)
		for i, ev := range batch {
			if _, ok := ev.(stop); ok {
				return
			}
			sh.handle(ev)
			batch[i] = nil
		}
		timer.Reset(sh.untilNext())
	}
}

// untilNext returns how long the cores can wait.
func (sh *shell) untilNext() time.Duration {
	next := sh.region.Deadline()
	if sh.coord != nil {
		next = clock.Min(next, sh.coord.Deadline())
	}
	if next == clock.Never {
		return time.Hour
	}
	return clock.Ahead(next.Sub(sh.s.cfg.Clock.Now()))
}

func (sh *shell) tick() {
	now := sh.s.cfg.Clock.Now()
	if !now.Before(sh.region.Deadline()) {
		sh.stepRegion(region.Tick{})
	}
	if sh.coord != nil && !now.Before(sh.coord.Deadline()) {
		sh.stepCoordinator(coordinator.Tick{})
	}
	sh.settle()
}

// handle gives one event to the cores that it concerns, then the messages that they send to
// each other.
func (sh *shell) handle(ev any) {
	switch ev := ev.(type) {
	case viewChanged:
		sh.view.Store(ev.view)
		sh.stepRegion(region.ViewChanged{View: ev.view})
		sh.stepCoordinator(coordinator.ViewChanged{View: ev.view})
	case leaseChanged:
		sh.stepRegion(region.LeaseChanged{Valid: ev.valid})
		sh.stepCoordinator(coordinator.LeaseChanged{Valid: ev.valid})
	case abandoned:
		sh.stepRegion(region.Abandoned{})
		sh.settle()
		close(ev.done)
	case received:
		sh.receive(ev.from, ev.msg)
	case statesRecovered:
		sh.startRecovered(ev)
	case superseded:
		sh.endSuperseded(ev)
	case region.Event:
		sh.stepRegion(ev)
	case coordinator.Event:
		sh.stepCoordinator(ev)
	}
	sh.settle()
	sh.greet()
}

// receive takes a message to the core that it is for.
func (sh *shell) receive(from gossip.NodeID, m protocol.Message) {
	if protocol.ToCoordinator(m) {
		sh.stepCoordinator(coordinator.Received{From: from, Msg: m})
		return
	}
	sh.stepRegion(region.Received{From: from, Msg: m})
}

// settle delivers the messages that the cores of this node sent to each other.
func (sh *shell) settle() {
	for len(sh.loopback) > 0 {
		m := sh.loopback[0]
		sh.loopback = sh.loopback[1:]
		sh.receive(sh.s.cfg.Self.ID, m.msg)
	}
	sh.loopback = nil
}

func (sh *shell) stepRegion(ev region.Event) {
	sh.region.Step(sh.s.cfg.Clock.Now(), ev, &sh.regOut)
	for _, t := range sh.regOut.Trace {
		sh.note(traceLine{kind: t.Kind, shard: t.Shard, hasShard: t.HasShard, node: t.Node, token: t.Token, detail: t.Detail})
	}
	for _, e := range sh.regOut.Do {
		sh.doRegion(e)
	}
	sh.regOut.Reset()
	sh.elected.Store(uint64(sh.region.Coordinator()))
}

func (sh *shell) doRegion(e region.Effect) {
	switch e := e.(type) {
	case region.Send:
		sh.send(e.To, e.Msg)
	case region.Standing:
		sh.stepCoordinator(coordinator.Standing(e))
	case region.AbandonAll:
		sh.abandonAll()
	case region.Drained:
		sh.finishDrain()
	case region.StartShard:
		sh.startShard(e)
	case region.StopShard:
		sh.stopShard(e)
	case region.DropState:
		sh.transfers.Drop(e)
	default:
		sh.doRoute(e)
	}
}

func (sh *shell) doRoute(e region.Effect) {
	if sh.path == nil {
		sh.ackForUnknown(e)
		return
	}
	r := sh.path.base()
	switch e := e.(type) {
	case region.CloseRoute:
		var m region.Marker
		if e.Marker != nil {
			m = *e.Marker
		}
		r.CloseRoute(sh.inc.Incarnation, e.Shard, m.Owner, m.Token)
	case region.SendMarker:
		r.ResendMarker(sh.inc.Incarnation, e.Shard, e.Owner, e.Token)
	case region.OpenRoute:
		r.OpenRoute(sh.inc.Incarnation, e.Shard, e.Home, e.Token)
	}
}

// ackForUnknown answers the markers of a type that this node sends nothing to.
func (sh *shell) ackForUnknown(e region.Effect) {
	if c, ok := e.(region.CloseRoute); ok && c.Marker != nil {
		sh.inbox.Put(region.MarkerAcked{From: c.Marker.Owner, Shards: []protocol.ShardToken{{Shard: c.Shard, Token: c.Marker.Token}}})
	}
}

func (sh *shell) send(to gossip.NodeID, m protocol.Message) {
	if to == sh.s.cfg.Self.ID {
		if d := sh.declines(m); d != nil {
			m = d
		}
		if sh.coord != nil || !protocol.ToCoordinator(m) {
			sh.loopback = append(sh.loopback, loopback{m})
		}
		return
	}
	// Ignore send errors: the cores retransmit until acknowledged.
	_ = sh.s.cfg.Links.Send(to, transport.Control, transport.KindCoordinator, protocol.Append(nil, m))
}

func (sh *shell) startShard(e region.StartShard) {
	if sh.path == nil {
		return
	}
	states := sh.transfers.Take(e.Shard, e.Token, e.From)
	if sh.recoveries != nil {
		sh.recoveries.beginShard(e.Shard, e.Token, states)
		return
	}
	sh.startWith(e.Shard, e.Token, states)
}

func (sh *shell) startWith(shard ShardID, token Token, states map[string][]byte) {
	if err := sh.path.startShard(shard, token, states); err != nil {
		// The core and the host disagree: fence and stop the shard, never the process.
		sh.path.base().counters.duplicates.Add(1)
		sh.s.log.Error("sharding: shard could not be started", "type", sh.info.name, "shard", shard, "token", token, "error", err)
		sh.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
		return
	}
	sh.inbox.Put(region.ShardStarted{Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
}

func (sh *shell) stopShard(e region.StopShard) {
	done := func(st activation.Stopped) {
		sh.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: st.Shard, Token: st.Token}}})
	}
	if sh.path == nil {
		done(activation.Stopped{Shard: e.Shard, Token: e.Token})
		return
	}
	e.Within = cmp.Or(e.Within, sh.info.stopTimeout)
	if sh.recoveries != nil {
		done = sh.recoveries.stopShard(e.Shard, e.Within, done)
	}
	if e.To == 0 {
		sh.path.stopShard(e.Shard, e.Token, e.Within, false, done)
		return
	}
	if e.To == sh.s.cfg.Self.ID {
		// It starts here again, under another token.
		sh.path.stopShard(e.Shard, e.Token, e.Within, true, func(st activation.Stopped) {
			sh.transfers.Hold(st, false)
			done(st)
		})
		return
	}
	// The new home has the states before the coordinator learns of the stop, so it never waits
	// for them.
	sh.path.stopShard(e.Shard, e.Token, e.Within, true, func(st activation.Stopped) {
		if st.States == nil {
			// Stopped before, and sent to a home that has died since.
			st.States = sh.transfers.Held(st.Shard, st.Token)
		}
		sh.transfers.Hold(st, sh.transfers.Send(e.To, st, e.Within))
		done(st)
	})
}

func (sh *shell) abandonAll() {
	if sh.recoveries != nil {
		sh.recoveries.abandonAll()
	}
	if sh.path != nil {
		sh.path.abandon()
	}
}

func (sh *shell) finishDrain() {
	select {
	case <-sh.drained:
	default:
		if sh.path != nil {
			sh.transfers.CountUndelivered()
		}
		close(sh.drained)
	}
}

// note keeps a trace event, and what it tells about this node.
func (sh *shell) note(t traceLine) {
	t.at = time.Now()
	sh.noteTerm(&t)
	sh.trace.add(t)
	sh.noteSettings(&t)
	switch t.kind {
	case region.TraceRegistered:
		sh.registered.Store(true)
		sh.term.Store(uint64(t.token.Term))
	case region.TraceStaleTerm, region.TraceStaleToken:
		if sh.path != nil {
			sh.path.base().counters.stale.Add(1)
		}
	case region.TraceFar: // coordinator.TraceFar is the same
		sh.noteFar(&t)
	case coordinator.TraceDouble:
		sh.double(&t)
	}
}

// noteFar counts a term that no view can have had, and warns of the first.
func (sh *shell) noteFar(t *traceLine) {
	if sh.path != nil {
		sh.path.base().counters.far.Add(1)
	}
	if !sh.warnedFar {
		sh.warnedFar = true
		sh.s.log.Warn("sharding: a term far beyond the view was refused, and nothing changed; a member that sends such terms is broken or compromised: stop it",
			"type", sh.info.name, "node", t.node, "detail", t.detail)
	}
}

// double logs that a shard lives on two nodes: the one with the lower token must stop.
func (sh *shell) double(t *traceLine) {
	if sh.path != nil {
		sh.path.base().counters.duplicates.Add(1)
	}
	sh.s.log.Error("sharding: shard lives twice, the older one is told to stop",
		"type", sh.info.name, "shard", t.shard, "node", t.node, "token", t.token)
}

// noteTerm dates an event by the term in which it happened: its token may be older.
func (sh *shell) noteTerm(t *traceLine) {
	term := &sh.regionTerm
	if t.coordinator {
		term = &sh.officeTerm
		switch t.kind {
		case coordinator.TraceOffice:
			sh.inOffice.Store(uint64(t.token.Term))
		case coordinator.TraceOfficeLeft:
			sh.inOffice.Store(0)
		}
	}
	*term = max(*term, t.token.Term)
	t.term = *term
}
