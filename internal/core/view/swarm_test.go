package view

import (
	"fmt"
	"github.com/peerage-go/peerage/gossip"
	"slices"
	"strings"
	"time"
)

// A swarm is a world whose faults are drawn from its seed. Each class of fault is
// on with probability 1/2. Bursts of faults are aimed at the moments that matter:
// when a view is proposed and when it is committed.
type swarm struct {
	*world
	f faults
	// blocked holds until when a direction is cut.
	blocked map[[2]gossip.NodeID]time.Duration
	// wall is set in the ending: it reports which nodes can reach which.
	wall     func(from, to gossip.NodeID) bool
	ending   bool
	names    int
	nextID   uint64
	proposed map[gossip.Epoch]bool
	// told holds the Link events that a node has received.
	told map[[2]gossip.NodeID]*linkState
	// accused holds which node received a weak proof of which living node.
	accused [][2]*simNode
}

type linkState struct {
	up    bool
	since time.Duration
}

// faults are the classes of faults that a seed enables.
type faults struct {
	nodes                                     int
	crash, pause, cut, oneWay, bridge, bursts bool
	joins, leaves, yields, slow, eager        bool
	proofs                                    proofMode
	rejoin, wrong, weak                       bool
	length                                    time.Duration
	every                                     time.Duration
}

type proofMode int

const (
	promptProofs proofMode = iota
	lateProofs
	mixedProofs
	noProofs
)

func newSwarm(seed uint64) *swarm {
	s := &swarm{
		world: newSeededWorld(nil, seed), blocked: map[[2]gossip.NodeID]time.Duration{},
		proposed: map[gossip.Epoch]bool{}, told: map[[2]gossip.NodeID]*linkState{},
	}
	s.quiet = true
	on := func() bool { return s.chance(50) }
	often := func() bool {
		if on() {
			return true
		}
		return on()
	}
	s.f = faults{
		nodes: 1 + s.rng.IntN(7), crash: on(), pause: on(), cut: on(), oneWay: on(), bridge: on(), bursts: often(),
		joins: on(), leaves: on(), yields: on(), slow: s.chance(20), eager: s.chance(10), proofs: proofMode(s.rng.IntN(4)),
		rejoin: on(), length: s.between(4*time.Second, 12*time.Second), every: s.between(150*time.Millisecond, 1500*time.Millisecond),
		wrong: on(), weak: on(),
	}
	s.draw(on)
	s.cut = s.isCut
	s.removed = func(n *simNode) {
		if s.f.rejoin || s.ending {
			s.at(s.between(time.Millisecond, 500*time.Millisecond), func() { s.arrive(n.name) })
		}
	}
	s.traced = s.aim
	return s
}

// draw sets up network and configuration.
func (s *swarm) draw(on func() bool) {
	s.viaCodec = s.chance(10)
	if s.chance(50) {
		s.packFrom = 2 + s.rng.IntN(4)
	}
	s.latency = s.between(50*time.Microsecond, 2*time.Millisecond)
	if on() {
		s.jitter = s.between(100*time.Microsecond, 10*time.Millisecond)
	}
	if s.f.slow {
		s.jitter = s.between(20*time.Millisecond, 400*time.Millisecond)
	}
	if on() {
		s.dropPct = 1 + s.rng.IntN(20)
	}
	if on() {
		s.dupPct = 1 + s.rng.IntN(20)
	}
	if s.chance(25) {
		s.cfg.DriftPPM = 50_000
	}
	if s.chance(25) {
		s.cfg.RemoveAfter = s.cfg.Lease + s.between(0, 3*s.cfg.Lease)
	}
	s.cfg.Evidence = [...]gossip.CrashEvidence{gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceFull, gossip.EvidenceWithinQuorum, gossip.EvidenceOff}[s.rng.IntN(6)]
	if s.chance(50) {
		s.drawPolicy()
	}
}

