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
	// remembered is nil unless the type remembers its entities, alwaysOn unless it keeps
	// entities running without messages.
	remembered *residency.Remembered
	alwaysOn   *residency.AlwaysOn
	// driver is that of the newest incarnation, nil before the first.
	driver atomic.Pointer[placement.TypeDriver]
}

// additions are what a singleton or a daemon adds to its type.
type additions[Req, Resp any] struct {
	// alwaysOn keeps entities running without messages; nil means none.
	alwaysOn *residency.AlwaysOn
	// newEntity is called in place of Type.New, and may refuse the start of an entity; nil
	// means that Type.New is called.
	newEntity func(id string) (Entity[Req, Resp], error)
}

// newRegion returns the Region of a type that is valid and has its defaults.
func newRegion[Req, Resp any](t Type[Req, Resp], with additions[Req, Resp]) *Region[Req, Resp] {
	r := &Region[Req, Resp]{reg: &registered{place: t.placed(), alwaysOn: with.alwaysOn}}
	spec := t.spec()
	if newEntity := with.newEntity; newEntity != nil {
		spec.Make = func(id string) (activation.Entity[*Context, Req, Resp], error) { return newEntity(id) }
	}
	if t.Remember {
		m := residency.NewRemembered(spec.Extract.Locate, func(ctx context.Context, id string) error {
			return r.Ref(id).Start(ctx, Retry())
		})
		r.reg.remembered, spec.Lived, spec.Crashed = m, m.Lived, m.Crashed
	}
	spec.ShardStarted = r.reg.noteShardStarted
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

// noteShardStarted lets the entities of a shard start that run without messages.
func (t *registered) noteShardStarted() {
	if t.alwaysOn != nil {
		t.alwaysOn.Check()
	}
	if t.remembered != nil {
		t.remembered.ShardStarted()
	}
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
	if hosts && t.remembered != nil {
		t.remembered.Serve(home)
	}
	t.Serve(inc.Incarnation)
	if hosts && t.alwaysOn != nil {
		s.work.Go(func() {
			t.alwaysOn.Serve(home, t.StopTimeout, func(shards int) { t.Counters.Entities.Forced.Add(shards) })
		})
	}
	s.endpoints.AddEndpoint(t.Endpoint)
	return t.DriveIn(inc)
}

// residencyHome returns this node, in an incarnation that is attached, for package residency.
func (t *registered) residencyHome(s *service, inc *endpoint.Incarnation, d *placement.TypeDriver) *residency.Home {
	shardAt := t.PresentShards()
	return &residency.Home{
		Self: s.cfg.Self.ID, Type: t.Name, Shards: t.place.Shards, Log: s.log, Ctx: s.ctx, Work: &s.work,
		Shard: func(i ShardID) residency.Shard {
			if shard := shardAt(i); shard != nil {
				return shard
			}
			return nil
		},
		WantHome:   func(i ShardID) { t.WantHome(inc.Incarnation, i) },
		Supersede:  d.Supersede,
		LeaseValid: s.cfg.LeaseValid, Members: d.Members, Office: d.OfficeTerm,
		Pace: s.pace, Plans: s.drivers.Plans(t.place.Role), Store: s.drivers.Rememberer(t.place.Role),
	}
}
