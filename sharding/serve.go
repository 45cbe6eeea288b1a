package sharding

import (
	"context"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/residency"
)

// dataPath is a path without its types of messages.
type dataPath interface {
	describe() *typeInfo
	base() *typeBase
	stats() Stats

	// attach begins to serve for an incarnation, detach ends it: asks that are out
	// fail, instances are abandoned, what is in buffers stays for the next one. wait waits
	// for the handlers that still run.
	attach(inc *incarnation, hosts bool, logger *slog.Logger)
	detach() (wait func(context.Context) error)

	// These are what the shell does to the entities that run here.
	startShard(shard ShardID, token Token, states map[string][]byte) error
	stopShard(shard ShardID, token Token, within time.Duration, keep bool, done func(activation.Stopped))
	abandon()
	abandonShard(shard ShardID, token Token)
	resume()
	hosted(shard ShardID) Token
	population(shard ShardID) int
	lives(shard ShardID, id string) bool
	running() []RunningHandler

	// These are for frames.
	intake() intake
	replied(r frames.Reply)
	cancelled(from gossip.NodeID, call uint64)
	lost(peer gossip.NodeID)
}

func (p *path[Req, Resp]) base() *typeBase { return &p.typeBase }

func (p *path[Req, Resp]) attach(inc *incarnation, hosts bool, logger *slog.Logger) {
	if hosts {
		cfg := activation.Config[*Context, Req, Resp]{
			Type: p.name, Node: inc.self, Shards: p.shards, Context: newContext,
			New:   func(id string) activation.Entity[*Context, Req, Resp] { return p.typ.New(id) },
			Alive: inc.alive, Replies: &replies[Req, Resp]{p, inc}, Confirm: p.confirm(inc),
			Control: p.typ.Control, Supervision: p.typ.Supervision.internal(),
			Passivation: p.typ.Passivation.internal(), Limit: &p.limit, StopTimeout: p.typ.StopTimeout,
			Mailbox: p.limits.Mailbox, IdleTimeout: p.typ.IdleTimeout,
			Strict:       inc.strict,
			BlockedAfter: max(p.typ.BlockedAfter, 0), Took: p.took(inc.observer),
			Decode: requestDecoder(p), Undecoded: undecodedRefuser(p, inc),
			Epoch: p.epoch, Counters: &p.entities, Logger: logger,
		}
		if inc.states != nil {
			cfg.Keeper = inc.states
		}
		if p.remembered != nil {
			cfg.Lived, cfg.Fell = p.remembered.Lived, p.remembered.Crashed
		}
		if p.typ.make != nil {
			cfg.Make = func(id string) (activation.Entity[*Context, Req, Resp], error) { return p.typ.make(id) }
		}
		p.host.Store(activation.NewHost(cfg))
		p.OpenAccounts(inc.Incarnation, inc.budgets)
	}
	p.strict.Store(inc.strict)
	p.now.Store(inc)
	home := p.residencyHome(inc)
	if hosts && p.remembered != nil {
		p.remembered.Serve(home)
	}
	p.Serve(inc.Incarnation)
	if always := p.typ.alwaysOn; hosts && always != nil {
		inc.work.Go(func() {
			always.Serve(home, p.stopTimeout, func(shards int) { p.entities.Forced.Add(shards) })
		})
	}
}

// residencyHome returns this node, in an incarnation, for package residency. The host of the
// incarnation must have been stored.
func (p *path[Req, Resp]) residencyHome(inc *incarnation) *residency.Home {
	host := p.host.Load()
	return &residency.Home{
		Self: inc.self, Type: p.name, Shards: p.shards, Log: inc.log, Ctx: inc.ctx, Work: inc.work,
		Shard: func(i ShardID) residency.Shard {
			if s := host.Shard(i); s != nil {
				return s
			}
			return nil
		},
		WantHome:   func(i ShardID) { p.wantHome(inc, i) },
		Supersede:  inc.supersede,
		LeaseValid: inc.alive, Members: inc.members, Office: inc.office,
		Pace: inc.pace, Plans: inc.plans, Store: inc.remember,
	}
}

// took returns the function that receives the durations of handlers, nil without an
// observer.
func (p *path[Req, Resp]) took(o figures.ShardingObserver) func(time.Duration) {
	if o == nil {
		return nil
	}
	return func(d time.Duration) { o.HandlerDone(p.name, d) }
}

func (p *path[Req, Resp]) detach() (wait func(context.Context) error) {
	wait = func(context.Context) error { return nil }
	inc := p.now.Swap(nil)
	if inc == nil {
		return wait
	}
	p.End()
	h := p.host.Swap(nil)
	if h != nil {
		h.Abandon()
	}
	p.calls.FailNode(inc.self, ErrAbandoned)
	p.failLost(0)
	if h == nil {
		return wait
	}
	return h.Close
}

// failLost ends the asks that are at a node to which the connection is lost; 0 stands
// for all nodes.
func (p *path[Req, Resp]) failLost(node gossip.NodeID) {
	p.counters.nodeLost.Add(uint64(p.calls.FailNode(node, ErrNodeLost)))
}

