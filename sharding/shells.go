package sharding

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/eventqueue"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/statetransfer"
)

// typesMax bounds the types for which other nodes can make this node start a shell.
const typesMax = 1024

// newShell makes the shell of a type; called with the mutex.
func (s *service) newShell(info typeInfo, p dataPath) *shell {
	sh := &shell{
		s: s, info: info, path: p,
		inbox: eventqueue.New(joinShardEvents), ended: make(chan struct{}), drained: make(chan struct{}), trace: &traceRing{},
	}
	sh.inc = s.incarnation(sh)
	states := &statetransfer.Counters{}
	if p != nil {
		states = &p.base().counters.transfers
	}
	sh.transfers = s.transfers.Type(info.name, states, func(id gossip.NodeID) bool { return sh.view.Load().Member(id) != nil })
	floors := s.floors[info.name]
	if floors == nil {
		floors = &region.Floors{}
		s.floors[info.name] = floors
	}
	hosts := p != nil && s.hosts(&info)
	if p != nil {
		p.base().SetDifference(nil)
	}
	sh.region = region.New(region.Config{
		Self: s.cfg.Self.ID, Type: info.name, Role: info.role, Shards: int(info.shards),
		Hosts: hosts, Foreign: p == nil, Capacity: s.cfg.Capacity, ShardOf: info.print, Keeps: info.keeps, Messages: info.messages,
	}, floors)
	if p != nil && s.cfg.Self.HasRole(info.role) && s.cfg.Store != nil {
		sh.coord = coordinator.New(coordinator.Config{
			Self: s.cfg.Self.ID, Type: info.name, Role: info.role, Shards: int(info.shards), ShardOf: info.print, Keeps: info.keeps, Messages: info.messages,
			Strategy: newRecoverStrategy(info.strategy, info.name, s.log), MinMembers: info.minMembers, MinMembersAll: s.cfg.MinMembers, DeclinedIn: s.declined[info.name], Reluctant: info.proxy,
			StopTimeout: info.stopTimeout, Rebalance: info.rebalance, RemoveAfter: s.cfg.RemoveAfter,
		})
	}
	return sh
}

// begin starts a shell with the present view and lease; called with the mutex.
func (s *service) begin(sh *shell) {
	if s.view != nil {
		sh.inbox.Put(viewChanged{s.view})
	}
	sh.inbox.Put(leaseChanged{s.cfg.LeaseValid()})
	go sh.run()
}

func (s *service) incarnation(sh *shell) *incarnation {
	inc := &incarnation{
		self: s.cfg.Self.ID, ctx: s.ctx, work: &s.work,
		plans: s.plans(sh.info.role), office: sh.office, members: sh.members,
		supersede: func(shard ShardID, t Token) { sh.inbox.Put(superseded{shard, t}) },
		remember:  s.rememberer(sh.info.role), pace: s.pace,
		strict: s.cfg.Strict || raceEnabled,
		mutual: &s.mutual, budgets: s.budgets, log: s.log, alive: s.cfg.LeaseValid, observer: s.observer,
		Incarnation: &delivery.Incarnation{
			Self: s.cfg.Self.ID, Links: s.cfg.Links, Ctx: s.ctx, Work: &s.work, Out: &s.out,
			Need: func(shard ShardID) { sh.inbox.Put(region.NeedHome{Shards: []ShardID{shard}}) },
			Misrouted: func(shard ShardID, t Token) {
				sh.inbox.Put(region.Misrouted{Shard: shard, Token: t})
			},
			Acked: func(from gossip.NodeID, shard ShardID, t Token) {
				sh.inbox.Put(region.MarkerAcked{From: from, Shards: []protocol.ShardToken{{Shard: shard, Token: t}}})
			},
		},
	}
	if o := s.observer; o != nil {
		inc.HomeResolved = func(took time.Duration) { o.HomeResolved(sh.info.name, took) }
	}
	return inc
}

// plans returns where the plans of a role's daemons are kept, nil where they cannot
// be.
func (s *service) plans(role string) placement.PlanStore {
	if !s.cfg.Self.HasRole(role) || s.cfg.Store == nil {
		return nil
	}
	p, _ := s.cfg.Store(role).(placement.PlanStore)
	return p
}

// rememberer returns the store of a role's remembered entities, nil if there is none.
func (s *service) rememberer(role string) placement.Rememberer {
	if !s.cfg.Self.HasRole(role) || s.cfg.Store == nil {
		return nil
	}
	r, _ := s.cfg.Store(role).(placement.Rememberer)
	return r
}

// office returns the term of the office that this node's coordinator holds, 0 for
// none.
func (sh *shell) office() gossip.Epoch { return gossip.Epoch(sh.inOffice.Load()) }

