package sharding

import (
	"time"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
)

// senders are the modelled callers of a process: four for each entity, of all classes, which
// wait for room as the callers of internal/delivery do.
type senders struct {
	m     *base
	cores *cores
	calls *calls
	// path returns the data path.
	path func() *datapath.Path
	// seqs counts the messages to each entity.
	seqs []uint64
	// probed are the shards that have answered the check of liveness.
	probed map[protocol.ShardID]bool
}

// callers are the modelled callers of a process for each entity, by the class of their
// messages; percent is how many of the messages each of them sends.
var callers = [...]struct {
	class   flow.Class
	percent int
}{{flow.Ordinary, 70}, {flow.Ordinary, 10}, {flow.Handler, 12}, {flow.Control, 8}}

// keepPosting posts messages until the run's faults end.
func (s *senders) keepPosting() {
	m, r := s.m, s.m.run
	r.After(r.Rand.Setup.Duration(r.Config.TellEvery/2, 2*r.Config.TellEvery), func() {
		if !m.site.on {
			return
		}
		m.p.Thread.Run(func() {
			if m.site.on && !m.p.Removed() && !r.Calm && !s.cores.foreign && s.mayPost() {
				s.postMessage(r.Rand.Setup.IntN(m.spec.Entities), false)
			}
		})
		s.keepPosting()
	})
}

// mayPost reports whether a message is sent. Entities that need none get few: else messages would
// start what must start without.
func (s *senders) mayPost() bool {
	switch t := s.m.spec; {
	case t.AlwaysOn:
		return s.m.run.Rand.Entity.Chance(5)
	case t.Remembered > 0:
		return s.m.run.Rand.Entity.Chance(25)
	}
	return true
}

// postMessage has a caller of this process send a message, unless its last call has not returned.
func (s *senders) postMessage(entity int, probe bool) {
	m, r := s.m, s.m.run
	caller := 0
	if !probe {
		for draw := r.Rand.Route.IntN(100); draw >= callers[caller].percent; caller++ {
			draw -= callers[caller].percent
		}
	}
	if s.path().Busy(entity, caller) {
		return
	}
	s.seqs[entity]++
	msg := &datapath.Message{
		Sender: m.p.Node.ID, Entity: entity, Caller: caller, Seq: s.seqs[entity], Probe: probe, Class: callers[caller].class,
		Bytes: s.drawBytes(), Shard: protocol.ShardID(entity % m.spec.Shards),
	}
	if !probe && r.Config.AskPercent > 0 && r.Rand.Setup.Chance(r.Config.AskPercent) {
		s.calls.beginAsk(msg)
	}
	if !s.path().Post(msg) || msg.Call != 0 && msg.Class != flow.Handler {
		return // an ask waits until its deadline
	}
	m.p.Later(s.drawPatience(msg), func() {
		if m.site.on && s.path().Withdraw(msg) {
			r.Hit(coverage.Withdrawn)
			m.site.inv.noteNoRoom(msg, m.number)
			s.calls.refuseAsk(msg)
		}
	})
}

// drawBytes draws the size of a message: most are small.
func (s *senders) drawBytes() int {
	r := s.m.run.Rand.Route
	if r.IntN(16) == 0 {
		return r.Between(1<<10, 32<<10)
	}
	return r.Between(16, 200)
}

// handlerWait is how long a full mailbox delays a handler, as in internal/delivery.
const handlerWait = 5 * time.Second

// drawPatience draws how long the caller of a message waits for room.
func (s *senders) drawPatience(msg *datapath.Message) time.Duration {
	if msg.Class == flow.Handler {
		return handlerWait
	}
	return s.m.run.Rand.Route.Duration(50*time.Millisecond, 3*time.Second)
}

// probe posts a message to each shard that has not answered.
func (s *senders) probe() {
	for shard := range min(s.m.spec.Shards, s.m.spec.Entities) {
		if !s.cores.foreign && !s.probed[protocol.ShardID(shard)] {
			s.m.p.Thread.Run(func() { s.postMessage(shard, true) })
		}
	}
}
