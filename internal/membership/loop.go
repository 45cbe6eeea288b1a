package membership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/loglimit"
	"github.com/peerage-go/peerage/internal/transport"
)

// Inputs of the loop, apart from those of discovery.
type (
	// frameIn is a message of the view protocol.
	frameIn struct {
		from gossip.NodeID
		msg  view.Message
	}
	// messageIn is a message of KindEvidence.
	messageIn struct {
		from gossip.NodeID
		msg  message
	}
	// malformedIn is a frame of a peer that cannot be decoded.
	malformedIn struct {
		from gossip.NodeID
		err  error
	}
	// linkIn is an event of the transport.
	linkIn struct{ ev transport.PeerEvent }
	// heardIn reports a frame from a doubted node.
	heardIn struct{ id gossip.NodeID }
	// probedIn is the outcome of a probe of a contact point.
	probedIn struct {
		addr string
		who  transport.Peer
		err  error
	}
	// resolvedIn carries the resolved contact points.
	resolvedIn struct{ addrs []string }
	// oracleIn is the oracle's answer.
	oracleIn struct {
		id   gossip.NodeID
		gone bool
	}
	// call runs a function in the loop.
	call func(*loop)
)

// loop owns the view core and its two companion machines, evidence and forming. One
// goroutine runs it; it waits only for its inbox and its timer.
type loop struct {
	n        *Node
	core     *view.Core
	evidence *evidence
	forming  *forming
	hints    hints
	keys     keyAgreement
	acts     actions
	out      view.Effects
	buf      []byte
	// ended is set once the incarnation has ended: the core is no longer stepped.
	ended bool
	// reportedLease is the lease as last reported to subscribers.
	reportedLease gossip.LeaseChanged
	// unleasedAt is since when this node is in a view without a lease, 0 otherwise.
	unleasedAt clock.Instant
	// reportedLeader is the leader last reported to subscribers.
	reportedLeader gossip.NodeID
	quorum         quorum
	// addrs holds the addresses last given to discovery.
	addrs []string
	// warnedOf holds the peers about which a warning was logged.
	warnedOf map[gossip.NodeID]bool
	// farNodes folds the warnings of long round trips, by the name of the node.
	farNodes loglimit.Folder
}

func newLoop(n *Node) *loop {
	cfg := &n.cfg
	l := &loop{
		n: n,
		core: view.New(view.Config{
			Self: n.self, Ping: cfg.Ping, Lease: cfg.Lease, RemoveAfter: cfg.RemoveAfter,
			DriftPPM: cfg.DriftPPM, Evidence: cfg.CrashEvidence, Partition: cfg.Partition, Seed: cfg.Seed,
			Foreign: cfg.ForeignClusters, Authenticated: cfg.authenticates(), Least: cfg.LeastGeneration,
		}, n.clock.Now()),
		evidence: newEvidence(n.self.ID, cfg.CrashEvidence, cfg.Oracle != nil, cfg.Lease, &n.counters),
		forming:  newForming(n.self, cfg, cfg.WallClock),
	}
	if q, ok := n.transport.(transport.Inquirer); ok {
		l.evidence.inquires, l.evidence.authenticated = cfg.CrashEvidence == gossip.EvidenceFull, q.Authenticated()
	}
	l.keys = keyAgreement{self: n.self.ID, cluster: cfg.Cluster}
	if !cfg.NoDiscovery {
		l.keys.keys = n.SecretKeys
	}
	return l
}

// runLoop is the loop's goroutine.
func (l *loop) runLoop() {
	defer close(l.n.loopEnded)
	l.n.inbox.Run(l.n.stop, l.stepBatch)
}

// stepBatch handles inputs and what is due, and returns the next deadline.
func (l *loop) stepBatch(batch []input) clock.Instant {
	for _, in := range batch {
		l.handleInput(in)
	}
	l.runDue()
	return l.nextDeadline()
}

func (l *loop) nextDeadline() clock.Instant {
	if l.ended {
		return clock.Never
	}
	now := l.n.clock.Now()
	d := clock.Min(l.core.Deadline(), clock.Min(l.evidence.nextTickAt(now), clock.Min(l.forming.nextStepAt(), l.hints.nextDialAt())))
	if l.reportedLease.Valid {
		until := l.n.lease.loadLease().Until
		if stale := l.staleAt(until); now.Before(stale) {
			until = stale
		}
		d = clock.Min(d, until)
	}
	return clock.Min(d, l.quorum.checkAt(l.n.cfg.RemoveAfter))
}