// drawPolicy takes one of the policies that are not the default. With AssumeCrash the
// lineages part by design: the checks that need one line are off, and only the end in one
// cluster after the heal is checked.
func (s *swarm) drawPolicy() {
	after := s.cfg.RemoveAfter + s.cfg.Lease + s.between(time.Millisecond, 4*time.Second)
	all := []gossip.Policy{
		gossip.StaticQuorum{N: 1 + s.rng.IntN(5)}, gossip.StaticQuorum{N: 1 + s.rng.IntN(5)}, gossip.KeepOldest{}, gossip.KeepOldest{}, weighted{}, gossip.AssumeCrash{After: after},
	}
	s.cfg.Partition = all[s.rng.IntN(len(all))]
	if _, assumes := s.cfg.Partition.(gossip.AssumeCrash); assumes {
		s.cfg.Evidence, s.truth.wrongEvidence = gossip.EvidenceFull, true
	}
	s.marks["policy "+strings.Fields(s.policy().String())[0]]++
}

func (s *swarm) isCut(from, to gossip.NodeID) bool {
	if s.wall != nil && s.wall(from, to) {
		return true
	}
	return s.blocked[[2]gossip.NodeID{from, to}] > s.now
}

// arrive starts a new incarnation under a name.
func (s *swarm) arrive(name int) gossip.NodeID {
	s.nextID++
	id := gossip.NodeID(s.rng.Uint64()%1000*1000 + s.nextID)
	ppm := int64(s.cfg.DriftPPM)
	s.addNode(id, name, s.between(0, 100*time.Hour), s.rng.Int64N(ppm)-ppm/2)
	s.note("node %d arrives as %d", name, id)
	s.ask(id)
	return id
}

// ask repeatedly names contacts to a node without a view.
func (s *swarm) ask(id gossip.NodeID) {
	n := s.nodes[id]
	if n.down || n.removed != nil || n.core.View() != nil {
		return
	}
	if c := s.contacts(); len(c) > 0 {
		s.step(id, Contacts{Nodes: c})
	}
	s.at(500*time.Millisecond, func() { s.ask(id) })
}

// start forms the cluster.
func (s *swarm) start() {
	first := s.arrive(0)
	s.step(first, Form{Generation: 100, Secret: [2]uint64{s.seed, 1}})
	for s.names = 1; s.names < s.f.nodes; s.names++ {
		name := s.names
		s.at(s.between(0, 300*time.Millisecond), func() { s.arrive(name) })
	}
	s.run(s.between(500*time.Millisecond, 2*time.Second))
	s.watchLinks()
}

func (s *swarm) some() (*simNode, bool) {
	l := s.living()
	if len(l) == 0 {
		return nil, false
	}
	return l[s.rng.IntN(len(l))], true
}

// trouble draws the next fault.
func (s *swarm) trouble() {
	n, ok := s.some()
	if !ok {
		return
	}
	switch s.rng.IntN(10) {
	case 9:
		if o, _ := s.some(); s.f.wrong && o != n {
			s.accuse(n, o, s.long())
		}
	case 0:
		if s.f.crash {
			s.die(n)
		}
	case 1, 2:
		if s.f.pause {
			s.sleep(n, s.long())
		}
	case 3:
		if s.f.cut {
			s.split(s.long())
		}
	case 4:
		if s.f.oneWay {
			s.deafen(n, s.long())
		}
	case 5:
		if s.f.bridge {
			s.bridge(s.long())
		}
	case 6:
		if s.f.joins && len(s.living()) < 8 {
			s.names++
			s.arrive(s.names)
		}
	case 7:
		if s.f.leaves && s.chance(40) {
			s.step(n.id, AnnounceLeave{})
			s.marks["announces its leave"]++
		} else if s.f.leaves && len(s.living()) > 1 {
			s.leave(n)
			if o, _ := s.some(); s.chance(30) && o != n && len(s.living()) > 2 {
				s.leave(o)
			}
		}
	case 8:
		if o, _ := s.some(); s.f.yields && o != n {
			s.step(n.id, Yield{Subject: o.id, Reporter: n.id})
		}
	}
}

func (s *swarm) leave(n *simNode) {
	n.leaves = true
	s.step(n.id, Leave{})
}

// long draws how long a fault lasts: around the times that matter.
func (s *swarm) long() time.Duration {
	l := s.cfg.Lease
	switch s.rng.IntN(4) {
	case 0:
		return s.between(0, l/2)
	case 1:
		return s.between(l/2, 3*l/2)
	case 2:
		return s.between(l, 2*s.cfg.RemoveAfter)
	}
	return s.between(0, 8*l)
}

