package membership

import (
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// lease is the lease of a process, as the layers above see it.
type lease struct {
	p    *process.Process
	held view.Lease
	// was is when the lease ended that was held before the step under way.
	was clock.Instant
	// announced is set if the layers above count on the lease, onTurn informs them.
	announced bool
	onTurn    func(valid bool)
	// window is the true end of the newest lease that was valid when it was given: proofs of
	// deaths must come before it.
	window virtual.Instant
	// holds counts the abandonments under way: meanwhile no lease is valid.
	holds int
}

func (l *lease) isValid() bool {
	return l.p.Active() && l.holds == 0 && l.held.Valid(l.p.Now())
}

// setHeld takes a lease that the core gave or withdrew. The layers above check the lease at
// every dispatch; they are notified of changes a little later.
func (l *lease) setHeld(to view.Lease) {
	l.held = to
	l.p.Run.Record.Renew(l.p.Slot, to.Leader, l.trueEnd())
	l.p.Event("lease", uint64(to.Until), func() string {
		kind := "member"
		if to.Leader {
			kind = "leader"
		}
		return kind + " for " + to.Until.Sub(l.p.Now()).String()
	})
	valid := l.isValid()
	if valid != l.announced {
		l.turnTo(valid)
	}
	if valid {
		l.watchEnd()
	}
}

// watchEnd notifies the layers above when the lease has expired.
func (l *lease) watchEnd() {
	l.window = l.trueEnd()
	if l.p.Clock.RateChanges(l.p.Run.Now(), l.window) {
		l.p.Run.Hit(coverage.RateChanged)
	}
	l.p.Thread.At(l.p.Clock.When(l.held.Until), l.onExpiry)
}

func (l *lease) onExpiry() {
	if l.hasLapsed() {
		l.turnTo(false)
	}
}

// hasLapsed reports whether the lease has expired, and the layers above were not notified yet.
func (l *lease) hasLapsed() bool { return l.announced && !l.isValid() }

func (l *lease) turnTo(valid bool) {
	l.announced = valid
	if valid {
		l.p.Run.Hit(coverage.LeaseResumed)
	} else {
		l.p.Run.Hit(coverage.LeaseLapsed)
	}
	l.p.Event("lease valid", run.Number(valid), nil)
	l.onTurn(valid)
}

// endHold ends one hold. The layers above are notified if the lease is valid again, or
// has expired meanwhile.
func (l *lease) endHold() {
	l.holds--
	l.onExpiry()
	if !l.announced && l.isValid() {
		l.turnTo(true)
		l.watchEnd()
	}
}

// trueEnd is the true time at which the lease ends.
func (l *lease) trueEnd() virtual.Instant {
	if l.held.Until == 0 {
		return 0
	}
	return l.p.Clock.When(min(l.held.Until, clock.Never))
}
