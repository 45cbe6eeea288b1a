package sharding

import (
	"context"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/residency"
)

// registered is a type of a Registry, for the life of the program.
type registered struct {
	*endpoint.Endpoint
	// place is what coordinators and regions need of it; placed counts what its driver does.
	place  placement.Type
	placed placement.Counters
	// reconciler is nil unless entities run without messages. remembers is set if the type
	// remembers its entities.
	reconciler *residency.Reconciler
	remembers  bool
	// driver is that of the newest incarnation, nil before the first.
	driver atomic.Pointer[placement.TypeDriver]
}

// additions are what a singleton or a daemon adds to its type.
type additions[Req, Resp any] struct {
	// reconciler keeps entities running without messages; nil means none.
	reconciler *residency.Reconciler
	// newEntity is called in place of Type.New, and may refuse the start of an entity; nil
	// means that Type.New is called.
	newEntity func(id string) (Entity[Req, Resp], error)
}

// newRegion returns the Region of a type that is valid and has its defaults.
func newRegion[Req, Resp any](t Type[Req, Resp], with additions[Req, Resp]) *Region[Req, Resp] {
	r := &Region[Req, Resp]{reg: &registered{place: t.placed(), reconciler: with.reconciler, remembers: t.Remember}}
	spec := t.spec()
	r.sends, spec.Around = sendChain(t.Interceptors), handleChain[Req, Resp](t.Interceptors)
	if newEntity := with.newEntity; newEntity != nil {
		spec.TryNew = func(id string) (activation.Entity[*Context, Req, Resp], error) { return newEntity(id) }
	}
	if t.Remember {
		m := residency.NewRemembered(uint32(t.Shards), spec.Extract.Locate, func(ctx context.Context, id string) error {
			return r.Ref(id).startRemembered(ctx)
		})
		r.reg.reconciler, spec.Lived, spec.Crashed = m, m.Lived, m.Crashed
	}
	if m := r.reg.reconciler; m != nil {
		spec.ShardStarted = m.ShardStarted
	}
	r.typed = endpoint.New(spec)
	r.reg.Endpoint = &r.typed.Endpoint
	return r
}

// spec returns what the endpoint of the type needs.
func (t *Type[Req, Resp]) spec() endpoint.Spec[*Context, Req, Resp] {
	l := t.Limits
	spec := endpoint.Spec[*Context, Req, Resp]{
		Settings: endpoint.Settings{
			Name: t.Name, Extract: t.extractor(),
			Buffers: delivery.Bounds{BufferMessages: l.BufferMessages, BufferBytes: l.BufferBytes, ShardMessages: l.ShardMessages, ShardBytes: l.ShardBytes},
			Mailbox: l.Mailbox, IDBytes: l.IDBytes, PayloadBytes: l.PayloadBytes,
			Supervision: t.Supervision.internal(), Passivation: t.Passivation.internal(),
			StopTimeout: t.StopTimeout, IdleTimeout: t.IdleTimeout, BlockedAfter: t.BlockedAfter,
		},
		Requests: t.ReqCodec, Responses: t.RespCodec, Control: t.Control, Context: newContext,
		New: func(id string) activation.Entity[*Context, Req, Resp] { return t.New(id) },
	}
	if o := ownerOf(t.ReqCodec); o != nil {
		spec.OwnRequest = o.takePayload
	}
	if o := ownerOf(t.RespCodec); o != nil {
		spec.OwnResponse = o.takePayload
	}
	return spec
}

// placed returns what coordinators and regions need of the type.
func (t *Type[Req, Resp]) placed() placement.Type {
	extract := t.extractor()
	p := placement.Type{
		Name: t.Name, Role: t.Role, Shards: uint32(t.Shards), ShardOf: extract.Fingerprint(), Keeps: t.keeps(),
		Messages: shapesOf(t.ReqCodec, t.RespCodec), Proxy: t.New == nil,
		StopTimeout: t.StopTimeout, Rebalance: t.RebalanceInterval, MinMembers: t.MinMembers, Strategy: t.Strategy,
	}
	if t.State.on() {
		states := t.State.copySettings()
		p.States = &states
	}
	return p
}

func (t *Type[Req, Resp]) extractor() endpoint.Extractor {
	return endpoint.Extractor{Shards: uint32(t.Shards), Custom: t.ShardOf}
}

// attachTo makes the endpoint serve in s, whose driver of the type is d.
func (t *registered) attachTo(s *service, d *placement.TypeDriver) placement.Endpoint {
	t.SetDifference(nil)
	inc := s.endpoints.NewIncarnation(t.Name)
	inc.Need, inc.Misrouted, inc.Acked = d.NeedHome, d.Misrouted, d.MarkerAcked
	if states := d.States(); states != nil {
		inc.Keeper = states
	}
	hosts := s.drivers.Hosts(&t.place)
	t.Attach(inc, hosts)
	t.driver.Store(d)
	home := t.residencyHome(s, inc, d)
	t.Serve(inc.Incarnation)
	if hosts && t.reconciler != nil {
		t.reconciler.Serve(home)
	}
	s.endpoints.AddEndpoint(t.Endpoint)
	return t.DriveIn(inc)
}

// residencyHome returns this node, in an incarnation that is attached, for package residency.
func (t *registered) residencyHome(s *service, inc *endpoint.Incarnation, d *placement.TypeDriver) *residency.Home {
	shardAt := t.PresentShards()
	shard := func(i ShardID) residency.Shard {
		if s := shardAt(i); s != nil {
			return s
		}
		return nil
	}
	return &residency.Home{
		Node: residency.Node{
			Self: s.cfg.Self.ID, Token: residency.TokenIn(shard), LeaseValid: s.cfg.LeaseValid,
			Members: d.Members, Office: d.OfficeTerm, Turn: s.pace.Turn, StopWithin: t.StopTimeout,
		},
		Type: t.Name, Log: s.log, Ctx: s.ctx, Work: &s.work, Clock: s.cfg.Clock, Shard: shard, Shards: t.place.Shards,
		WantHome:  func(i ShardID) { t.WantHome(inc.Incarnation, i) },
		Supersede: d.Supersede, Forced: func(shards int) { t.Counters.Entities.Forced.Add(shards) },
		Plans: s.drivers.Plans(t.place.Role), Store: s.drivers.Rememberer(t.place.Role),
	}
}
