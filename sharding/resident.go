package sharding

import (
	"time"

	"github.com/peerage-go/peerage/internal/signal"
)

// residents are the entities of a type that live as long as their shard does: the
// home starts them when the shard starts, and again when they have ended.
type residents struct {
	// of names those of a shard, none if nobody is to live there now.
	of func(ShardID) []string
	// also, if it is not nil, is begun with each incarnation: look is called before
	// each look after the residents, says whether they may be started, and whether it
	// wants to be called again soon. End is called when the incarnation ends.
	also func(inc *incarnation, hands workforce, within time.Duration) (look func() (may, soon bool), end func())
	// wake asks for a look at once.
	wake signal.Signal
}

// residentEvery is how often a home looks after its residents: one that ended by
// itself, or by a panic, is missed for so long at most.
const residentEvery = 500 * time.Millisecond

// residentSoon is how soon a look that wants it follows the one before.
const residentSoon = 20 * time.Millisecond

// keepResidents looks after the residents until the incarnation ends.
func (p *path[Req, Resp]) keepResidents(inc *incarnation) {
	timer := time.NewTimer(residentEvery)
	defer timer.Stop()
	look := func() (may, soon bool) { return true, false }
	if also := p.typ.residents.also; also != nil {
		var end func()
		look, end = also(inc, p, p.stopTimeout)
		defer end()
	}
	for {
		woken := p.typ.residents.wake.Wait()
		may, soon := look()
		if may {
			p.lookAfterResidents(inc)
		}
		timer.Reset(residentEvery)
		if soon {
			timer.Reset(residentSoon)
		}
		select {
		case <-inc.ctx.Done():
			return
		case <-woken:
		case <-timer.C:
		}
	}
}

func (p *path[Req, Resp]) lookAfterResidents(inc *incarnation) {
	h := p.host.Load()
	if h == nil || p.now.Load() != inc {
		return
	}
	for i := range ShardID(p.shards) {
		ids := p.typ.residents.of(i)
		if len(ids) == 0 {
			continue
		}
		p.wantHome(inc, i)
		if s := h.Shard(i); s != nil {
			for _, id := range ids {
				s.Ensure(id)
			}
		}
	}
}

// dismiss ends every instance here and reports how many there are still.
func (p *path[Req, Resp]) dismiss() (still int) {
	h := p.host.Load()
	if h == nil {
		return 0
	}
	for i := range ShardID(p.shards) {
		if s := h.Shard(i); s != nil {
			for _, id := range s.IDs() {
				if s.Dismiss(id) {
					still++
				}
			}
		}
	}
	return still
}

// forsake abandons the shards whose instances do not end; they get a new allocation.
func (p *path[Req, Resp]) forsake(inc *incarnation) {
	h := p.host.Load()
	if h == nil {
		return
	}
	for i := range ShardID(p.shards) {
		if s := h.Shard(i); s != nil && s.Entities() > 0 {
			p.entities.Forced.Add(1)
			inc.supersede(i, s.Token())
		}
	}
}