// runDue performs the actions that are due.
func (l *loop) runDue() {
	now := l.n.clock.Now()
	if l.ended {
		return
	}
	if !now.Before(l.core.Deadline()) {
		l.stepCore(now, view.Tick{})
	}
	l.reportLease(now)
	l.evidence.onLease(now.Before(l.staleAt(l.n.lease.loadLease().Until)), l.n.View() != nil)
	l.evidence.runDue(now, &l.acts)
	if !l.reportedLease.Valid {
		l.forming.beyondHelp(now, l.evidence.beyondHelp(l.n.View(), l.n.cfg.Partition) || l.core.BeyondHelp())
	}
	l.forming.stepForming(now, &l.acts)
	l.hints.startDials(now, &l.acts)
	l.carryOut(now)
	l.reportQuorum(now)
	l.endDisowned(now)
	l.countForeign(now)
}

// staleAt returns when a lease that ends at until counts as not renewed recently.
func (l *loop) staleAt(until clock.Instant) clock.Instant { return until.Add(-l.n.cfg.Lease / 2) }

// handleInput processes one input.
func (l *loop) handleInput(in input) {
	now := l.n.clock.Now()
	a := &l.acts
	switch in := in.(type) {
	case frameIn:
		l.evidence.onSignOfLife(in.from, a)
		l.evidence.sendEchoes(now, deadIn(in.msg), a)
		l.stepCore(now, view.Received{From: in.from, Msg: in.msg})
	case call:
		in(l)
	case linkIn:
		l.onLink(now, in.ev)
	case messageIn:
		l.onMessage(now, in)
	case malformedIn:
		l.n.recordEvent("undecodable membership message, ignored", in.from, 0, in.err.Error(), warnIf(l.warnOnce(in.from)))
	case heardIn:
		l.evidence.withdrawProof(in.id, a)
	case probedIn:
		l.forming.onProbe(now, in.addr, in.who, in.err, a)
	case resolvedIn:
		l.forming.resolve(now, in.addrs)
		l.n.announceAddrs(l)
	case oracleIn:
		l.evidence.onOracle(now, in.id, in.gone, a)
	case inquiredIn:
		l.evidence.onInquiry(now, in.id, &in.q, a)
	case found:
		l.onHint(transport.Peer{ID: in.node.ID, Name: in.node.Name, Addr: in.node.Addr})
	case hintIn:
		l.onHintDial(now, in)
	}
	l.hints.startDials(now, a)
	l.carryOut(now)
}

// onLink handles an event of the transport.
func (l *loop) onLink(now clock.Instant, ev transport.PeerEvent) {
	a := &l.acts
	if ev.Type == transport.ListenerLost {
		// The kernel now refuses connections to this process: peers treat it as dead.
		l.endIncarnation(now, gossip.Removed{Reason: fmt.Sprintf("the listener at %s is lost: %v", l.n.self.Addr, ev.Err)})
		return
	}
	l.evidence.onLink(now, ev, a)
	switch ev.Type {
	case transport.Connected:
		if ev.Class == transport.Control {
			l.keys.requestIDs(ev.Peer.ID, a)
			l.warnOfRoundTrip(ev)
		}
	case transport.Accepted:
		a.learn = append(a.learn, ev.Peer)
		l.forming.discovered(now, ev.Peer)
	case transport.OtherNode:
		a.learn = append(a.learn, ev.Peer)
		l.forming.discovered(now, ev.Peer)
	case transport.Refused, transport.DialFailed:
		if ev.Class == transport.Control {
			l.forming.onNodeLost(now, ev.Peer)
		}
	}
}

// onMessage handles a message of KindEvidence.
func (l *loop) onMessage(now clock.Instant, in messageIn) {
	a := &l.acts
	l.evidence.onSignOfLife(in.from, a)
	switch m := in.msg.(type) {
	case *contact:
		l.forming.onContact(now, in.from, m, a)
	case *bootstrapClaim:
		l.forming.onClaim(now, in.from, m, a)
	case *claimVote:
		l.forming.onVote(now, in.from, m, a)
	case *goodbye:
		l.evidence.onGoodbye(now, in.from, a)
	case *echo:
		a.addMessage(in.from, &echoed{})
	case *sealed:
		l.evidence.onSealed(now, in.from, m.Subject, a)
	case *keyIDs:
		l.keys.onIDs(in.from, m, a)
		l.publishKeys()
	}
}

