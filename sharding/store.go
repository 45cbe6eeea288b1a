package sharding

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/replicator"
)

// storeTimeout bounds one read or write; one of unknown outcome is tried again.
const storeTimeout = 500 * time.Millisecond

func (sh *shell) stepCoordinator(ev coordinator.Event) {
	if sh.coord == nil {
		return
	}
	sh.coord.Step(sh.s.cfg.Clock.Now(), ev, &sh.cooOut)
	for _, t := range sh.cooOut.Trace {
		sh.note(traceLine{coordinator: true, kind: t.Kind, shard: t.Shard, hasShard: t.HasShard, node: t.Node, token: t.Token, detail: t.Detail})
	}
	for _, e := range sh.cooOut.Do {
		sh.doCoordinator(e)
	}
	sh.cooOut.Reset()
}

func (sh *shell) doCoordinator(e coordinator.Effect) {
	switch e := e.(type) {
	case coordinator.Send:
		sh.send(e.To, e.Msg)
	case coordinator.Write:
		sh.s.work.Go(func() { sh.write(e) })
	case coordinator.Read:
		sh.s.work.Go(func() { sh.read(e) })
	case coordinator.Yield:
		if sh.s.cfg.Yield != nil {
			sh.s.cfg.Yield(e.Subject)
		}
	}
}

func (sh *shell) write(w coordinator.Write) {
	ctx, cancel := context.WithTimeout(sh.s.ctx, storeTimeout)
	defer cancel()
	result, higher := outcome(sh.store().Write(ctx, sh.info.name, w))
	sh.inbox.Put(coordinator.WriteDone{ID: w.ID, Result: result, Higher: higher})
}

func (sh *shell) read(r coordinator.Read) {
	ctx, cancel := context.WithTimeout(sh.s.ctx, storeTimeout)
	defer cancel()
	found, err := sh.store().Read(ctx, sh.info.name, r.Term)
	result, higher := outcome(err)
	sh.inbox.Put(coordinator.ReadDone{
		ID: r.ID, Result: result, Higher: higher,
		Records: found.Shards, Regions: found.Regions, Proxies: found.Proxies,
	})
}

func (sh *shell) store() placement.Store { return sh.s.cfg.Store(sh.info.role) }

func outcome(err error) (coordinator.Result, gossip.Epoch) {
	var fenced *replicator.Error
	switch {
	case err == nil:
		return coordinator.OK, 0
	case errors.As(err, &fenced) && fenced.Code == replicator.ErrFenced:
		return coordinator.Fenced, gossip.Epoch(fenced.Higher)
	}
	return coordinator.Unknown, 0
}
