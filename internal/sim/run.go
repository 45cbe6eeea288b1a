package sim

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Result is the outcome of a run.
type Result struct {
	Seed uint64
	// Hash is the hash of all events: equal seeds give equal hashes.
	Hash uint64
	// Events counts traced events, Delivered handled frames.
	Events, Delivered int
	// Virtual is how much time passed in the run.
	Virtual time.Duration
	// Marks counts the rare states that were seen.
	Marks Marks
	// Nodes and Ending are what the seed drew.
	Nodes  int
	Ending string
	// Failure is nil when every check held.
	Failure *Failure
}

// Failure describes a violation and how to replay it.
type Failure struct {
	What string
	// States are all processes at that moment, one a line.
	States string
	// Tail are the newest events.
	Tail string
	// Stack is set when a core panicked.
	Stack string
	// Replay is the command that plays the run again.
	Replay string
}

func (f *Failure) Error() string {
	s := f.What + "\n\nlast events:\n" + f.Tail + "\n\nstates:\n" + f.States
	if f.Stack != "" {
		s += "\n" + f.Stack
	}
	return s + "\nreplay: " + f.Replay
}

// Run plays one seed to its end. It is deterministic: the same Config, built from
// the same commit, gives the same Result. It uses the calling goroutine only.
func Run(cfg Config) Result {
	w := newWorld(&cfg)
	f := w.guarded()
	r := Result{
		Seed: cfg.Seed, Hash: w.hash, Events: w.lines, Delivered: w.delivered,
		Virtual: time.Duration(w.Now()), Marks: Marks{}, Nodes: w.swarm.nodes, Ending: w.swarm.ending.String(),
	}
	for m, n := range w.marks {
		if n > 0 {
			r.Marks[mark(m).String()] = n
		}
	}
	if f == nil {
		return r
	}
	if cfg.Tail == 0 && !cfg.again {
		again := cfg
		again.Tail, again.again, again.Trace = 120, true, nil
		return Run(again)
	}
	test := "TestSeeds"
	switch {
	case cfg.orderly:
		test = "TestOrderly"
	case cfg.apart:
		test = "TestApart"
	case cfg.trouble:
		test = "TestTrouble"
	case cfg.clocks:
		test = "TestClocks"
	case cfg.disks:
		test = "TestDisks"
	case cfg.rings:
		test = "TestRings"
	case cfg.aim != aimNone:
		test = "TestAimed/" + cfg.aim.String()
	}
	r.Failure = &Failure{
		What: fmt.Sprintf("seed %d: %s", cfg.Seed, f.what), States: w.states(), Tail: w.lastLines(), Stack: f.stack,
		Replay: fmt.Sprintf("PEERAGE_SEED=%d go test ./internal/sim -run %s -v", cfg.Seed, test),
	}
	return r
}

func newWorld(cfg *Config) *world {
	w := &world{
		cfg:          cfg,
		setRand:      virtual.NewRand(cfg.Seed, 1),
		netRand:      virtual.NewRand(cfg.Seed, 2),
		faultRand:    virtual.NewRand(cfg.Seed, 3),
		toldRand:     virtual.NewRand(cfg.Seed, 4),
		declineRand:  virtual.NewRand(cfg.Seed, 7),
		sealRand:     virtual.NewRand(cfg.Seed, 21),
		wallRand:     virtual.NewRand(cfg.Seed, 10),
		strangerRand: virtual.NewRand(cfg.Seed, 31),
		apartRand:    virtual.NewRand(cfg.Seed, 41),
		diskRand:     virtual.NewRand(cfg.Seed, 43),
		troubleRand:  virtual.NewRand(cfg.Seed, 45),
		clockRand:    virtual.NewRand(cfg.Seed, 47),
		routeRand:    virtual.NewRand(cfg.Seed, 51),
		byID:         map[nodeID]*proc{},
		members:      invariant.NewMembership(),
		watch:        newWatched(),
		wallAtStart:  1_700_000_000,
	}
	w.hash = fnvOffset
	w.out, w.keep = cfg.Trace, cfg.Tail
	w.swarm = drawSwarm(virtual.NewRand(cfg.Seed, 0), cfg)
	w.hosts = make([]host, w.swarm.nodes)
	for i := range w.hosts {
		h := &w.hosts[i]
		h.block = make([]block, len(w.hosts))
		h.latency = make([]time.Duration, len(w.hosts))
		for j := range h.latency {
			h.latency[j] = w.setRand.Duration(50*time.Microsecond, w.swarm.latencyMax)
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
		w.After(w.faultRand.Duration(w.swarm.duration/4, w.swarm.duration), w.faultRestartAll)
	}
	w.until(virtual.Instant(w.swarm.duration))
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
	moment := w.setRand.Duration(s.duration/4, s.duration/2)
	for i := range w.hosts {
		d := w.setRand.Duration(0, 300*time.Millisecond)
		if late := w.setRand.Coin(); s.join && i > 0 && s.duration > 4*time.Second && (late || s.aim == aimRaise) && (s.aim != aimRaise || i > 2) {
			w.hosts[i].stay = true
			d = w.setRand.Duration(0, s.duration/2)
			if s.together {
				d = moment
				w.After(d+50*time.Millisecond, func() {
					if p := w.hosts[i].proc; p != nil {
						p.run(p.learn)
					}
				})
			}
		}
		w.hosts[i].expected = !w.hosts[i].stay
		w.After(d, func() {
			w.hosts[i].stay = false
			if w.hosts[i].proc == nil {
				w.start(i)
			}
		})
	}
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