// carryOut performs the machines' requests until there are none.
func (l *loop) carryOut(now clock.Instant) {
	for range 8 {
		a := l.acts
		l.acts = actions{}
		if a.isEmpty() {
			return
		}
		l.performActions(now, &a)
	}
}

func (l *loop) performActions(now clock.Instant, a *actions) {
	n := l.n
	n.doubt(a.doubt, a.trust)
	if len(a.learn) > 0 {
		n.transport.Learn(a.learn...)
	}
	for _, ev := range a.core {
		l.stepCore(now, ev)
	}
	for _, o := range a.send {
		l.buf = appendMessage(l.buf[:0], o.msg)
		if n.transport.Send(o.to, transport.Control, transport.KindEvidence, l.buf) != nil {
			n.counters.sendFailed.Add(1)
		}
	}
	for _, id := range a.show {
		l.sendToPeer(view.Send{To: id, Msg: &view.Decided{View: view.Whole(n.View())}})
	}
	for _, ev := range a.events {
		n.events.putEvent(ev, nil)
	}
	if len(a.unlearn) > 0 {
		n.transport.Unlearn(a.unlearn...)
	}
	if len(a.forget) > 0 {
		n.transport.Forget(a.forget...)
	}
	for _, id := range slices.Concat(a.unlearn, a.forget) {
		// From now on nothing can be sent there: all frames sent until now are lost,
		// whatever was reported about the peer before.
		n.events.putEvent(PeerLost{ID: id, Class: transport.Message, Err: transport.ErrUnknownPeer}, nil)
	}
	for _, addr := range a.probe {
		n.probePoint(addr)
	}
	for _, p := range a.lookAt {
		n.lookAt(p)
	}
	for _, node := range a.oracle {
		n.askOracle(node)
	}
	if inquirer, ok := n.transport.(transport.Inquirer); ok {
		for _, addr := range a.hold {
			inquirer.HoldPackets(addr, holdFor)
		}
	}
	for _, node := range a.inquire {
		n.inquirePort(node)
	}
	for _, x := range a.notes {
		n.recordEvent(x.kind, x.subject, 0, x.detail, x.level)
	}
	if a.over != "" {
		lost := a.quorumLost && l.evidence.lostForGood(n.View(), n.cfg.Partition)
		l.endIncarnation(now, gossip.Removed{Reason: a.over, QuorumLost: lost, Outranked: a.outranked})
	}
}

// stepCore steps the core and performs its effects.
func (l *loop) stepCore(now clock.Instant, ev view.Event) {
	if l.ended {
		return
	}
	l.n.counters.steps.Add(1)
	l.out.Reset()
	l.core.Step(now, ev, &l.out)
	l.performEffects(now, &l.out)
}

// performEffects performs the core's requests, in the order of the fields: a lease that has
// ended is withdrawn before anything is sent.
func (l *loop) performEffects(now clock.Instant, out *view.Effects) {
	n := l.n
	if out.Abandon {
		n.counters.abandons.Add(1)
		n.lease.withhold()
	}
	if out.Lease != nil {
		n.lease.setLease(*out.Lease, now)
	}
	if out.Abandon {
		n.events.putEvent(Abandoned{}, n.lease.endHold)
	}
	l.reportLease(now)
	if out.View != nil {
		l.newView(now, out.View)
	}
	if out.Removed != nil {
		l.onRemoved(*out.Removed)
	}
	l.reportLeader()
	for i := range out.Learn {
		x := &out.Learn[i]
		n.transport.Learn(transport.Peer{ID: x.ID, Name: x.Name, Addr: x.Addr})
	}
	for _, s := range out.Send {
		l.noticeRefusal(s)
		l.sendToPeer(s)
	}
	for _, t := range out.Trace {
		n.recordEvent(t.Kind, t.Subject, t.Epoch, t.Detail, warnIf(l.countAnomaly(t)))
	}
}

func (l *loop) sendToPeer(s view.Send) {
	l.buf = view.Append(l.buf[:0], s.Msg)
	if l.n.transport.Send(s.To, transport.Control, transport.KindView, l.buf) != nil {
		l.n.counters.sendFailed.Add(1)
		return
	}
	l.n.counters.viewOut.Count(len(l.buf))
}