func (s *swarm) sleep(n *simNode, d time.Duration) {
	if n.paused || n.down {
		return
	}
	s.pause(n.id)
	s.at(d, func() { s.resume(n.id) })
}

func (s *swarm) block(from, to gossip.NodeID, d time.Duration) {
	key := [2]gossip.NodeID{from, to}
	s.blocked[key] = max(s.blocked[key], s.now+d)
}

// accuse gives a node a weak proof of the death of a living peer, as a rejecting network
// does: the network may still deliver messages sent before, or all other traffic.
func (s *swarm) accuse(n, o *simNode, d time.Duration) {
	s.marks["weak proof of a living node"]++
	s.note("%d is refused by %d for %v", n.id, o.id, d)
	if s.chance(70) {
		s.block(n.id, o.id, d)
	}
	if s.chance(50) {
		s.block(o.id, n.id, d)
	}
	if s.chance(70) {
		s.told[[2]gossip.NodeID{n.id, o.id}] = &linkState{since: s.now}
		s.step(n.id, Link{Subject: o.id})
	}
	s.step(n.id, ProvenDead{Subject: o.id, Reason: "refused"})
	s.at(d, func() { s.acquit(n, o) })
	s.accused = append(s.accused, [2]*simNode{n, o})
}

// acquit withdraws the proof if its subject lives.
func (s *swarm) acquit(n, o *simNode) {
	if !o.down && o.removed == nil {
		s.step(n.id, Alive{Subject: o.id})
	}
}

// deafen cuts one direction of a node's links.
func (s *swarm) deafen(n *simNode, d time.Duration) {
	s.note("%d is deaf or mute for %v", n.id, d)
	deaf := s.chance(50)
	for _, o := range s.living() {
		if deaf {
			s.block(o.id, n.id, d)
		} else {
			s.block(n.id, o.id, d)
		}
	}
}

// split partitions the living nodes in two.
func (s *swarm) split(d time.Duration) {
	side := map[gossip.NodeID]bool{}
	for _, n := range s.living() {
		side[n.id] = s.chance(50)
	}
	s.note("split for %v: %v", d, side)
	for _, a := range s.living() {
		for _, b := range s.living() {
			if side[a.id] != side[b.id] {
				s.block(a.id, b.id, d+s.between(0, 50*time.Millisecond))
			}
		}
	}
}

// bridge leaves one node as the only one that two sides can both reach.
func (s *swarm) bridge(d time.Duration) {
	l := s.living()
	if len(l) < 3 {
		return
	}
	middle := s.rng.IntN(len(l))
	at := 1 + s.rng.IntN(len(l)-1)
	s.note("bridge %d for %v", l[middle].id, d)
	for i, a := range l {
		for j, b := range l {
			if i != middle && j != middle && (i < at) != (j < at) {
				s.block(a.id, b.id, d)
			}
		}
	}
}

// die crashes a node and gives the proof to other nodes, sooner or later or never.
func (s *swarm) die(n *simNode) {
	if n.down || len(s.living()) < 2 || s.ending {
		return
	}
	s.fell(n)
}

func (s *swarm) fell(n *simNode) {
	s.crash(n.id)
	for _, o := range s.living() {
		if after, ok := s.proofAfter(); ok {
			certain := !s.f.weak || s.chance(50)
			s.at(after, func() { s.step(o.id, ProvenDead{Subject: n.id, Reason: "oracle", Certain: certain}) })
			if !certain && s.chance(50) {
				s.at(after+s.between(0, s.cfg.Lease), func() { s.step(o.id, ProvenDead{Subject: n.id, Reason: "oracle", Certain: true}) })
			}
		}
	}
	if s.f.rejoin && s.chance(50) {
		s.at(s.between(10*time.Millisecond, 3*time.Second), func() {
			// The new incarnation at the old address is a proof as well.
			s.arrive(n.name)
			for _, o := range s.living() {
				if s.chance(50) && s.f.proofs != noProofs {
					s.step(o.id, ProvenDead{Subject: n.id, Reason: "new incarnation", Certain: true})
				}
			}
		})
	}
}

func (s *swarm) proofAfter() (time.Duration, bool) {
	mode := s.f.proofs
	if mode == mixedProofs {
		mode = proofMode(s.rng.IntN(4))
	}
	switch mode {
	case promptProofs:
		return s.between(5*time.Millisecond, 60*time.Millisecond), true
	case lateProofs, mixedProofs:
		return s.between(0, 2*s.cfg.RemoveAfter), true
	}
	return 0, false
}

