package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
)

// planFaults keeps breaking things until the run's faults end.
func (w *world) planFaults() {
	w.After(w.faultRand.Duration(0, 2*w.swarm.faultEvery), func() {
		if w.calm {
			return
		}
		w.fault()
		w.planFaults()
	})
}

// fault breaks one thing of a class that the swarm has on.
func (w *world) fault() {
	s := &w.swarm
	kinds := []struct {
		on bool
		do func()
	}{
		{s.crash, w.faultCrash},
		{s.pause, w.faultPause},
		{s.slow, w.faultSlow},
		{s.partition, w.faultPartition},
		{s.partition, w.faultClog},
		{s.flaky, w.faultFlaky},
		{s.leave, w.faultLeave},
		{s.aim == aimRemoval, w.faultDeaf},
		{s.rings, func() { cutRing(w) }},
	}
	var on []func()
	for _, k := range kinds {
		if k.on {
			on = append(on, k.do)
		}
	}
	if len(on) > 0 {
		on[w.faultRand.IntN(len(on))]()
	}
}

// running lists the processes that live.
func (w *world) running() []*proc {
	var ps []*proc
	for i := range w.hosts {
		if p := w.hosts[i].proc; p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

func (w *world) anyone() *proc {
	ps := w.running()
	if len(ps) == 0 {
		return nil
	}
	return ps[w.faultRand.IntN(len(ps))]
}

// instants of interest around a lease.
func (w *world) span() time.Duration {
	l := w.swarm.lease
	return []time.Duration{l / 3, l * 9 / 10, l * 3 / 2, 3 * l, 8 * l}[w.faultRand.IntN(5)] + w.faultRand.Duration(0, l/5)
}

func (w *world) faultCrash() {
	if p := w.anyone(); p != nil {
		w.crashOne(p)
	}
}

func (w *world) crashOne(p *proc) {
	slot := p.slot
	p.crash(w.swarm.powerLoss && w.faultRand.Chance(40))
	if w.swarm.restart || w.faultRand.Chance(40) {
		w.restartIn(slot, w.faultRand.Duration(2*time.Millisecond, 3*time.Second))
	}
}

func (w *world) restartIn(slot int, d time.Duration) {
	w.After(d, func() {
		if h := &w.hosts[slot]; h.proc == nil && !w.calm && !h.stay {
			w.start(slot)
		}
	})
}

func (w *world) faultRestartAll() {
	if w.calm {
		return
	}
	w.hit(markRestartAll)
	for _, p := range w.running() {
		p.crash(false)
		w.restartIn(p.slot, w.faultRand.Duration(2*time.Millisecond, time.Second))
	}
}

func (w *world) faultPause() {
	if p := w.anyone(); p != nil {
		w.pauseFor(p, w.span())
	}
}

func (w *world) pauseFor(p *proc, d time.Duration) {
	if p.paused {
		return
	}
	p.pause()
	w.After(d, func() {
		if !w.calm {
			p.resume()
		}
	})
}

func (w *world) faultSlow() {
	p := w.anyone()
	if p == nil {
		return
	}
	p.cost = w.faultRand.Duration(200*time.Microsecond, 4*time.Millisecond)
	w.event(p, "slow", uint64(p.cost), nil)
	w.After(w.faultRand.Duration(50*time.Millisecond, 1500*time.Millisecond), func() { p.cost = 0 })
}

// blockKind draws how a path breaks.
func (w *world) blockKind() block {
	if w.swarm.reject && w.faultRand.Coin() {
		w.hit(markReject)
		return reject
	}
	return drop
}

func (w *world) faultPartition() {
	n := len(w.hosts)
	if n < 2 {
		return
	}
	side := map[int]bool{}
	for _, i := range w.faultRand.Subset(n, 1+w.faultRand.IntN(n-1)) {
		side[i] = true
	}
	oneWay := w.swarm.oneWay && w.faultRand.Coin()
	if oneWay {
		w.hit(markOneWay)
	}
	kind := w.blockKind()
	w.event(nil, "partition", uint64(len(side)), nil)
	w.cutOff(side, kind, oneWay)
	if w.faultRand.Chance(20) {
		// A bridge: one host still speaks with both sides.
		b := w.faultRand.IntN(n)
		for i := range w.hosts {
			w.setPath(b, i, open)
			w.setPath(i, b, open)
		}
	}
	w.healIn(w.span())
}

// healIn opens all paths, together or one by one.
func (w *world) healIn(d time.Duration) {
	step := time.Duration(0)
	if w.faultRand.Coin() {
		step = w.faultRand.Duration(0, 200*time.Millisecond)
	}
	n := len(w.hosts)
	for _, k := range w.faultRand.Perm(n * n) {
		w.After(d, func() {
			if !w.calm {
				w.setPath(k/n, k%n, open)
			}
		})
		d += step / time.Duration(n)
	}
}

func (w *world) faultClog() {
	n := len(w.hosts)
	kind := w.blockKind()
	for range 1 + w.faultRand.IntN(n) {
		i, j := w.faultRand.IntN(n), w.faultRand.IntN(n)
		w.setPath(i, j, kind)
		if !w.swarm.oneWay {
			w.setPath(j, i, kind)
		}
	}
	w.event(nil, "clog", uint64(kind), nil)
	w.healIn(w.span())
}

func (w *world) faultFlaky() {
	all := w.conns()
	if len(all) == 0 {
		return
	}
	w.event(nil, "connections break", uint64(len(all)), nil)
	for _, i := range w.faultRand.Subset(len(all), 1+w.faultRand.IntN(len(all))) {
		all[i].breaks()
	}
}

// faultLeave has one node leave, and often further nodes with it.
func (w *world) faultLeave() {
	for {
		if p := w.anyone(); p != nil {
			w.faultLeaveOf(p)
		}
		if more := map[bool]int{false: 30, true: 60}[w.swarm.orderly]; !w.faultRand.Chance(more) {
			return
		}
	}
}

func (w *world) faultLeaveOf(p *proc) {
	if p.member.leaving || p.member.view == nil {
		return
	}
	w.leave(p)
	if w.swarm.crash && w.faultRand.Chance(25) {
		w.After(w.faultRand.Duration(0, w.swarm.lease/2), func() { p.crash(false) })
	}
	w.restartIn(p.slot, w.faultRand.Duration(w.swarm.lease, 4*w.swarm.lease))
}

// leave takes a node out in order, as Node.Shutdown does.
func (w *world) leave(p *proc) {
	p.member.leaving = true
	p.noteUnhosted()
	p.run(func() {
		w.event(p, "leaves", 0, nil)
		if !w.swarm.announce {
			p.leaveUpper(func() { p.step(view.Leave{}) })
			return
		}
		p.step(view.AnnounceLeave{})
		p.whenLeaving(announcePatience, func() { p.leaveUpper(func() { p.step(view.Leave{}) }) })
	})
}

const announcePatience = 250 * time.Millisecond

// whenLeaving goes on when the process's view shows that it leaves, or patience ends.
func (p *proc) whenLeaving(patience time.Duration, then func()) {
	if m := p.member.view.Member(p.node.ID); patience <= 0 || m == nil || m.Status == gossip.Leaving {
		then()
		return
	}
	p.later(5*time.Millisecond, func() {
		if !p.over {
			p.whenLeaving(patience-5*time.Millisecond, then)
		}
	})
}

// aim strikes around the moments of propose and commit, where random faults are too rare.
// It cuts off or pauses some members, and kills some shortly after.
func (w *world) aim(from *proc, next *gossip.View) {
	if w.calm || !w.swarm.bursts || !w.faultRand.Chance(40) {
		return
	}
	w.hit(markBurst)
	n := len(w.hosts)
	w.event(from, "burst", uint64(next.Epoch), nil)
	side := map[int]bool{}
	for _, i := range w.faultRand.Subset(n, w.faultRand.IntN(n)) {
		side[i] = true
	}
	start := w.faultRand.Duration(0, 3*time.Millisecond)
	pause := w.swarm.pause && w.faultRand.Coin()
	oneWay := w.swarm.oneWay && w.faultRand.Coin()
	lasts := w.span()
	w.After(start, func() {
		if w.calm {
			return
		}
		if !pause {
			w.cutOff(side, drop, oneWay)
			w.healIn(lasts)
			return
		}
		for i := range w.hosts {
			if p := w.hosts[i].proc; side[i] && p != nil {
				w.pauseFor(p, lasts)
			}
		}
	})
	if !w.swarm.crash {
		return
	}
	kill := w.faultRand.Duration(5*time.Millisecond, w.swarm.lease*3/2)
	w.After(start+kill, func() {
		for i := range w.hosts {
			if p := w.hosts[i].proc; !w.calm && !side[i] && p != nil && w.faultRand.Chance(60) {
				w.crashOne(p)
			}
		}
	})
}

// cutRing leaves each host its two neighbours in a ring drawn at random. There are no two
// sides then: some pairs do not reach each other, and each has a member in common that
// reaches both.
func cutRing(w *world) {
	n := len(w.hosts)
	if n < ringMin {
		return
	}
	ring, kind := w.faultRand.Perm(n), w.blockKind()
	w.hit(markRing)
	w.event(nil, "ring", uint64(n), nil)
	for i := range n {
		for j := range n {
			if gap := (j - i + n) % n; gap > 1 && gap < n-1 {
				w.setPath(ring[i], ring[j], kind)
			}
		}
	}
	w.healIn(w.span())
}