func (p *path[Req, Resp]) startShard(shard ShardID, token Token, states map[string][]byte) error {
	h := p.host.Load()
	if h == nil {
		return activation.ErrClosed
	}
	_, err := h.StartShard(shard, token, states)
	if err == nil {
		p.counters.in.Add(1)
		if p.typ.alwaysOn != nil {
			p.typ.alwaysOn.Check()
		}
		if p.remembered != nil {
			p.remembered.ShardStarted()
		}
	}
	return err
}

func (p *path[Req, Resp]) stopShard(shard ShardID, token Token, within time.Duration, keep bool, done func(activation.Stopped)) {
	p.counters.out.Add(1)
	if h := p.host.Load(); h != nil {
		h.StopShard(shard, token, within, keep, done)
		return
	}
	done(activation.Stopped{Shard: shard, Token: token})
}

// abandon drops all instances here. The asks that their handlers hold fail
// immediately: the handlers' own answers would not count.
func (p *path[Req, Resp]) abandon() {
	inc, h := p.now.Load(), p.host.Load()
	if inc == nil || h == nil {
		return
	}
	for i := range p.locals {
		p.locals[i].Store(nil)
	}
	h.Abandon()
	p.calls.FailNode(inc.self, ErrAbandoned)
}

// abandonShard drops the instances of one shard, if it runs under that token.
func (p *path[Req, Resp]) abandonShard(shard ShardID, token Token) {
	if h := p.host.Load(); h != nil && p.hosted(shard) == token {
		p.locals[shard].Store(nil)
		h.AbandonShard(shard)
	}
}

func (p *path[Req, Resp]) resume() {
	if h := p.host.Load(); h != nil {
		h.Resume()
	}
}

// hosted returns the token under which a shard runs here, zero if it does not.
func (p *path[Req, Resp]) hosted(shard ShardID) Token {
	if h := p.host.Load(); h != nil {
		if s := h.Shard(shard); s != nil {
			return s.Token()
		}
	}
	return Token{}
}

func (p *path[Req, Resp]) population(shard ShardID) int {
	if h := p.host.Load(); h != nil {
		if s := h.Shard(shard); s != nil {
			return s.Entities()
		}
	}
	return 0
}

func (p *path[Req, Resp]) lives(shard ShardID, id string) bool {
	if h := p.host.Load(); h != nil {
		if s := h.Shard(shard); s != nil {
			return s.Lives(id)
		}
	}
	return false
}

func (p *path[Req, Resp]) running() []RunningHandler {
	if h := p.host.Load(); h != nil {
		return runningHandlers(h.Running(true))
	}
	return nil
}

// lost ends the asks that were on their way to a node, or back, and holds back
// what would follow them.
func (p *path[Req, Resp]) lost(peer gossip.NodeID) {
	inc := p.now.Load()
	if inc == nil {
		return
	}
	// First the routes: an ask that fails may be repeated immediately.
	p.OnPeerLost(inc.Incarnation, peer)
	p.failLost(peer)
}

func (p *path[Req, Resp]) stats() Stats {
	s := Stats{Type: p.name, Role: p.role}
	p.counters.fill(&s)
	e := &p.entities
	s.Handled, s.Passivated, s.Abandoned, s.Forced = e.Handled.Load(), e.Passivated.Load(), e.Abandoned.Load(), e.Forced.Load()
	s.Dropped[DropExpired] += e.Expired.Load()
	s.Dropped[DropPanicked] += e.Panicked.Load()
	s.Dropped[DropHandlerError] += e.HandlerErrors.Load()
	s.Dropped[DropAbandoned] += e.AbandonedTells.Load()
	s.StatesIn, s.StatesOut = p.counters.transfers.In.Load(), p.counters.transfers.Out.Load()
	s.StatesLost = p.counters.transfers.Lost.Load() + p.counters.replication.Lost.Load() + e.StatesLost.Load()
	s.Entities = e.Entities.Load()
	s.HeldUp, s.Parked = p.counters.HeldUp.Load()+e.Waiting.Load(), e.Parked.Load()
	s.Stopped = p.counters.Gates.Load()
	if inc := p.now.Load(); inc != nil {
		s.Coordinating = inc.office() != 0
		if inc.states != nil {
			s.StateBytes, s.StandbyShards = inc.states.StateBytes(), inc.states.StandbyShards()
		}
	}
	if h := p.host.Load(); h != nil {
		s.Hosting, s.Shards, s.OldestHandler = true, h.Count(), h.Oldest()
	}
	s.Asks = p.calls.Count()
	f := p.ReliableFigures()
	s.Reliable.Unconfirmed, s.Reliable.Confirmed = f.Unconfirmed, f.Confirmed
	s.Reliable.GivenUp, s.Reliable.Resends = f.GivenUp, f.Resends
	s.BlockedHandlers = e.Blocked.Load()
	s.Activated, s.CutLoose = e.Activated.Load(), e.CutLoose.Load()
	if p.remembered != nil {
		s.Remembered = p.remembered.Stats()
	}
	s.Reliable.Repeated, s.Reliable.Forgotten = e.Repeated.Load(), e.Forgotten.Load()
	s.Buffered, s.BufferedBytes = p.Held()
	return s
}
