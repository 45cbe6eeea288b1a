// Package statecopy replicates the states of the entities of one type in the simulator. It is the
// shell of the core internal/core/standby there, as internal/statecopy is in production. A state is
// a version: the hash of the messages that its entity has handled.
package statecopy

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Env is the process around Copies.
type Env interface {
	Now() clock.Instant
	// Put has do run on the goroutine of the core, after all that was put before.
	Put(do func())
	Later(d time.Duration, do func())
	NewTimer(fire func()) *virtual.Timer
	Send(to gossip.NodeID, m standby.Message)
	// Ready reports that a shard may start with its states. Short: acknowledged ones may be
	// missing.
	Ready(st protocol.ShardToken, states map[int]uint64, short bool)
	// Superseded reports that a shard has a newer allocation.
	Superseded(st protocol.ShardToken)
	// Kept reports that a majority of the holders of a shard have a state of an entity.
	Kept(st protocol.ShardToken, entity int, state uint64)
	// Announced reports that the core announces the holders of a shard, Recorded that it has
	// recorded them.
	Announced(shard protocol.ShardID, l standby.Layout)
	Recorded(standby.Announced)
	// Reply answers a message, whose change is kept or may not be.
	Reply(msg *datapath.Message, kept bool)
}

// Copies are the replicated states of one type on one process: those of the shards that live here,
// and the copies for others.
type Copies struct {
	self  gossip.NodeID
	env   Env
	core  *standby.Core
	fx    standby.Effects
	timer *virtual.Timer
	view  *gossip.View
	// local are messages of the core to itself, early those of processes that are in no view yet.
	local []standby.Message
	early []received
	lives map[protocol.ShardID]*life
	// dirty are the entities whose newest state the core does not have.
	dirty []changed
	// looking is set while a look for late replies and leaving shards is planned.
	looking bool
}

type received struct {
	from gossip.NodeID
	msg  standby.Message
}

// life is a shard that lives here.
type life struct {
	st       protocol.ShardToken
	entities map[int]*entity
	// leave is called when all states are replicated, or at leaveAt; nil until the shard has
	// stopped.
	leave   func()
	leaveAt clock.Instant
}

// entity is one with a state: states are those of the versions from replicated on.
type entity struct {
	version, replicated uint64
	states              []uint64
	queued              bool
	held                []heldReply
}

type changed struct {
	life   *life
	number int
}

// heldReply is the reply to a message, which waits for a version.
type heldReply struct {
	version uint64
	until   clock.Instant
	msg     *datapath.Message
}

const (
	// replyTimeout is how long a reply waits, lookEvery the interval of looks for late ones.
	replyTimeout = 5 * time.Second
	lookEvery    = 20 * time.Millisecond
)

// Hosted are the settings of a process that hosts the type.
type Hosted struct {
	Role     string
	Replicas int
}

// heldBytes bounds the copies on a process, as in production.
const heldBytes = 1 << 30

// New returns Copies of a type without states. Pages of the core have at most so many bytes, 0 for
// those of production.
func New(self gossip.NodeID, typ string, env Env, pageBytes int) *Copies {
	c := &Copies{self: self, env: env, core: standby.New(standby.Config{Self: self, Type: typ, PageBytes: pageBytes}), lives: map[protocol.ShardID]*life{}}
	c.timer = env.NewTimer(c.onTimer)
	return c
}

// Configure has the process host the type from now on.
func (c *Copies) Configure(h Hosted) {
	c.putEvent(standby.Configured{Role: h.Role, Mode: standby.Quorum, Replicas: h.Replicas, BytesMax: heldBytes})
}

// SetView takes a newer view.
func (c *Copies) SetView(v *gossip.View) {
	c.env.Put(func() {
		c.view = v
		c.stepCore(standby.ViewChanged{View: v})
		early := c.early
		c.early = nil
		for _, f := range early {
			c.receive(f)
		}
	})
}

