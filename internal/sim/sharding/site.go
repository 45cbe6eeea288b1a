package sharding

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
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

// hasHome reports whether the type has a home to go to.
func (b *base) hasHome() bool { return b.site.inv.hasHome(b.site.member.View(), b.spec) }

// countEvent sets the mark of a rare event of the data path.
func (b *base) countEvent(ev datapath.Event) { b.run.Hit(pathMarks[ev]) }

// pathMarks are the marks of rare events of the data path.
var pathMarks = map[datapath.Event]coverage.Mark{
	datapath.NoRoom: coverage.BufferFull, datapath.HeldUp: coverage.HeldUp, datapath.GateClosed: coverage.GateClosed, datapath.MessageRefused: coverage.Misrouted,
	datapath.SentAgain: coverage.SentAgain, datapath.WindowShrunk: coverage.WindowShrunk, datapath.MessageParked: coverage.Parked,
}
