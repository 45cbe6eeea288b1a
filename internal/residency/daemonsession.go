package residency

import (
	"context"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
)

// daemonSession is one incarnation's part in a daemon: it ends workers that must not run,
// acknowledges that they have ended, and writes plans while this node coordinates the type.
type daemonSession struct {
	k    *DaemonController
	home *Home
	// present is set once a majority has stored that this node is here.
	present bool
	// since is the epoch of the view in which it was stored.
	since gossip.Epoch
	acked daemon.Rev
	// stopping is the plan for which instances are being ended. At deadline, those that have
	// not ended are abandoned.
	stopping daemon.Rev
	deadline time.Time
	within   time.Duration
	forced   func(shards int)
	cancel   func()
}

// beginSession begins the session of an incarnation.
func beginSession(k *DaemonController, h *Home, within time.Duration, forced func(shards int)) *daemonSession {
	s := &daemonSession{k: k, home: h, within: within, forced: forced}
	if h.Plans != nil {
		s.cancel = h.Plans.WatchPlan(k.name, k.onReplica)
	}
	return s
}

// endSession implements planSession.
func (s *daemonSession) endSession() {
	if s.cancel != nil {
		s.k.planRead.Store(false)
		s.cancel()
	}
}

// followPlan implements planSession. It ignores the errors of a majority that cannot be
// reached: the next call tries again.
func (s *daemonSession) followPlan() (mayStart, soon bool) {
	if s.home.Plans == nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(s.home.Ctx, CheckEvery)
	defer cancel()
	if !s.present {
		m := s.home.Members()
		if !slices.Contains(m.Nodes, s.home.Self) {
			return false, true
		}
		s.since = m.Epoch
		s.present = s.home.Plans.AckPlan(ctx, s.k.name, s.home.Self, daemon.Ack{Since: s.since}) == nil
	}
	if s.present && !s.k.planRead.Load() {
		state, err := s.home.Plans.ReadPlan(ctx, s.k.name, 0)
		if err == nil {
			s.k.adoptPlan(state.Plan)
			s.k.planRead.Store(true)
		}
	}
	if !s.k.planRead.Load() {
		return false, false
	}
	soon = s.stopWorkers(ctx)
	s.writeNextPlan(ctx)
	return true, soon
}

// stopWorkers ends all workers if the plan requires it, and acknowledges the plan when they
// have ended. Until then it reports that it is busy.
func (s *daemonSession) stopWorkers(ctx context.Context) (busy bool) {
	p := s.k.plan.Load()
	if p == nil || p.Running || s.acked == p.Rev {
		return false
	}
	if s.stopping != p.Rev {
		s.stopping, s.deadline = p.Rev, time.Now().Add(s.within)
	}
	if s.home.stopAll() > 0 {
		if time.Now().After(s.deadline) && s.home.LeaseValid() {
			s.forced(s.home.abandonStuck())
		}
		return true
	}
	if s.home.Plans.AckPlan(ctx, s.k.name, s.home.Self, daemon.Ack{Rev: p.Rev, Since: s.since}) == nil {
		s.acked = p.Rev
	}
	return false
}

// writeNextPlan writes the next plan, if this node coordinates the type and a plan is due.
func (s *daemonSession) writeNextPlan(ctx context.Context) {
	term := s.home.Office()
	p := s.k.plan.Load()
	if wish := int(s.k.wish.Load()); term == 0 || p != nil && p.Running && (wish == 0 || wish == p.Workers) {
		return
	}
	state, err := s.home.Plans.ReadPlan(ctx, s.k.name, term)
	if err != nil {
		return
	}
	state.Wish = min(state.Wish, s.k.max)
	members := s.home.Members()
	next, due := daemon.Next(&state, term, s.k.first, members)
	if !due || s.home.Plans.WritePlan(ctx, s.k.name, term, next, daemon.Stale(&state, members)) != nil {
		return
	}
	s.k.adoptPlan(next)
}