// Receive takes a message of another process.
func (c *Copies) Receive(from gossip.NodeID, m standby.Message) {
	c.env.Put(func() { c.receive(received{from, m}) })
}

func (c *Copies) receive(f received) {
	if c.view.Member(f.from) == nil {
		c.early = append(c.early, f)
		return
	}
	c.stepCore(standby.Received{From: f.from, Msg: f.msg})
}

// Begin collects the states of a shard: Ready follows, unless it ends first.
func (c *Copies) Begin(st protocol.ShardToken) {
	c.putEvent(standby.Begin{Shard: st.Shard, Token: st.Token})
}

// Finish calls gone once all changes of a shard are replicated, at the latest after within.
func (c *Copies) Finish(st protocol.ShardToken, within time.Duration, gone func()) {
	leave := func() {
		c.putEvent(standby.End{Shard: st.Shard, Token: st.Token})
		gone()
	}
	l := c.lives[st.Shard]
	if l == nil || l.st != st {
		leave()
		return
	}
	l.leave, l.leaveAt = leave, c.env.Now().Add(within)
	c.env.Put(c.look)
}

// AbandonAll ends all shards that live here.
func (c *Copies) AbandonAll() {
	c.putEvent(standby.EndAll{})
	c.endAll()
}

func (c *Copies) endAll() {
	for _, s := range slices.Sorted(maps.Keys(c.lives)) {
		c.endLife(c.lives[s])
	}
}

// Keep takes the state of an entity after a message, whose reply waits until the state is
// replicated.
func (c *Copies) Keep(st protocol.ShardToken, number int, state uint64, msg *datapath.Message) {
	l := c.lives[st.Shard]
	if l == nil || l.st != st {
		c.env.Reply(msg, false)
		return
	}
	e := l.entities[number]
	if e == nil {
		e = &entity{states: []uint64{0}}
		l.entities[number] = e
	}
	e.version++
	e.states = append(e.states, state)
	e.held = append(e.held, heldReply{e.version, c.env.Now().Add(replyTimeout), msg})
	if !e.queued {
		e.queued = true
		if c.dirty = append(c.dirty, changed{l, number}); len(c.dirty) == 1 {
			c.env.Put(c.flushChanges)
		}
	}
	c.planLook()
}

// flushChanges hands the newest states of the entities that have changed to the core.
func (c *Copies) flushChanges() {
	changes := make(standby.Changes, len(c.dirty))
	for i, d := range c.dirty {
		e := d.life.entities[d.number]
		e.queued = false
		changes[i] = standby.Change{Shard: d.life.st.Shard, Token: d.life.st.Token, ID: strconv.Itoa(d.number), Version: e.version,
			State: binary.BigEndian.AppendUint64(nil, e.states[len(e.states)-1])}
	}
	c.dirty = nil
	c.stepCore(changes)
}

func (c *Copies) putEvent(ev standby.Event) { c.env.Put(func() { c.stepCore(ev) }) }

func (c *Copies) onTimer() {
	c.env.Put(func() {
		if c.env.Now() >= c.core.Deadline() {
			c.stepCore(standby.Tick{})
		}
		c.timer.Set(c.core.Deadline())
	})
}

// stepCore passes an event to the core, and then the core's messages to itself.
func (c *Copies) stepCore(ev standby.Event) {
	c.stepOnce(ev)
	if _, is := ev.(standby.EndAll); is {
		c.endAll() // shards whose states were collected after AbandonAll
	}
	for len(c.local) > 0 {
		m := c.local[0]
		c.local = c.local[1:]
		c.stepOnce(standby.Received{From: c.self, Msg: m})
	}
	c.timer.Set(c.core.Deadline())
}

func (c *Copies) stepOnce(ev standby.Event) {
	c.core.Step(c.env.Now(), ev, &c.fx)
	for _, e := range c.fx.Do {
		c.performEffect(e)
	}
	c.fx.Reset()
}