// members returns the nodes of the type's role in the view.
func (sh *shell) members() (m daemon.Members) {
	v := sh.view.Load()
	if v == nil {
		return m
	}
	m.Epoch = v.Epoch
	for i := range v.Members {
		if v.Members[i].HasRole(sh.info.role) {
			m.Nodes = append(m.Nodes, v.Members[i].ID)
		}
	}
	return m
}

// shellFor returns the shell that a message is for. A node must answer the census of a type
// that it has not registered, since a former registration may have hosted shards: it gets a
// region that hosts nothing.
func (s *service) shellFor(m protocol.Message) *shell {
	typ := m.Header().Type
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shells[typ]
	census, is := m.(*protocol.CensusRequest)
	if sh != nil || s.closed || !is || len(s.shells) >= typesMax {
		return sh
	}
	return s.addForeign(typ, census.Role)
}

// retire ends the shell of a type that is now registered; called with the mutex.
func (sh *shell) retire() {
	sh.inbox.CloseWith(stop{})
	<-sh.ended
}

// stop ends a shell's goroutine.
type stop struct{}

// all returns the shells, sorted by type.
func (s *service) all() []*shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*shell
	for _, name := range slices.Sorted(maps.Keys(s.shells)) {
		out = append(out, s.shells[name])
	}
	return out
}

// ViewChanged reports a newer view. Asks that wait for nodes that left fail before it
// returns.
func (s *service) ViewChanged(v *gossip.View) {
	s.mu.Lock()
	old := s.view
	s.view = v
	var gone []gossip.NodeID
	if old != nil {
		for _, m := range old.Members {
			if v.Member(m.ID) == nil {
				gone = append(gone, m.ID)
				delete(s.silent, m.ID)
			}
		}
	}
	s.replicated.ViewChanged(v)
	for _, sh := range s.shells {
		sh.inbox.Put(viewChanged{v})
	}
	s.tellSilent()
	s.mu.Unlock()
	for _, id := range gone {
		s.flush.nodeLost(id)
		for _, p := range *s.paths.Load() {
			p.lost(id)
			if inc := p.base().Serving(); inc != nil && inc.Accounts != nil {
				inc.Accounts.Forget(id)
			}
		}
	}
}

// LeaseChanged reports that the lease became valid, ended, or changed its generation.
func (s *service) LeaseChanged(valid bool) {
	for _, sh := range s.all() {
		sh.inbox.Put(leaseChanged{valid})
		if valid && sh.path != nil {
			sh.path.resume()
		}
	}
}

// Abandoned drops every instance that runs here, without running user code. Once it has
// returned, no handler begins, and no shard that was about to start will start.
func (s *service) Abandoned() {
	var waits []*shell
	var done []chan struct{}
	for _, sh := range s.all() {
		if sh.path != nil {
			sh.path.abandon()
		}
		ch := make(chan struct{})
		if sh.inbox.Put(abandoned{ch}) {
			waits, done = append(waits, sh), append(done, ch)
		}
	}
	for i, sh := range waits {
		select {
		case <-done[i]:
		case <-sh.ended:
		}
	}
}

// Drain hands all shards off to other nodes, in order. It returns once this node hosts
// none, no other node can take the rest, or ctx ends. Messages are served all the while;
// afterwards this node is a proxy. Leave the cluster after it.
func (s *service) Drain(ctx context.Context) error {
	shells := s.all()
	for _, sh := range shells {
		sh.inbox.Put(region.Drain{})
	}
	for _, sh := range shells {
		if sh.path == nil || !s.hosts(&sh.info) {
			continue
		}
		select {
		case <-sh.drained:
		case <-sh.ended:
			return ErrNodeStopping
		case <-ctx.Done():
			return fmt.Errorf("sharding: %s still hosts %d shards: %w", sh.info.name, sh.path.stats().Shards, ctx.Err())
		}
	}
	return nil
}

// WaitAnswered waits until no ask of this node is pending, at most until ctx ends. Then it
// waits, for a moment at most, until the tells and replies of this node have reached the
// other members. Close the Registry first, since new asks keep coming otherwise. Leave the
// cluster afterwards.
func (s *service) WaitAnswered(ctx context.Context) {
	tick := time.NewTicker(answeredPoll)
	defer tick.Stop()
	for s.asking() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	s.waitFlushed(ctx)
}

const answeredPoll = time.Millisecond

// asking reports whether an ask of this node waits for its answer.
func (s *service) asking() bool {
	for _, p := range *s.paths.Load() {
		if p.stats().Asks > 0 {
			return true
		}
	}
	return false
}
