package sharding

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// producer is the shell of a reliable producer, as internal/delivery.Producer is in production: it
// sends what the core asks for, and notes events for the core, which another goroutine performs.
type producer struct {
	m      *base
	cores  *cores
	outbox *outbox
	path   func() *datapath.Path

	id    reliable.Producer
	core  *reliable.Sender
	fx    reliable.Effects
	timer *virtual.Timer
	// keepDone: a confirmed message counts as held until it is released.
	keepDone bool
	// numbers counts the messages to each entity.
	numbers []uint64
	notes   []reliable.Event
}

// The bounds of a producer are low, so that its windows are often full.
const (
	producerMessages = 40
	producerBytes    = 300
)

func newProducer(m *base, c *cores, o *outbox, path func() *datapath.Path) *producer {
	p := &producer{m: m, cores: c, outbox: o, path: path, numbers: make([]uint64, m.spec.Entities)}
	p.id = reliable.Producer(uint64(m.p.ID())<<1 | uint64(m.number&1))
	p.timer = m.p.NewTimer(func() { p.workEvents(reliable.Tick{}) })
	rand := m.run.Rand.Line
	p.keepDone = rand.Coin()
	p.core = reliable.NewSender(reliable.Config{
		Producer: p.id, Window: rand.Between(2, 12), Messages: producerMessages, Bytes: producerBytes,
		Resend: rand.Duration(50*time.Millisecond, 500*time.Millisecond), KeepDone: p.keepDone,
	})
	return p
}

// keepOffering offers messages until the run's faults end.
func (p *producer) keepOffering() {
	m, r := p.m, p.m.run
	if !m.spec.Reliable {
		return
	}
	r.After(r.Rand.Line.Duration(r.Config.TellEvery/2, 2*r.Config.TellEvery), func() {
		if !m.site.on || r.Calm {
			return
		}
		m.p.Thread.Run(func() {
			if m.site.on && !m.p.Removed() && !p.cores.foreign {
				p.offerMessage(r.Rand.Line.IntN(m.spec.Entities))
				if r.Rand.Line.Chance(4) {
					p.flushMessages(p.core.Marks())
				}
			}
		})
		p.keepOffering()
	})
}

// offerMessage offers a message to an entity, unless there is no room for it.
func (p *producer) offerMessage(entity int) {
	n := p.numbers[entity] + 1
	data := binary.BigEndian.AppendUint64(nil, n)
	p.step(reliable.Offer{Shard: protocol.ShardID(entity % p.m.spec.Shards), ID: strconv.Itoa(entity), Data: data})
	if !p.fx.Taken {
		p.m.run.Hit(coverage.WindowFull)
		return
	}
	p.numbers[entity] = n
	p.sendDue()
}

// flushMessages waits until all messages that were offered before are confirmed, as Flush of a producer in
// production does.
func (p *producer) flushMessages(marks map[protocol.ShardID]uint64) {
	before, m := slices.Clone(p.numbers), p.m
	var look func()
	look = func() {
		switch {
		case !m.site.on:
		case !p.core.Past(marks):
			m.p.Later(20*time.Millisecond, look)
		case !m.run.Parts():
			m.run.Hit(coverage.Flushed)
			for entity, n := range before {
				m.run.Judge(m.checks.deliveries.Flushed(time.Duration(m.run.Now()), uint64(p.id), entity, n))
			}
		}
	}
	look()
}

// step performs an event, and passes on what is finished.
func (p *producer) step(ev reliable.Event) {
	p.fx.Reset()
	p.core.Step(p.m.p.Now(), ev, &p.fx)
	for i := range p.fx.Done {
		p.finishMessage(&p.fx.Done[i])
	}
	p.timer.Set(p.core.Deadline())
}

// finishMessage notes a message that is confirmed.
func (p *producer) finishMessage(d *reliable.Done) {
	m, n := p.m, binary.BigEndian.Uint64(d.Data)
	entity, _ := strconv.Atoi(d.ID) // offerMessage wrote it
	m.p.Event("reliable message confirmed", n, func() string { return "entity " + d.ID })
	m.run.Hit(coverage.Confirmed)
	if !m.run.Parts() {
		m.run.Judge(m.checks.deliveries.Confirmed(time.Duration(m.run.Now()), uint64(p.id), entity, n))
	}
	size := len(d.Data)
	m.p.Later(m.run.Rand.Line.Duration(0, 20*time.Millisecond), func() {
		if m.site.on {
			p.noteEvent(reliable.Released{Messages: 1, Bytes: size})
		}
	})
}

// noteEvent has another goroutine perform an event.
func (p *producer) noteEvent(ev reliable.Event) {
	if _, released := ev.(reliable.Released); released && !p.keepDone {
		return
	}
	p.notes = append(p.notes, ev)
	if len(p.notes) > 1 {
		return
	}
	p.m.p.Later(p.m.run.Rand.Line.Duration(0, time.Millisecond), func() {
		notes := p.notes
		p.notes = nil
		if p.m.site.on {
			p.workEvents(notes...)
		}
	})
}

// workEvents performs events and sends what is due.
func (p *producer) workEvents(events ...reliable.Event) {
	if !p.m.site.on {
		return
	}
	for _, ev := range events {
		p.step(ev)
	}
	p.sendDue()
}

// sendDue sends the messages that are due.
func (p *producer) sendDue() {
	for {
		t, ok := p.core.Next(p.m.p.Now())
		if !ok {
			return
		}
		at, how := p.transmit(&t)
		switch how {
		case datapath.AtGate:
			p.step(reliable.Blocked{Shard: t.Shard, ID: t.ID})
		case datapath.NoWay:
			p.step(reliable.Blocked{Shard: t.Shard})
		default:
			p.step(reliable.Sent{Shard: t.Shard, Seq: t.Stamp.Seq, At: at})
		}
	}
}

// transmit sends a copy, whose stamp passes through its encoding.
func (p *producer) transmit(t *reliable.Transmit) (gossip.NodeID, datapath.Attempt) {
	m := p.m
	b := make([]byte, reliable.StampBytes)
	t.Stamp.Put(b)
	stamp, err := reliable.ParseStamp(b)
	if err != nil {
		m.run.Fail("codec", "%s sends a reliable message under %+v: %v", m.p.Label, t.Stamp, err)
	}
	entity, _ := strconv.Atoi(t.ID)
	if stamp.Try > 1 {
		m.run.Hit(coverage.Resent)
	}
	return p.path().PostNow(&datapath.Message{
		Sender: m.p.Node.ID, Entity: entity, Shard: t.Shard, Class: flow.Handler, Bytes: len(t.Data) + reliable.StampBytes,
		Copy: &datapath.Copy{Stamp: stamp, Number: binary.BigEndian.Uint64(t.Data)},
	})
}

// onConfirm takes the answer of a home.
func (p *producer) onConfirm(from gossip.NodeID, c *confirmFrame) {
	if c.producer != p.id {
		return
	}
	switch c.outcome {
	case copyHandled, copyRepeated:
		done := reliable.Confirmed{Shard: c.shard, Seq: c.seq, From: from, All: c.all}
		if c.outcome == copyRepeated {
			done.Result = failure.ResultLost
		}
		p.noteEvent(done)
	default:
		p.noteEvent(reliable.Refused{Shard: c.shard, Seq: c.seq, Try: c.try, Gap: c.outcome == copyGap})
	}
}

// unconfirmed returns the number of messages that are not finished.
func (p *producer) unconfirmed() int {
	n, _ := p.core.Held()
	return n
}
