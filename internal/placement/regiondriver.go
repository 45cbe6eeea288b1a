package placement

import (
	"cmp"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func (d *TypeDriver) stepRegion(ev region.Event) {
	d.region.Step(d.all.cfg.Clock.Now(), ev, &d.regionEffects)
	for _, t := range d.regionEffects.Trace {
		d.noteTrace(traceLine{kind: t.Kind, shard: t.Shard, hasShard: t.HasShard, node: t.Node, token: t.Token, detail: t.Detail})
	}
	for _, e := range d.regionEffects.Do {
		d.doRegion(e)
	}
	d.regionEffects.Reset()
	d.registration.elected.Store(uint64(d.region.Coordinator()))
}

func (d *TypeDriver) doRegion(e region.Effect) {
	switch e := e.(type) {
	case region.Send:
		d.sendMessage(e.To, e.Msg)
	case region.Standing:
		d.stepCoordinator(coordinator.Standing(e))
	case region.AbandonAll:
		d.abandonAll()
	case region.Drained:
		d.finishDrain()
	case region.StartShard:
		d.startShard(e)
	case region.StopShard:
		d.stopShard(e)
	case region.DropState:
		d.transfers.Drop(e)
	default:
		d.doRoute(e)
	}
}

func (d *TypeDriver) doRoute(e region.Effect) {
	if d.endpoint == nil {
		d.ackForUnknown(e)
		return
	}
	switch e := e.(type) {
	case region.CloseRoute:
		var m region.Marker
		if e.Marker != nil {
			m = *e.Marker
		}
		d.endpoint.CloseRoute(e.Shard, m.Owner, m.Token)
	case region.SendMarker:
		d.endpoint.ResendMarker(e.Shard, e.Owner, e.Token)
	case region.OpenRoute:
		d.endpoint.OpenRoute(e.Shard, e.Home, e.Token)
	}
}

// ackForUnknown answers the markers of a type that this node sends nothing to.
func (d *TypeDriver) ackForUnknown(e region.Effect) {
	if c, ok := e.(region.CloseRoute); ok && c.Marker != nil {
		d.MarkerAcked(c.Marker.Owner, c.Shard, c.Marker.Token)
	}
}

func (d *TypeDriver) startShard(e region.StartShard) {
	if d.endpoint == nil {
		return
	}
	states := d.transfers.Take(e)
	if d.recoveries != nil {
		d.recoveries.beginShard(e.Shard, e.Token, states)
		return
	}
	d.startWith(e.Shard, e.Token, states)
}

func (d *TypeDriver) startWith(shard strategy.ShardID, token protocol.Token, states map[string][]byte) {
	if err := d.endpoint.StartShard(shard, token, states); err != nil {
		// The core and the host disagree: fence and stop the shard, never the process.
		d.counters.Duplicates.Add(1)
		d.all.env.Log.Error("sharding: a shard could not be started here; it counts as stopped, and is placed again (please report)", "type", d.typ.Name, "shard", shard, "token", token, "error", err)
		d.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
		return
	}
	d.inbox.Put(region.ShardStarted{Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
}

func (d *TypeDriver) stopShard(e region.StopShard) {
	done := func(st activation.Stopped) {
		d.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: st.Shard, Token: st.Token}}})
	}
	if d.endpoint == nil {
		done(activation.Stopped{Shard: e.Shard, Token: e.Token})
		return
	}
	e.Within = cmp.Or(e.Within, d.typ.StopTimeout)
	if d.recoveries != nil {
		done = d.recoveries.stopShard(e.Shard, e.Within, done)
	}
	if e.To == 0 {
		d.endpoint.StopShard(e.Shard, e.Token, e.Within, false, done)
		return
	}
	if e.To == d.all.cfg.Self.ID {
		// It starts here again, under another token.
		d.endpoint.StopShard(e.Shard, e.Token, e.Within, true, func(st activation.Stopped) {
			d.transfers.Hold(e.Term, st)
			done(st)
		})
		return
	}
	// The new home has the states before the coordinator learns of the stop, so it never waits
	// for them.
	d.endpoint.StopShard(e.Shard, e.Token, e.Within, true, func(st activation.Stopped) {
		if st.States == nil {
			// Stopped before, and sent to a home that has died since.
			st.States = d.transfers.Held(st.Shard, st.Token)
		}
		d.transfers.Send(e, st)
		done(st)
	})
}

func (d *TypeDriver) abandonAll() {
	if d.recoveries != nil {
		d.recoveries.abandonAll()
	}
	if d.endpoint != nil {
		d.endpoint.Abandon()
	}
}

func (d *TypeDriver) finishDrain() {
	select {
	case <-d.drained:
	default:
		if d.endpoint != nil {
			d.transfers.CountUndelivered()
		}
		close(d.drained)
	}
}

// replicateStates makes the driver replicate its type's states.
func (d *TypeDriver) replicateStates() {
	d.states = d.all.states.Host(d.typ.Name, d.typ.Role, *d.typ.States, statecopy.Host{
		Recovered:  func(shard strategy.ShardID, token protocol.Token) { d.inbox.Put(statesRecovered{shard, token}) },
		Superseded: d.Supersede,
		Counters:   &d.counters.Replication,
	})
	d.recoveries = newRecoveries(d.states)
}

// startRecovered starts a shard unless it was stopped or abandoned meanwhile.
func (d *TypeDriver) startRecovered(ev statesRecovered) {
	if states, ok := d.recoveries.takeShard(ev.shard, ev.token); ok {
		d.startWith(ev.shard, ev.token, states)
	}
}

// endSuperseded ends a shard that has a newer allocation.
func (d *TypeDriver) endSuperseded(ev superseded) {
	waited := false
	if d.recoveries != nil {
		_, waited = d.recoveries.takeShard(ev.shard, ev.token)
	}
	if !waited && d.endpoint.HostedUnder(ev.shard) != ev.token {
		return
	}
	d.endpoint.AbandonShard(ev.shard, ev.token)
	d.inbox.Put(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: ev.shard, Token: ev.token}}})
}