// aim places bursts of faults at view changes.
func (s *swarm) aim(n *simNode, e *TraceEvent) {
	interesting := e.Kind == "commits" || e.Kind == "proposes" || e.Kind == "carries" || e.Kind == "emergency takeover"
	if s.ending || !s.f.bursts || !interesting || s.now < time.Second || !s.chance(15) {
		return
	}
	s.at(s.between(0, 3*s.latency+s.jitter), func() { s.burst(n) })
}

func (s *swarm) burst(n *simNode) {
	if s.ending {
		return
	}
	s.marks["burst"]++
	s.note("burst at %d", n.id)
	for _, o := range s.living() {
		d := s.long()
		switch s.rng.IntN(8) {
		case 0:
			s.sleep(o, d)
		case 1:
			for _, p := range s.living() {
				s.block(o.id, p.id, d)
				s.block(p.id, o.id, d)
			}
		case 2, 3:
			if s.f.crash {
				s.at(s.between(5*time.Millisecond, 3*s.cfg.Lease/2), func() { s.die(o) })
			}
		case 4:
			s.deafen(o, d)
		}
	}
	if s.f.crash && s.chance(30) {
		s.at(s.between(5*time.Millisecond, 3*s.cfg.Lease/2), func() { s.die(n) })
	}
}

// watchLinks reports links to their nodes, sooner or later, as control connections would:
// a dead or cut-off peer is detected within two seconds, a healed link too.
func (s *swarm) watchLinks() {
	for _, a := range s.living() {
		s.show(a)
		changed := false
		for _, b := range s.order {
			if a.id == b || a.paused {
				continue
			}
			changed = s.watchLink(a, s.nodes[b]) || changed
		}
		if changed {
			s.report(a)
		}
	}
	s.at(100*time.Millisecond, s.watchLinks)
}

// show acts as the shell with nodes that discovery finds: a node without a leader sends
// them its view.
func (s *swarm) show(a *simNode) {
	o, _ := s.some()
	if a.paused || a.core.View() == nil || s.holds(a) && !s.truth.wrongEvidence || !s.chance(20) || a.core.View().Member(o.id) != nil {
		return
	}
	s.transmit(a.id, o.id, &Decided{View: Whole(a.core.View())})
}

func (s *swarm) watchLink(a, b *simNode) bool {
	key := [2]gossip.NodeID{a.id, b.id}
	l := s.told[key]
	if l == nil {
		if b.down || b.removed != nil {
			return false
		}
		l = &linkState{}
		s.told[key] = l
	}
	up := !b.down && b.removed == nil && !s.isCut(a.id, b.id) && !s.isCut(b.id, a.id)
	if up == l.up {
		l.since = s.now
		return false
	}
	if !s.chance(30) && s.now-l.since < 2*time.Second {
		return false
	}
	l.up, l.since = up, s.now
	s.step(a.id, Link{Subject: b.id, Up: up})
	return true
}

// report gives a node's core the peers that it cannot reach.
func (s *swarm) report(a *simNode) {
	v := a.core.View()
	if v == nil {
		return
	}
	var broken []gossip.NodeID
	for i := range v.Members {
		id := v.Members[i].ID
		if l := s.told[[2]gossip.NodeID{a.id, id}]; id != a.id && (l == nil || !l.up) {
			broken = append(broken, id)
		}
	}
	if !slices.Equal(broken, a.broken) {
		a.broken = broken
		s.step(a.id, Unreachable{Nodes: broken})
	}
	if o := v.Oldest(""); s.f.yields && o != nil && o.ID == a.id && len(broken) > 0 && s.chance(30) {
		s.step(a.id, Yield{Subject: broken[s.rng.IntN(len(broken))], Reporter: a.id})
	}
}

// play runs a seed from start to end.
func (s *swarm) play() {
	s.start()
	for end := s.now + s.f.length; s.now < end; {
		s.trouble()
		s.run(s.between(0, 2*s.f.every))
	}
	s.end()
}

func (s *swarm) String() string { return fmt.Sprintf("seed %d, %+v, %+v", s.seed, s.f, s.cfg) }
