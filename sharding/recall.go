package sharding

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/placement"
)

// beginRemembering starts what a type with Remember needs for an incarnation.
func (p *path[Req, Resp]) beginRemembering(inc *incarnation, logger *slog.Logger) {
	if p.memories == nil {
		return
	}
	if inc.remember == nil {
		logger.Error("sharding: nothing is remembered: the Store is no Rememberer", "type", p.name)
		return
	}
	inc.work.Go(func() { p.recall(inc) })
	inc.work.Go(func() { p.record(inc) })
	inc.work.Go(func() { p.revive(inc) })
}

// lived is told of instances that begin and of those that end by their own wish.
func (p *path[Req, Resp]) lived(shard ShardID, id string, lives bool) {
	if !p.memories.note(shard, id, lives) {
		p.counters.rememberDropped.Add(1)
	}
}

// hook returns what the entity runtime tells of instances, nil if nobody listens.
func (p *path[Req, Resp]) hook() func(ShardID, string, bool) {
	if p.memories == nil {
		return nil
	}
	return p.lived
}

// fellHook returns what the entity runtime tells of instances that ended against their
// wish, nil if nobody listens.
func (p *path[Req, Resp]) fellHook() func(ShardID, string) {
	if p.memories == nil {
		return nil
	}
	return p.memories.fell
}

// revive starts remembered entities again that fell to a panic, or could not begin,
// until the incarnation ends: each at most once in every rememberEvery, and at the
// node's rate.
func (p *path[Req, Resp]) revive(inc *incarnation) {
	for {
		select {
		case <-inc.ctx.Done():
			return
		case <-time.After(rememberEvery):
		}
		for _, f := range p.memories.takeFallen() {
			if !inc.pace.wait(inc.ctx) {
				return
			}
			if s := p.shardHere(inc, f.shard); s != nil && p.memories.remembers(f.shard, f.id) {
				p.ensure(s, f.id)
			}
		}
	}
}

// recall starts the remembered entities of the shards that have come to run here,
// until the incarnation ends. It also asks for the homes of all shards: nobody else
// does before the first message. What they remember is read once more when a node has
// joined: after a restart of the cluster, one that comes late may have on its disk
// what those that came first have never heard of. Several shards are read at a time: a
// node that takes a thousand over would need a thousand round trips, one behind the
// other.
func (p *path[Req, Resp]) recall(inc *incarnation) {
	var before []gossip.NodeID
	for {
		woken := p.memories.look.Wait()
		now := inc.members().Nodes
		if slices.ContainsFunc(now, func(n gossip.NodeID) bool { return !slices.Contains(before, n) }) {
			p.memories.doubt()
		}
		before = now
		var reads sync.WaitGroup
		room := make(chan struct{}, recallsMax)
		for i := range ShardID(p.shards) {
			p.wantHome(inc, i)
			s := p.shardHere(inc, i)
			if s == nil {
				p.memories.forget(i)
				continue
			}
			if inc.alive() && p.memories.news(i, s.Token(), time.Now()) {
				room <- struct{}{}
				reads.Go(func() {
					p.recallShard(inc, i, s)
					<-room
				})
			}
		}
		reads.Wait()
		select {
		case <-inc.ctx.Done():
			return
		case <-woken:
		case <-time.After(rememberEvery): // no ticker, which would go by during the reads: see clock.Ahead
		}
	}
}

// ensure starts a remembered entity, unless it lives.
func (p *path[Req, Resp]) ensure(s *activation.Shard[*Context, Req, Resp], id string) {
	if s.Ensure(id) {
		p.counters.recalled.Add(1)
	}
}

// shardHere returns the shard if it runs here now.
func (p *path[Req, Resp]) shardHere(inc *incarnation, i ShardID) *activation.Shard[*Context, Req, Resp] {
	h := p.host.Load()
	if h == nil || p.now.Load() != inc {
		return nil
	}
	return h.Shard(i)
}