func (c *Copies) performEffect(e standby.Effect) {
	switch e := e.(type) {
	case standby.Send:
		switch m := e.Msg.(type) {
		case standby.Announce:
			c.env.Announced(m.Shard, m.Layout)
		case standby.Announced:
			c.env.Recorded(m)
		}
		if e.To == c.self {
			c.local = append(c.local, e.Msg)
			return
		}
		c.env.Send(e.To, e.Msg)
	case standby.Ready:
		c.begin(e)
	case standby.Kept:
		c.kept(e)
	case standby.Deposed:
		st := protocol.ShardToken{Shard: e.Shard, Token: e.Token}
		leave := func() {}
		if l := c.lives[e.Shard]; l != nil && l.st == st {
			c.endLife(l)
			if l.leave != nil {
				leave = l.leave
			}
		}
		c.env.Superseded(st)
		leave()
	}
}

// begin has a shard live here, with the states that were collected.
func (c *Copies) begin(e standby.Ready) {
	if old := c.lives[e.Shard]; old != nil {
		c.endLife(old)
	}
	l := &life{st: protocol.ShardToken{Shard: e.Shard, Token: e.Token}, entities: map[int]*entity{}}
	states := map[int]uint64{}
	for id, cp := range e.Copies { // order-free: into maps
		n, _ := strconv.Atoi(id) // flushChanges wrote it
		states[n] = binary.BigEndian.Uint64(cp.State)
		l.entities[n] = &entity{version: cp.Tag.Version, replicated: cp.Tag.Version, states: []uint64{states[n]}}
	}
	c.lives[e.Shard] = l
	c.env.Ready(l.st, states, e.Short)
}

// kept releases the replies that waited for a version.
func (c *Copies) kept(k standby.Kept) {
	l := c.lives[k.Shard]
	if l == nil || l.st.Token != k.Token {
		return
	}
	n, _ := strconv.Atoi(k.ID) // flushChanges wrote it
	e := l.entities[n]
	if k.Version <= e.replicated {
		return
	}
	e.states = e.states[k.Version-e.replicated:]
	e.replicated = k.Version
	c.env.Kept(l.st, n, e.states[0])
	for len(e.held) > 0 && e.held[0].version <= k.Version {
		msg := e.held[0].msg
		e.held = e.held[1:]
		c.env.Reply(msg, true)
	}
	c.env.Put(c.look)
}

// endLife removes a shard, whose changes may not be kept.
func (c *Copies) endLife(l *life) {
	delete(c.lives, l.st.Shard)
	for _, n := range slices.Sorted(maps.Keys(l.entities)) {
		c.refuseUntil(l.entities[n], clock.Never)
	}
	c.dirty = slices.DeleteFunc(c.dirty, func(d changed) bool { return d.life == l })
}

// refuseUntil answers the replies whose time is over by now.
func (c *Copies) refuseUntil(e *entity, now clock.Instant) {
	for len(e.held) > 0 && now >= e.held[0].until {
		msg := e.held[0].msg
		e.held = e.held[1:]
		c.env.Reply(msg, false)
	}
}

func (c *Copies) planLook() {
	if c.looking {
		return
	}
	c.looking = true
	c.env.Later(lookEvery, func() {
		c.env.Put(func() {
			c.looking = false
			c.look()
		})
	})
}

// look refuses the replies whose time is over, and lets shards leave that have stopped.
func (c *Copies) look() {
	now, again := c.env.Now(), false
	for _, s := range slices.Sorted(maps.Keys(c.lives)) {
		l, behind := c.lives[s], false
		for _, n := range slices.Sorted(maps.Keys(l.entities)) {
			e := l.entities[n]
			c.refuseUntil(e, now)
			behind = behind || e.replicated < e.version
		}
		if l.leave != nil && (!behind || now >= l.leaveAt) {
			c.endLife(l)
			l.leave()
			continue
		}
		again = again || behind || l.leave != nil
	}
	if again {
		c.planLook()
	}
}
