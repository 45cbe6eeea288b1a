package sim

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// faults break things at random moments, of the classes that the seed has switched on.
type faults struct {
	run   *run.Run
	rand  *virtual.Rand
	hosts *hosts
	net   *network.Network
}

// planFaults keeps breaking things until the run's faults end.
func (f *faults) planFaults() {
	f.run.After(f.rand.Duration(0, 2*f.run.Config.FaultEvery), func() {
		if f.run.Calm {
			return
		}
		f.breakOne()
		f.planFaults()
	})
}

// breakOne breaks one thing of a class that the seed has switched on.
func (f *faults) breakOne() {
	s := &f.run.Config
	kinds := []struct {
		on   bool
		name string
		do   func()
	}{
		{s.Crash, "crash", func() { f.onOne(f.crash) }},
		{s.Pause, "pause", func() { f.onOne(func(n *node) { f.pauseFor(n, f.drawSpan()) }) }},
		{s.StepPauses, "pause inside a step", func() { f.onOne(f.pauseInStep) }},
		{s.Slow, "slow process", func() { f.onOne(f.slowDown) }},
		{s.Partition, "partition", f.partition},
		{s.Partition, "broken paths", f.clog},
		{s.Flaky, "broken connections", f.breakConnections},
		{s.Leave, "leave", f.leaveSome},
		{s.Aim == seed.AimRemoval, "cut to the leader", f.deafen},
		{s.Rings, "ring", f.cutRing},
	}
	var on []int
	for i, k := range kinds {
		if k.on {
			on = append(on, i)
		}
	}
	if len(on) == 0 {
		return
	}
	if k := kinds[on[f.rand.IntN(len(on))]]; f.run.Strikes(k.name) {
		k.do()
	}
}

// drawNode draws a node that runs, nil if none does.
func (f *faults) drawNode() *node {
	all := f.hosts.running()
	if len(all) == 0 {
		return nil
	}
	return all[f.rand.IntN(len(all))]
}

func (f *faults) onOne(do func(*node)) {
	if n := f.drawNode(); n != nil {
		do(n)
	}
}

// drawSpan draws one of the durations of interest around a lease.
func (f *faults) drawSpan() time.Duration {
	l := f.run.Config.Lease
	return []time.Duration{l / 3, l * 9 / 10, l * 3 / 2, 3 * l, 8 * l}[f.rand.IntN(5)] + f.rand.Duration(0, l/5)
}

// crash ends a process, and often starts another one on its host.
func (f *faults) crash(n *node) {
	n.crash(f.run.Config.PowerLoss && f.rand.Chance(40))
	if f.run.Config.Reuse && f.rand.Coin() && f.net.LetAddress(n.p.Slot) {
		n.p.Event("address let", 0, nil)
	}
	if f.run.Config.Restart || f.rand.Chance(40) {
		f.restartIn(n.p.Slot, f.rand.Duration(2*time.Millisecond, 3*time.Second))
	}
}

func (f *faults) restartIn(slot int, d time.Duration) {
	f.run.After(d, func() {
		if at := &f.hosts.all[slot]; at.node == nil && !f.run.Calm && !at.stay {
			f.hosts.startNew(slot)
		}
	})
}

// planRestartAll has all processes crash at one moment, and start again.
func (f *faults) planRestartAll() {
	if !f.run.Config.RestartAll {
		return
	}
	d := f.run.Config.Duration
	f.run.After(f.rand.Duration(d/4, d), func() {
		if f.run.Calm || !f.run.Strikes("restart of all") {
			return
		}
		f.run.Hit(coverage.RestartAll)
		for _, n := range f.hosts.running() {
			n.crash(false)
			f.restartIn(n.p.Slot, f.rand.Duration(2*time.Millisecond, time.Second))
		}
	})
}

func (f *faults) pauseFor(n *node, d time.Duration) {
	if n.p.Thread.Paused() {
		return
	}
	if f.run.Config.Freeze && f.rand.Coin() {
		n.freeze()
	}
	n.pause()
	f.run.After(d, func() {
		if !f.run.Calm {
			n.resume()
		}
	})
}

// pauseInStep pauses a process before it sends the messages of its next step that has any. Its
// clock runs on, unless the run lets clocks stand still.
func (f *faults) pauseInStep(n *node) {
	d := f.drawSpan()
	n.p.Net.StopAtSend(func() bool {
		if f.run.Calm || n.p.Thread.Paused() {
			return false
		}
		f.run.Hit(coverage.PausedInStep)
		f.pauseFor(n, d)
		return true
	})
}

// slowDown has a process take time for each event.
func (f *faults) slowDown(n *node) {
	cost := f.rand.Duration(200*time.Microsecond, 4*time.Millisecond)
	n.p.Thread.SetCost(cost)
	f.run.Record.Begin(record.Bar{Kind: record.Slow, Host: n.p.Slot, Text: n.p.Label + " is slow: each event takes " + cost.String()})
	n.p.Event("slow", uint64(cost), nil)
	f.run.After(f.rand.Duration(50*time.Millisecond, 1500*time.Millisecond), func() {
		n.p.Thread.SetCost(0)
		f.run.Record.End(record.Slow, n.p.Slot, "", "quick again")
	})
}

// leaveSome has one node leave, and often further nodes with it.
func (f *faults) leaveSome() {
	for {
		f.onOne(f.makeLeave)
		if more := map[bool]int{false: 30, true: 60}[f.run.Config.Orderly]; !f.rand.Chance(more) {
			return
		}
	}
}

// makeLeave has a node leave in order; it may crash meanwhile, and starts again later.
func (f *faults) makeLeave(n *node) {
	s := &f.run.Config
	switch {
	case n.member.Leaving() || n.member.View() == nil && !s.Requests:
		return
	case n.member.View() == nil:
		n.leaveUnadmitted()
	default:
		n.leaveInOrder()
	}
	if s.Crash && f.rand.Chance(25) {
		f.run.After(f.rand.Duration(0, s.Lease/2), func() { n.crash(false) })
	}
	f.restartIn(n.p.Slot, f.rand.Duration(s.Lease, 4*s.Lease))
}
