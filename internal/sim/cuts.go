package sim

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/seed"
)

// The faults of the network.

// drawBlock draws how a path breaks.
func (f *faults) drawBlock() network.Block {
	if f.run.Config.Reject && f.rand.Coin() {
		f.run.Hit(coverage.Reject)
		return network.Reject
	}
	return network.Drop
}

// drawSide draws k of the hosts.
func (f *faults) drawSide(k int) map[int]bool {
	side := map[int]bool{}
	for _, i := range f.rand.Subset(len(f.hosts.all), k) {
		side[i] = true
	}
	return side
}

// partition cuts some hosts off from the rest.
func (f *faults) partition() {
	n := len(f.hosts.all)
	if n < 2 {
		return
	}
	side := f.drawSide(1 + f.rand.IntN(n-1))
	oneWay := f.run.Config.OneWay && f.rand.Coin()
	if oneWay {
		f.run.Hit(coverage.OneWay)
	}
	kind := f.drawBlock()
	f.run.Event("", "partition", uint64(len(side)), nil)
	f.net.CutOff(side, kind, oneWay)
	if f.rand.Chance(20) {
		// A bridge: one host still reaches both sides.
		b := f.rand.IntN(n)
		for i := range n {
			f.net.SetBoth(b, i, network.Open)
		}
	}
	f.healIn(f.drawSpan())
}

// healIn opens all paths, together or one by one.
func (f *faults) healIn(d time.Duration) {
	step := time.Duration(0)
	if f.rand.Coin() {
		step = f.rand.Duration(0, 200*time.Millisecond)
	}
	n := len(f.hosts.all)
	for _, k := range f.rand.Perm(n * n) {
		f.run.After(d, func() {
			if !f.run.Calm {
				f.net.SetPath(k/n, k%n, network.Open)
			}
		})
		d += step / time.Duration(n)
	}
}

// clog blocks some paths.
func (f *faults) clog() {
	n := len(f.hosts.all)
	kind := f.drawBlock()
	for range 1 + f.rand.IntN(n) {
		i, j := f.rand.IntN(n), f.rand.IntN(n)
		f.net.SetPath(i, j, kind)
		if !f.run.Config.OneWay {
			f.net.SetPath(j, i, kind)
		}
	}
	f.run.Event("", "clog", uint64(kind), nil)
	f.healIn(f.drawSpan())
}

// breakConnections breaks some connections.
func (f *faults) breakConnections() {
	all := f.net.Connections()
	if len(all) == 0 {
		return
	}
	f.run.Event("", "connections break", uint64(len(all)), nil)
	for _, i := range f.rand.Subset(len(all), 1+f.rand.IntN(len(all))) {
		all[i].Break()
	}
}

// deafen cuts the paths between the leader and one member only.
// The cut lasts long enough for the leader to remove that member.
func (f *faults) deafen() {
	s := &f.run.Config
	for _, leader := range f.hosts.running() {
		n := f.drawNode()
		if leader.member.Lease().Leader && leader.member.LeaseValid() && n != leader {
			leader.p.Event("deaf", uint64(n.p.ID()), nil)
			f.net.SetBoth(leader.p.Slot, n.p.Slot, network.Drop)
			f.healIn(s.RemoveAfter + s.Lease)
			return
		}
	}
}

// cutRing leaves each host its two neighbours in a ring drawn at random. There are no two
// sides then: some pairs do not reach each other, and each has a member in common that
// reaches both.
func (f *faults) cutRing() {
	n := len(f.hosts.all)
	if n < seed.RingMin {
		return
	}
	ring, kind := f.rand.Perm(n), f.drawBlock()
	f.run.Hit(coverage.Ring)
	f.run.Event("", "ring", uint64(n), nil)
	for i := range n {
		for j := range n {
			if gap := (j - i + n) % n; gap > 1 && gap < n-1 {
				f.net.SetPath(ring[i], ring[j], kind)
			}
		}
	}
	f.healIn(f.drawSpan())
}
