package placement

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func (d *TypeDriver) stepCoordinator(ev coordinator.Event) {
	if d.coordinator == nil {
		return
	}
	d.coordinator.Step(d.all.cfg.Clock.Now(), ev, &d.coordinatorEffects)
	for _, t := range d.coordinatorEffects.Trace {
		d.noteTrace(traceLine{coordinator: true, kind: t.Kind, shard: t.Shard, hasShard: t.HasShard, node: t.Node, token: t.Token, detail: t.Detail})
	}
	for _, e := range d.coordinatorEffects.Do {
		d.doCoordinator(e)
	}
	d.coordinatorEffects.Reset()
}

func (d *TypeDriver) doCoordinator(e coordinator.Effect) {
	switch e := e.(type) {
	case coordinator.Send:
		d.sendMessage(e.To, e.Msg)
	case coordinator.Write:
		d.all.env.Work.Go(func() { d.writeRecords(e) })
	case coordinator.Read:
		d.all.env.Work.Go(func() { d.readRecords(e) })
	case coordinator.Yield:
		if d.all.cfg.Yield != nil {
			d.all.cfg.Yield(e.Subject)
		}
	}
}

func (d *TypeDriver) writeRecords(w coordinator.Write) {
	ctx, cancel := context.WithTimeout(d.all.env.Ctx, coordinator.StoreTimeout)
	defer cancel()
	result, higher := StoreResult(d.all.cfg.Store(d.typ.Role).Write(ctx, d.typ.Name, w))
	d.inbox.Put(coordinator.WriteDone{ID: w.ID, Result: result, Higher: higher})
}

func (d *TypeDriver) readRecords(r coordinator.Read) {
	ctx, cancel := context.WithTimeout(d.all.env.Ctx, coordinator.StoreTimeout)
	defer cancel()
	found, err := d.all.cfg.Store(d.typ.Role).Read(ctx, d.typ.Name, r.Term)
	result, higher := StoreResult(err)
	d.inbox.Put(coordinator.ReadDone{
		ID: r.ID, Result: result, Higher: higher,
		Records: found.Shards, Regions: found.Regions, Proxies: found.Proxies, Lost: found.Lost,
	})
}

// StoreResult returns the result of a Store's read or write for the core, from its error. For
// Fenced, it also returns the higher term.
func StoreResult(err error) (coordinator.Result, gossip.Epoch) {
	var fenced *replicator.Error
	switch {
	case err == nil:
		return coordinator.OK, 0
	case errors.As(err, &fenced) && fenced.Code == replicator.ErrFenced:
		return coordinator.Fenced, gossip.Epoch(fenced.Higher)
	}
	return coordinator.Unknown, 0
}

// watchPlaces notifies the coordinator of this node of the wanted places, whether it holds the
// office or not: it may take the office any time.
func (d *TypeDriver) watchPlaces() (cancel func()) {
	if d.coordinator == nil {
		return func() {}
	}
	p := d.all.Placer(d.typ.Role)
	if p == nil {
		return func() {}
	}
	return p.WatchPlaces(d.typ.Name, func(wanted map[strategy.ShardID]string) {
		d.inbox.Put(coordinator.Wanted{Names: wanted})
	})
}
