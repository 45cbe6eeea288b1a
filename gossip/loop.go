package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// Inputs of the loop, apart from those of discovery.
type (
	// frameIn is a message of the view protocol.
	frameIn struct {
		from view.NodeID
		msg  view.Message
	}
	// messageIn is a message of KindEvidence.
	messageIn struct {
		from view.NodeID
		msg  message
	}
	// malformedIn is a frame of a peer that cannot be decoded.
	malformedIn struct {
		from view.NodeID
		err  error
	}
	// linkIn is an event of the transport.
	linkIn struct{ ev transport.PeerEvent }
	// heardIn reports a frame from a doubted node.
	heardIn struct{ id view.NodeID }
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
		id   view.NodeID
		gone bool
	}
	// inquiredIn is the outcome of an inquiry.
	inquiredIn struct {
		id view.NodeID
		q  transport.Inquiry
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
	timer    *time.Timer
	// over is set once the incarnation has ended: the core is no longer stepped.
	over bool
	// told is the lease as last reported to subscribers.
	told  LeaseChanged
	spare []input
	// unleasedAt is since when this node is in a view without a lease, 0 otherwise.
	unleasedAt clock.Instant
	// leader is the leader last reported to subscribers.
	leader view.NodeID
	quorum quorum
	// addrs holds the addresses last given to discovery.
	addrs []string
	// accused holds the peers about which a warning was logged.
	accused map[view.NodeID]bool
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
		timer:    time.NewTimer(time.Hour),
	}
	if q, ok := n.transport.(transport.Inquirer); ok {
		l.evidence.inquires, l.evidence.authenticated = cfg.CrashEvidence == view.EvidenceFull, q.Authenticated()
	}
	l.keys = keyAgreement{self: n.self.ID, cluster: cfg.Cluster}
	if !cfg.NoDiscovery {
		l.keys.keys = n.SecretKeys
	}
	return l
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer close(l.n.loopEnded)
	defer l.timer.Stop()
	for {
		l.arm()
		select {
		case <-l.n.stop:
			return
		case <-l.n.inbox.wake:
		case <-l.timer.C:
		}
		batch := l.n.inbox.take(l.spare)
		for i, in := range batch {
			l.take(in)
			batch[i] = nil
		}
		l.spare = batch
		l.due()
	}
}

// arm sets the timer to the next deadline.
func (l *loop) arm() {
	now := l.n.clock.Now()
	d := clock.Never
	if !l.over {
		d = clock.Min(l.core.Deadline(), clock.Min(l.evidence.deadline(now), clock.Min(l.forming.deadline(), l.hints.deadline())))
		if l.told.Valid {
			until := l.n.lease.load().Until
			if stale := l.staleAt(until); now.Before(stale) {
				until = stale
			}
			d = clock.Min(d, until)
		}
		d = clock.Min(d, l.quorum.due(l.n.cfg.RemoveAfter))
	}
	wait := time.Hour
	if d != clock.Never {
		wait = min(clock.Ahead(d.Sub(now)), time.Hour)
	}
	l.timer.Reset(wait)
}

// due performs the actions that are due.
func (l *loop) due() {
	now := l.n.clock.Now()
	if l.over {
		return
	}
	if !now.Before(l.core.Deadline()) {
		l.step(now, view.Tick{})
	}
	l.tellLease(now)
	l.evidence.leased(now.Before(l.staleAt(l.n.lease.load().Until)), l.n.View() != nil)
	l.evidence.tick(now, &l.acts)
	if !l.told.Valid {
		l.forming.beyondHelp(now, l.evidence.beyondHelp(l.n.View(), l.n.cfg.Partition) || l.core.BeyondHelp())
	}
	l.forming.step(now, &l.acts)
	l.hints.step(now, &l.acts)
	l.carryOut(now)
	l.tellQuorum(now)
	l.endDisowned(now)
	l.countForeign(now)
}

// staleAt returns when a lease that ends at until counts as not renewed recently.
func (l *loop) staleAt(until clock.Instant) clock.Instant { return until.Add(-l.n.cfg.Lease / 2) }

