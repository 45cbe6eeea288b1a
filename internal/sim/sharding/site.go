package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// site is what all entity types on one process share.
type site struct {
	p      *process.Process
	inv    *Invariants
	member *membership.Driver
	view   *gossip.View
	on     bool
}

// base is what all parts of one entity type on one process share.
type base struct {
	site   *site
	p      *process.Process
	run    *run.Run
	spec   *seed.Type
	number int
	checks *typeChecks
}

// later runs do after d, unless the process has ended.
func (b *base) later(d time.Duration, do func()) {
	b.p.Later(d, func() {
		if b.site.on {
			do()
		}
	})
}

// inbox passes work to a goroutine of a process, which does it in order, and some of it later.
type inbox struct {
	m *base
	// after is the time before which the goroutine sees nothing newer.
	after virtual.Instant
}

func (i *inbox) putWork(do func()) {
	r := i.m.run
	d := time.Duration(0)
	if r.Rand.Net.IntN(16) == 0 {
		d = r.Rand.Net.Duration(0, 3*time.Millisecond)
	}
	i.after = max(i.after, r.Now().Add(d))
	i.m.p.Thread.At(i.after, func() {
		if i.m.site.on {
			do()
		}
	})
}

// hasHome reports whether the type has a home to go to.
func (b *base) hasHome() bool { return b.site.inv.hasHome(b.site.member.View(), b.spec) }

// countEvent sets the mark of a rare event of the data path.
func (b *base) countEvent(ev datapath.Event) { b.run.Hit(pathMarks[ev]) }

// pathMarks are the marks of rare events of the data path.
var pathMarks = map[datapath.Event]coverage.Mark{
	datapath.NoRoom: coverage.BufferFull, datapath.HeldUp: coverage.HeldUp, datapath.GateClosed: coverage.GateClosed, datapath.MessageRefused: coverage.Misrouted,
	datapath.SentAgain: coverage.SentAgain, datapath.WindowShrunk: coverage.WindowShrunk, datapath.MessageParked: coverage.Parked,
}
