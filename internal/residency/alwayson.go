package residency

import (
	"time"

	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// AlwaysOn keeps entities of one type running as long as their shard does: the home starts
// them when the shard starts, and again when they have ended.
type AlwaysOn struct {
	// ids returns the entities of a shard that must run now.
	ids func(strategy.ShardID) []string
	// begin is nil unless the type is a daemon. It begins a session of its plan.
	begin func(h *Home, within time.Duration, forced func(shards int)) planSession
	// changed wakes the goroutine.
	changed signal.Signal
}

// planSession is one incarnation's part in the plan of a daemon.
type planSession interface {
	// followPlan does the next step of the plan. mayStart reports whether workers may start,
	// soon whether it must be called again after checkSoon.
	followPlan() (mayStart, soon bool)
	// endSession stops watching the plan.
	endSession()
}

// CheckEvery is how often a home checks the entities. One that has ended starts again after
// this time at the latest.
const CheckEvery = 500 * time.Millisecond

// checkSoon is the time between two checks while a daemon's plan is being carried out.
const checkSoon = 20 * time.Millisecond

// NewAlwaysOn returns an AlwaysOn of the entities that ids returns for each shard.
func NewAlwaysOn(ids func(strategy.ShardID) []string) *AlwaysOn { return &AlwaysOn{ids: ids} }

// Check makes the goroutine check without delay.
func (a *AlwaysOn) Check() { a.changed.Broadcast() }

// Serve keeps the entities of h running until the incarnation ends. A daemon's workers that
// must not run get within to end. forced is called with the number of shards that were
// abandoned then.
func (a *AlwaysOn) Serve(h *Home, within time.Duration, forced func(shards int)) {
	timer := time.NewTimer(CheckEvery)
	defer timer.Stop()
	var session planSession
	if a.begin != nil {
		session = a.begin(h, within, forced)
		defer session.endSession()
	}
	for {
		woken := a.changed.Wait()
		mayStart, soon := true, false
		if session != nil {
			mayStart, soon = session.followPlan()
		}
		if mayStart {
			a.ensureRunning(h)
		}
		timer.Reset(CheckEvery)
		if soon {
			timer.Reset(checkSoon)
		}
		select {
		case <-h.Ctx.Done():
			return
		case <-woken:
		case <-timer.C:
		}
	}
}

// ensureRunning starts the entities that must run and do not.
func (a *AlwaysOn) ensureRunning(h *Home) {
	for i := range strategy.ShardID(h.Shards) {
		ids := a.ids(i)
		if len(ids) == 0 {
			continue
		}
		h.WantHome(i)
		if s := h.Shard(i); s != nil {
			for _, id := range ids {
				s.Ensure(id)
			}
		}
	}
}