// reportLease reports to subscribers a lease that began, ended, or changed its kind.
func (l *loop) reportLease(now clock.Instant) {
	lease := l.n.Lease()
	ev := gossip.LeaseChanged{Valid: lease.Valid(now), Leader: lease.Leader, Generation: lease.Generation}
	if ev.Valid == l.reportedLease.Valid && (!ev.Valid || ev == l.reportedLease) {
		return
	}
	if l.reportedLease.Valid && !ev.Valid {
		l.n.counters.leaseLost.Add(1)
	}
	l.reportedLease = ev
	if ev.Valid {
		l.logPause(now)
	}
	l.quorum.onLease(now, ev.Valid)
	l.forming.onLease(now, ev.Valid)
	l.n.events.putEvent(ev, nil)
	l.n.wakeWaiters()
}

// newView publishes a view.
func (l *loop) newView(now clock.Instant, v *gossip.View) {
	n := l.n
	n.counters.views.Add(1)
	peers := make([]transport.Peer, 0, len(v.Members))
	members := make([]gossip.NodeID, 0, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		members = append(members, m.ID)
		if m.ID != n.self.ID {
			peers = append(peers, transport.Peer{ID: m.ID, Name: m.Name, Addr: m.Addr})
		}
	}
	n.transport.SetMembers(members...)
	n.transport.Learn(peers...)
	before := n.view.Swap(v)
	l.noteDepartures(before, v)
	l.countChanges(now, before, v)
	l.logMembers(before, v)
	l.noteForeign(before, v)
	if f := n.cfg.trace.view; f != nil {
		f(n.self.ID, v)
	}
	n.events.putEvent(gossip.ViewChanged{View: v}, nil)
	for _, ev := range contestDiff(before, v) {
		n.events.putEvent(ev, nil)
	}
	l.evidence.onView(now, v, &l.acts)
	l.keys.onView(v, l.evidence.reaches, &l.acts)
	l.publishKeys()
	l.forming.onView(now, v, &l.acts)
	n.announceAddrs(l)
	n.wakeWaiters()
}

// onRemoved ends the incarnation by the core's decision.
func (l *loop) onRemoved(r gossip.Removed) {
	l.ended = true
	r.Generation = l.core.Generation()
	l.n.lease.setLease(view.Lease{}, 0)
	l.n.events.putEvent(r, nil)
	l.n.endWith(r)
}

// reasonClosed is the reason of an end by Close.
const reasonClosed = "closed"

// endIncarnation ends the incarnation by this package's own decision.
func (l *loop) endIncarnation(now clock.Instant, r gossip.Removed) {
	if l.ended {
		return
	}
	if v := l.n.View(); v != nil {
		r.Epoch = v.Epoch
	}
	l.performEffects(now, &view.Effects{Lease: &view.Lease{}, Abandon: true, Removed: &r})
	l.n.recordEvent("removed", l.n.self.ID, r.Epoch, r.Reason, warnIf(r.Reason != reasonClosed))
}

// probePoint dials a contact point in a goroutine of its own.
func (n *Node) probePoint(addr string) {
	n.counters.probes.Add(1)
	n.wg.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, 2*time.Second)
		defer cancel()
		who, err := n.transport.Probe(ctx, addr)
		if err != nil {
			n.counters.probesFailed.Add(1)
		}
		n.inbox.Put(probedIn{addr, who, err})
	})
}

func (n *Node) askOracle(node gossip.Node) {
	n.wg.Go(func() {
		n.inbox.Put(oracleIn{node.ID, askOracle(n.ctx, n.cfg.Oracle, node)})
	})
}

// warnIf returns the level of an event that is a warning, or of interest to developers only.
func warnIf(warning bool) slog.Level {
	if warning {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// recordEvent adds an event to Status and logs it.
func (n *Node) recordEvent(kind string, subject gossip.NodeID, epoch gossip.Epoch, detail string, level slog.Level) {
	n.recent.addRecent(Recent{Time: time.Now(), Kind: kind, Subject: subject, Epoch: epoch, Detail: detail})
	if !n.cfg.Logger.Enabled(n.ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("node", n.self.Name)}
	if subject != 0 {
		attrs = append(attrs, slog.String("subject", subject.String()))
	}
	if epoch != 0 {
		attrs = append(attrs, slog.String("epoch", epoch.String()))
	}
	if detail != "" {
		attrs = append(attrs, slog.String("detail", detail))
	}
	n.cfg.Logger.LogAttrs(n.ctx, level, kind, attrs...)
}
