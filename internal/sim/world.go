package sim

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/invariant"
)

// world is one run: hosts, network, processes and checkers under one schedule.
type world struct {
	schedule
	tracer
	cfg   *Config
	swarm swarm

	setRand, netRand, faultRand, toldRand, declineRand, sealRand, wallRand, strangerRand, apartRand, diskRand, troubleRand, clockRand, routeRand *pcg

	hosts []host
	byID  map[nodeID]*proc
	ids   uint64
	marks [marksEnd]int

	members *invariant.Membership
	watch   watched
	upperWorld
	meeting meeting

	newest   *gossip.View
	newestAt instant
	// wallAtStart is the wall clock in seconds when the run began.
	wallAtStart uint32
	formed      int
	// driftBroken is set when a clock left the bound: strict forms may fail then.
	driftBroken bool
	// calm is set when faults have ended.
	calm bool

	// healed is how long the ending took.
	healed time.Duration

	sent, delivered, lost int
}

// failure stops a run; the check that finds it panics with it.
type failure struct {
	what  string
	stack string
}

// fail stops the run.
func (w *world) fail(id, format string, args ...any) {
	panic(failure{what: id + ": " + fmt.Sprintf(format, args...)})
}

// judge stops the run at a violation.
func (w *world) judge(v *invariant.Violation) {
	if v == nil || w.swarm.wrongEvidence || w.driftBroken {
		return
	}
	panic(failure{what: w.readable(v.Error())})
}

// readable replaces node ids by labels.
func (w *world) readable(s string) string {
	for i := range w.hosts {
		for _, n := range w.hosts[i].former {
			s = strings.ReplaceAll(s, n.ID.String(), w.name(n.ID))
		}
		if p := w.hosts[i].proc; p != nil {
			s = strings.ReplaceAll(s, p.node.ID.String(), p.label)
		}
	}
	return s
}

// event traces something that happened at a process, nil for the world.
func (w *world) event(p *proc, kind string, num uint64, detail func() string) {
	who := ""
	if p != nil {
		who = p.label
	}
	w.tracer.event(w.now, who, kind, num, detail)
}

func newWorld(cfg *Config) *world {
	w := &world{
		cfg:          cfg,
		setRand:      newPCG(cfg.Seed, 1),
		netRand:      newPCG(cfg.Seed, 2),
		faultRand:    newPCG(cfg.Seed, 3),
		toldRand:     newPCG(cfg.Seed, 4),
		declineRand:  newPCG(cfg.Seed, 7),
		sealRand:     newPCG(cfg.Seed, 21),
		wallRand:     newPCG(cfg.Seed, 10),
		strangerRand: newPCG(cfg.Seed, 31),
		apartRand:    newPCG(cfg.Seed, 41),
		diskRand:     newPCG(cfg.Seed, 43),
		troubleRand:  newPCG(cfg.Seed, 45),
		clockRand:    newPCG(cfg.Seed, 47),
		routeRand:    newPCG(cfg.Seed, 51),
		byID:         map[nodeID]*proc{},
		members:      invariant.NewMembership(),
		watch:        newWatched(),
		wallAtStart:  1_700_000_000,
	}
	w.hash = fnvOffset
	w.out, w.keep = cfg.Trace, cfg.Tail
	w.swarm = drawSwarm(newPCG(cfg.Seed, 0), cfg)
	w.hosts = make([]host, w.swarm.nodes)
	for i := range w.hosts {
		h := &w.hosts[i]
		h.block = make([]block, len(w.hosts))
		h.latency = make([]time.Duration, len(w.hosts))
		for j := range h.latency {
			h.latency[j] = w.setRand.dur(50*time.Microsecond, w.swarm.latencyMax)
		}
	}
	w.startUpperWorld()
	w.standApart()
	return w
}

// run plays the seed to its end.
func (w *world) run() {
	w.event(nil, "swarm", uint64(w.swarm.nodes), func() string { return fmt.Sprintf("%+v", w.swarm) })
	w.startHosts()
	w.planFaults()
	w.planStrangers()
	w.planDisks()
	planClocks(w, jumpsMax)
	if w.swarm.restartAll {
		w.after(w.faultRand.dur(w.swarm.duration/4, w.swarm.duration), w.faultRestartAll)
	}
	w.until(instant(w.swarm.duration))
	w.calm = true
	w.mendDisks()
	rightClocks(w)
	w.finish()
	w.checkEnd()
}

// startHosts starts the hosts, in runs with joins some of them late, and perhaps all
// late ones at one moment.
func (w *world) startHosts() {
	s := &w.swarm
	moment := w.setRand.dur(s.duration/4, s.duration/2)
	for i := range w.hosts {
		d := w.setRand.dur(0, 300*time.Millisecond)
		if late := w.setRand.coin(); s.join && i > 0 && s.duration > 4*time.Second && (late || s.aim == aimRaise) && (s.aim != aimRaise || i > 2) {
			w.hosts[i].stay = true
			d = w.setRand.dur(0, s.duration/2)
			if s.together {
				d = moment
				w.after(d+50*time.Millisecond, func() {
					if p := w.hosts[i].proc; p != nil {
						p.run(p.learn)
					}
				})
			}
		}
		w.hosts[i].expected = !w.hosts[i].stay
		w.after(d, func() {
			w.hosts[i].stay = false
			if w.hosts[i].proc == nil {
				w.start(i)
			}
		})
	}
}

// until plays events up to a time.
func (w *world) until(end instant) {
	for w.next(end) {
	}
}

// untilTrue plays until a condition holds, asked every step, or time is up.
func (w *world) untilTrue(limit, step time.Duration, ok func() bool) bool {
	end := w.now.add(limit)
	for w.now < end {
		if ok() {
			return true
		}
		w.until(min(end, w.now.add(step)))
	}
	return ok()
}

// guarded runs the seed and catches what stops it: a failed check, or a panic in
// a core, which is a failure as well.
func (w *world) guarded() (f *failure) {
	defer func() {
		if r := recover(); r != nil {
			stopped, ok := r.(failure)
			if !ok {
				stopped = failure{what: fmt.Sprintf("panic: %v", r), stack: string(debug.Stack())}
			}
			f = &stopped
		}
	}()
	w.run()
	return nil
}

// states renders every process side by side.
func (w *world) states() string {
	var b strings.Builder
	for i := range w.hosts {
		h := &w.hosts[i]
		p := h.proc
		if p == nil {
			fmt.Fprintf(&b, "  %c   -- down (power off: %v)  paths %v\n", 'a'+i, h.down, h.block)
			continue
		}
		lease := "no lease"
		if p.leaseValid() {
			lease = fmt.Sprintf("lease %v", p.member.lease.Until.Sub(p.now()).Round(time.Millisecond))
			if p.member.lease.Leader {
				lease += " (leader)"
			}
		}
		fmt.Fprintf(&b, "  %-3s %016x paused=%-5v over=%-5v %-24s %-30s paths %v unreachable [%s] %s\n", p.label, uint64(p.node.ID), p.paused, p.over, lease,
			w.viewText(p.member.view), h.block, w.names(p.member.links.reported), p.upperState())
	}
	return b.String()
}