// take processes one input.
func (l *loop) take(in input) {
	now := l.n.clock.Now()
	a := &l.acts
	switch in := in.(type) {
	case frameIn:
		l.evidence.answered(in.from, a)
		l.evidence.challenge(now, deadTold(in.msg), a)
		l.step(now, view.Received{From: in.from, Msg: in.msg})
	case call:
		in(l)
	case linkIn:
		l.link(now, in.ev)
	case messageIn:
		l.message(now, in)
	case malformedIn:
		l.n.record("undecodable membership message, ignored", in.from, 0, in.err.Error(), l.accuse(in.from))
	case heardIn:
		l.evidence.heard(in.id, a)
	case probedIn:
		l.forming.probed(now, in.addr, in.who, in.err, a)
	case resolvedIn:
		l.forming.resolve(now, in.addrs)
		l.n.announce(l)
	case oracleIn:
		l.evidence.oracleSaid(now, in.id, in.gone, a)
	case inquiredIn:
		l.evidence.inquired(now, in.id, &in.q, a)
	case found:
		l.hinted(transport.Peer{ID: in.node.ID, Name: in.node.Name, Addr: in.node.Addr})
	case hintIn:
		l.looked(now, in)
	}
	l.hints.step(now, a)
	l.carryOut(now)
}

// link handles an event of the transport.
func (l *loop) link(now clock.Instant, ev transport.PeerEvent) {
	a := &l.acts
	if ev.Type == transport.ListenerLost {
		// The kernel now refuses connections to this process: peers treat it as dead.
		l.end(now, view.Removed{Reason: fmt.Sprintf("the listener at %s is lost: %v", l.n.self.Addr, ev.Err)})
		return
	}
	l.evidence.link(now, ev, a)
	switch ev.Type {
	case transport.Connected:
		if ev.Class == transport.Control {
			l.keys.ask(ev.Peer.ID, a)
		}
	case transport.Accepted:
		a.learn = append(a.learn, ev.Peer)
		l.forming.discovered(now, ev.Peer)
	case transport.OtherNode:
		a.learn = append(a.learn, ev.Peer)
		l.forming.discovered(now, ev.Peer)
	case transport.Refused, transport.DialFailed:
		if ev.Class == transport.Control {
			l.forming.lost(now, ev.Peer)
		}
	}
}

// message handles a message of KindEvidence.
func (l *loop) message(now clock.Instant, in messageIn) {
	a := &l.acts
	l.evidence.answered(in.from, a)
	switch m := in.msg.(type) {
	case *contact:
		l.forming.told(now, in.from, m, a)
	case claim:
		l.forming.claimedBy(now, in.from, m, a)
	case verdict:
		l.forming.judged(now, in.from, m, a)
	case goodbye:
		l.evidence.goodbye(now, in.from, a)
	case echo:
		a.tell(in.from, echoed{})
	case sealed:
		l.evidence.sealedTold(now, in.from, m.Subject, a)
	case *keyIDs:
		l.keys.received(in.from, m, a)
		l.publishKeys()
	}
}

// carryOut performs the machines' requests until there are none.
func (l *loop) carryOut(now clock.Instant) {
	for range 8 {
		a := l.acts
		l.acts = actions{}
		if a.empty() {
			return
		}
		l.perform(now, &a)
	}
}

func (l *loop) perform(now clock.Instant, a *actions) {
	n := l.n
	n.doubt(a.doubt, a.trust)
	if len(a.learn) > 0 {
		n.transport.Learn(a.learn...)
	}
	for _, ev := range a.core {
		l.step(now, ev)
	}
	for _, o := range a.send {
		l.buf = appendMessage(l.buf[:0], o.msg)
		if n.transport.Send(o.to, transport.Control, transport.KindEvidence, l.buf) != nil {
			n.counters.sendFailed.Add(1)
		}
	}
	for _, id := range a.show {
		l.send(view.Send{To: id, Msg: &view.Decided{View: n.View()}})
	}
	for _, ev := range a.events {
		n.events.put(ev, nil)
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
		n.events.put(PeerLost{ID: id, Class: transport.Message, Err: transport.ErrUnknownPeer}, nil)
	}
	for _, addr := range a.probe {
		n.probe(addr)
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
		n.inquire(node)
	}
	for _, x := range a.notes {
		n.record(x.kind, x.subject, 0, x.detail, x.warn)
	}
	if a.over != "" {
		lost := a.quorumLost && l.evidence.lostForGood(n.View(), n.cfg.Partition)
		l.end(now, view.Removed{Reason: a.over, QuorumLost: lost, Outranked: a.outranked})
	}
}

// step steps the core and performs its effects.
func (l *loop) step(now clock.Instant, ev view.Event) {
	if l.over {
		return
	}
	l.n.counters.steps.Add(1)
	l.out.Reset()
	l.core.Step(now, ev, &l.out)
	l.effects(now, &l.out)
}