// recallShard reads what is remembered of a shard and starts it. A read that fails is
// made again by the next look.
func (p *path[Req, Resp]) recallShard(inc *incarnation, i ShardID, s *activation.Shard[*Context, Req, Resp]) {
	ctx, cancel := context.WithTimeout(inc.ctx, rememberTimeout)
	defer cancel()
	p.memories.beginRead(i)
	ids, err := inc.remember.Remembered(ctx, p.name, i)
	if err != nil {
		p.counters.rememberFailed.Add(1)
	}
	if err != nil || !inc.alive() {
		// Without a lease another node may be the home, and know better.
		p.memories.endRead(i)
		return
	}
	if start := p.memories.learn(i, s.Token(), ids, time.Now()); len(start) > 0 {
		inc.work.Go(func() { p.recallIDs(inc, i, s, start) })
	}
}

// recallIDs starts entities of a shard one by one, at the node's rate; last those that
// are of another shard by now.
func (p *path[Req, Resp]) recallIDs(inc *incarnation, i ShardID, s *activation.Shard[*Context, Req, Resp], ids []string) {
	turn := func() bool { return inc.pace.wait(inc.ctx) && p.shardHere(inc, i) == s }
	var strangers []string
	for _, id := range ids {
		switch at := p.extract.of(id); {
		case at == noShard || at == i && s.Lives(id):
		case at != i:
			strangers = append(strangers, id)
		case !turn():
			return
		case p.memories.remembers(i, id):
			p.ensure(s, id)
		}
	}
	for _, id := range strangers {
		if !turn() {
			return
		}
		p.recallElsewhere(inc, i, id)
	}
}

// recallElsewhere starts an entity in the shard that ids like it belong to by now: the
// application changed ShardOf, or the number of shards, while all nodes were down. It is
// forgotten here when it lives there.
func (p *path[Req, Resp]) recallElsewhere(inc *incarnation, i ShardID, id string) {
	ctx, cancel := context.WithTimeout(inc.ctx, rememberTimeout)
	defer cancel()
	err := p.ref(id).Start(ctx, Retry())
	if err == nil {
		p.counters.recalled.Add(1)
	}
	p.memories.moved(i, id, err == nil, time.Now())
}

// record writes the news until the incarnation ends.
func (p *path[Req, Resp]) record(inc *incarnation) {
	for {
		woken := p.memories.work.Wait()
		failed := false
		for _, b := range p.memories.take() {
			failed = !p.recordBatch(inc, b) || failed
		}
		if !failed && p.memories.queued() > 0 {
			continue
		}
		if failed {
			// The store has trouble: what comes meanwhile is merged.
			woken = nil
		}
		select {
		case <-inc.ctx.Done():
			return
		case <-woken:
		case <-time.After(rememberEvery):
		}
	}
}

func (p *path[Req, Resp]) recordBatch(inc *incarnation, b update) (ok bool) {
	if p.shardHere(inc, b.shard) == nil {
		// Its next home decides who lives there.
		b.remove = nil
	}
	if len(b.add)+len(b.remove) == 0 {
		p.memories.written(b, true)
		return true
	}
	ctx, cancel := context.WithTimeout(inc.ctx, rememberTimeout)
	defer cancel()
	err := inc.remember.Remember(ctx, p.name, b.shard, b.add, b.remove)
	p.memories.written(b, err == nil)
	if err != nil {
		p.counters.rememberFailed.Add(1)
	}
	return err == nil
}

// rememberer returns where the remembered entities of a role are kept, nil where they
// cannot be.
func (s *service) rememberer(role string) placement.Rememberer {
	if !s.cfg.Self.HasRole(role) || s.cfg.Store == nil {
		return nil
	}
	r, _ := s.cfg.Store(role).(placement.Rememberer)
	return r
}

// RememberedStats describes the remembered entities of one type on one node.
type RememberedStats struct {
	// Recalled counts entities that were started because they are remembered: in a shard that
	// moved here, or again after a panic.
	Recalled uint64
	// Waiting is the number of updates that are not in the store yet. Dropped counts
	// updates that found no room to wait.
	Waiting int
	Dropped uint64
	// Failed counts failed reads and writes of the store, which are retried.
	Failed uint64
}

func (p *path[Req, Resp]) fillRemembered(s *RememberedStats) {
	c := p.counters
	s.Recalled, s.Dropped, s.Failed = c.recalled.Load(), c.rememberDropped.Load(), c.rememberFailed.Load()
	if p.memories != nil {
		s.Waiting = p.memories.queued()
	}
}
