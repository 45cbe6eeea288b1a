package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/fence"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// proc is one process: one incarnation of a node, with its cores and the thin
// drivers that carry out their effects as the shells do. Everything that happens
// to it goes through run, so that a paused process handles nothing, and a slow
// one handles late, in order.
type proc struct {
	w     *world
	slot  int
	label string
	node  gossip.Node
	// process and incarnation order what successive incarnations send.
	process, incarnation uint64
	marks                *fence.Marks[uint64]
	dropped              *fence.Dropped[nodeID]
	// generation is the highest that the process has met, in all its incarnations.
	generation uint32
	clk        virtual.Clock
	born       virtual.Instant
	alive      bool
	paused     bool
	// pausedAt is when the pause began.
	pausedAt virtual.Instant
	// pausedUntil is when the newest pause ended.
	pausedUntil virtual.Instant
	// over is set when the incarnation was removed: its stack is closing.
	over bool
	// outranked is set if the process was removed because another cluster continues;
	// yielded is set if its own cluster has yielded.
	outranked, yielded bool
	// least is the generation that a cluster must have reached when it lets this one in,
	// cameFrom the cluster that its former incarnation stood in, when that was outranked.
	least    uint32
	cameFrom uint64
	// former is the newest view held here.
	former *gossip.View
	// met is the highest generation of an attempt that it proposed or accepted.
	met uint32

	waiting  []func()
	draining bool
	// cost is the time to handle one event; zero except on slow nodes.
	cost time.Duration

	out, in   map[peerClass]*conn
	forgotten map[nodeID]bool
	dialTries []int
	dialNext  []virtual.Instant

	member membership
	layers layers
}

func (p *proc) now() clock.Instant { return p.clk.Read(p.w.Now()) }

// run does something in the process when it gets to it.
func (p *proc) run(do func()) {
	if !p.alive {
		return
	}
	if !p.paused && p.cost == 0 && len(p.waiting) == 0 {
		do()
		return
	}
	p.waiting = append(p.waiting, do)
	p.drain(p.cost)
}

func (p *proc) drain(wait time.Duration) {
	if p.draining || p.paused || len(p.waiting) == 0 {
		return
	}
	p.draining = true
	p.w.After(wait, func() {
		p.draining = false
		if !p.alive || p.paused || len(p.waiting) == 0 {
			return
		}
		do := p.waiting[0]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		do()
		p.drain(p.cost)
	})
}

// later does something on another goroutine of the process: a little later, and
// not at all once it is dead.
func (p *proc) later(d time.Duration, do func()) {
	p.w.After(d, func() { p.run(do) })
}

func (p *proc) pause() {
	p.paused, p.pausedAt = true, p.w.Now()
	p.w.event(p, "paused", 0, nil)
}

func (p *proc) resume() {
	if !p.alive || !p.paused {
		return
	}
	p.paused = false
	p.pausedUntil = p.w.Now()
	p.w.event(p, "resumed", uint64(len(p.waiting)), nil)
	p.w.checkPause(p)
	p.drain(0)
}

// timer asks for one Tick at a deadline of a core. An earlier wish replaces a
// later one; a later one waits until the earlier has fired.
type timer struct {
	p    *proc
	want clock.Instant
	fire func()
}

func newTimer(p *proc, fire func()) timer { return timer{p: p, want: clock.Never, fire: fire} }

func (t *timer) set(i clock.Instant) {
	if i >= t.want {
		return
	}
	t.want = i
	slack := time.Duration(t.p.w.netRand.Uint64() % uint64(t.p.w.swarm.ping/50))
	t.p.w.At(t.p.clk.When(i).Add(slack), func() {
		if t.want != i {
			return
		}
		t.p.run(func() {
			if t.want == i {
				t.want = clock.Never
				t.fire()
			}
		})
	})
}

// handle takes a frame that came from a peer.
func (p *proc) handle(from nodeID, f frame) {
	if p.over || p.forgotten[from] {
		p.w.lost++
		return
	}
	p.w.delivered++
	if !p.w.swarm.datagrams || f.kind != transport.KindView {
		p.links().withdrawProof(from)
	}
	switch f.kind {
	case transport.KindView:
		p.step(view.Received{From: from, Msg: f.msg.(view.Message)})
	case transport.KindEvidence:
		p.goodbye(from)
	default:
		p.handleUpper(from, f)
	}
}

// start brings a new process up on a host.
func (w *world) start(slot int) *proc { return w.startNext(slot, nil) }

// startNext brings up the next incarnation of the process that former was of, or a new
// process if former is nil.
func (w *world) startNext(slot int, former *proc) *proc {
	h := &w.hosts[slot]
	h.down, h.expected = false, true
	w.ids++
	id := nodeID(w.setRand.Uint64()>>16<<16 | w.ids)
	p := &proc{
		w: w, slot: slot, label: label(slot, h.lives), born: w.Now(), alive: true,
		node: gossip.Node{ID: id, Name: label(slot, 0), Addr: "10.0.0." + label(slot, 0) + ":7000", Roles: w.swarm.rolesOf(slot)},
		clk:  w.drawClock(),
		out:  map[peerClass]*conn{}, in: map[peerClass]*conn{}, forgotten: map[nodeID]bool{},
		dialTries: make([]int, len(w.hosts)), dialNext: make([]virtual.Instant, len(w.hosts)),
		process: uint64(id), incarnation: 1,
		marks:   fence.NewMarks(fenceMax, func(uint64) bool { return false }),
		dropped: fence.NewDropped[nodeID](fenceMax),
	}
	w.jumpWall(slot)
	if former != nil {
		p.generation = former.generation
		p.process, p.incarnation = former.process, former.incarnation+1
		p.inherit(former)
	}
	w.messages.Sender(id, p.process, p.incarnation)
	h.lives++
	h.proc = p
	w.byID[id] = p
	w.event(p, "started", uint64(id), nil)
	p.startMembership()
	p.startLayers()
	return p
}

func (w *world) drawClock() virtual.Clock {
	bound := int64(w.swarm.driftPPM)
	ppm := int64(w.setRand.Uint64()%uint64(bound+1)) - bound/2
	if w.swarm.driftBeyond && w.setRand.Chance(50) {
		ppm *= 30
		w.hit(markDriftBeyond)
		w.driftBroken = true
	}
	return virtual.NewClock(int64(w.setRand.Uint64()>>14), ppm)
}

// crash ends a process with the loss of its memory; power takes the machine too.
func (p *proc) crash(power bool) {
	if !p.alive {
		return
	}
	w := p.w
	w.event(p, "crashed", b2u(power), nil)
	w.hosts[p.slot].down = power
	p.end()
}

// end takes the process away.
func (p *proc) end() {
	w := p.w
	p.alive = false
	w.hosts[p.slot].proc = nil
	w.hosts[p.slot].former = append(w.hosts[p.slot].former, p.node)
	p.waiting = nil
	w.members.Gone(p.node.ID)
	p.endUpper()
	w.gone(p)
}
