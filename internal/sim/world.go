package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/mutant"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

type nodeID = gossip.NodeID

// Config selects the run to play. The zero Config plays seed 0.
type Config struct {
	// Seed decides everything: configuration, schedule, faults.
	Seed uint64
	// Nodes fixes the number of hosts, at most 26; 0 lets the seed draw 1 to 7.
	Nodes int
	// Trace, if set, gets one line per event.
	Trace io.Writer
	// Tail is how many of the newest lines a failure reports. It slows runs down, so
	// Run plays a failed seed again with a tail of its own when it is 0.
	Tail int
	// ViewsOnly leaves the replicator and sharding out.
	ViewsOnly bool
	// Mutant plants a bug; tests of the checkers use it.
	Mutant mutant.Kind

	// onView, set by tests, gets every new view core: to plant bugs.
	onView func(*view.Core)
	// orderly, set by tests, has nothing happen but joins, leaves and moves.
	orderly bool
	again   bool
	// apart, set by tests, has every run be one of two clusters that meet.
	apart bool
	// clocks, set by tests, has the clocks of stamps jump in every run.
	clocks bool
	// trouble, set by tests, has frames be damaged and handlers block in every run.
	trouble bool
	// rings, set by tests, has cuts be rings in every run.
	rings bool
	// disks, set by tests, has every run be one with durable words.
	disks bool
	// aim, set by tests, is the aim of every run.
	aim aim
}

// world is one run: hosts, network, processes and checkers under one schedule.
type world struct {
	virtual.Schedule
	tracer
	cfg   *Config
	swarm swarm

	setRand, netRand, faultRand, toldRand, declineRand, sealRand, wallRand, strangerRand, apartRand, diskRand, troubleRand, clockRand, routeRand *virtual.Rand

	hosts []host
	byID  map[nodeID]*proc
	ids   uint64
	marks [marksEnd]int

	members *invariant.Membership
	watch   watched
	upperWorld
	meeting meeting

	newest   *gossip.View
	newestAt virtual.Instant
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
	w.tracer.event(w.Now(), who, kind, num, detail)
}

// until plays events up to a time.
func (w *world) until(end virtual.Instant) {
	for w.Next(end) {
	}
}

// untilTrue plays until a condition holds, asked every step, or time is up.
func (w *world) untilTrue(limit, step time.Duration, ok func() bool) bool {
	end := w.Now().Add(limit)
	for w.Now() < end {
		if ok() {
			return true
		}
		w.until(min(end, w.Now().Add(step)))
	}
	return ok()
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