// effects performs the core's requests, in the order of the fields: a lease that has
// ended is withdrawn before anything is sent.
func (l *loop) effects(now clock.Instant, out *view.Effects) {
	n := l.n
	if out.Abandon {
		n.counters.abandons.Add(1)
		n.lease.hold()
	}
	if out.Lease != nil {
		n.lease.set(*out.Lease, now)
	}
	if out.Abandon {
		n.events.put(Abandoned{}, n.lease.release)
	}
	l.tellLease(now)
	if out.View != nil {
		l.newView(now, out.View)
	}
	if out.Removed != nil {
		l.removed(*out.Removed)
	}
	l.tellLeader()
	for i := range out.Learn {
		x := &out.Learn[i]
		n.transport.Learn(transport.Peer{ID: x.ID, Name: x.Name, Addr: x.Addr})
	}
	for _, s := range out.Send {
		l.noticeRefusal(s)
		l.send(s)
	}
	for _, t := range out.Trace {
		n.record(t.Kind, t.Subject, t.Epoch, t.Detail, l.odd(t))
	}
}

func (l *loop) send(s view.Send) {
	l.buf = view.Append(l.buf[:0], s.Msg)
	if l.n.transport.Send(s.To, transport.Control, transport.KindView, l.buf) != nil {
		l.n.counters.sendFailed.Add(1)
		return
	}
	l.n.counters.viewOut.add(len(l.buf))
}

// tellLease reports to subscribers a lease that began, ended, or changed its kind.
func (l *loop) tellLease(now clock.Instant) {
	lease := l.n.Lease()
	ev := LeaseChanged{Lease: lease, Valid: lease.Valid(now)}
	if ev.Valid == l.told.Valid && (!ev.Valid ||
		ev.Lease.Generation == l.told.Lease.Generation && ev.Lease.Leader == l.told.Lease.Leader) {
		return
	}
	if l.told.Valid && !ev.Valid {
		l.n.counters.leaseLost.Add(1)
	}
	l.told = ev
	l.quorum.leased(now, ev.Valid)
	l.forming.leased(now, ev.Valid)
	l.n.events.put(ev, nil)
	l.n.wakeWaiters()
}

// newView publishes a view.
func (l *loop) newView(now clock.Instant, v *view.View) {
	n := l.n
	n.counters.views.Add(1)
	peers := make([]transport.Peer, 0, len(v.Members))
	members := make([]view.NodeID, 0, len(v.Members))
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
	l.noteForeign(before, v)
	if f := n.cfg.trace.view; f != nil {
		f(n.self.ID, v)
	}
	n.events.put(ViewChanged{v}, nil)
	for _, ev := range foreignStory(before, v) {
		n.events.put(ev, nil)
	}
	l.evidence.view(now, v, &l.acts)
	l.keys.viewed(v, l.evidence.reaches, &l.acts)
	l.publishKeys()
	l.forming.viewed(now, v, &l.acts)
	n.announce(l)
	n.wakeWaiters()
}

// removed ends the incarnation by the core's decision.
func (l *loop) removed(r view.Removed) {
	l.over = true
	r.Generation = l.core.Generation()
	l.n.lease.set(view.Lease{}, 0)
	l.n.events.put(Removed{r}, nil)
	l.n.finish(r)
}

// reasonClosed is the reason of an end by Close.
const reasonClosed = "closed"

// end ends the incarnation by this package's own decision.
func (l *loop) end(now clock.Instant, r view.Removed) {
	if l.over {
		return
	}
	if v := l.n.View(); v != nil {
		r.Epoch = v.Epoch
	}
	l.effects(now, &view.Effects{Lease: &view.Lease{}, Abandon: true, Removed: &r})
	l.n.record("removed", l.n.self.ID, r.Epoch, r.Reason, r.Reason != reasonClosed)
}

// probe dials a contact point in a goroutine of its own.
func (n *Node) probe(addr string) {
	n.counters.probes.Add(1)
	n.wg.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, 2*time.Second)
		defer cancel()
		who, err := n.transport.Probe(ctx, addr)
		if err != nil {
			n.counters.probesFailed.Add(1)
		}
		n.inbox.put(probedIn{addr, who, err})
	})
}

func (n *Node) askOracle(node view.Node) {
	n.wg.Go(func() {
		n.inbox.put(oracleIn{node.ID, askOracle(n.ctx, n.cfg.Oracle, node)})
	})
}

// record adds an event to Status and logs it.
func (n *Node) record(kind string, subject view.NodeID, epoch view.Epoch, detail string, warn bool) {
	n.recent.add(Recent{Time: time.Now(), Kind: kind, Subject: subject, Epoch: epoch, Detail: detail})
	level := slog.LevelDebug
	if warn {
		level = slog.LevelWarn
	}
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
