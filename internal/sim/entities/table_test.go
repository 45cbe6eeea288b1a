package entities

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// openHome is the Env of a process that runs all shards under one token, until it gets another.
type openHome struct {
	p     *process.Process
	token protocol.Token
	lease bool
}

func (e *openHome) Put(do func())                                    { e.p.Later(0, do) }
func (e *openHome) Later(d time.Duration, do func())                 { e.p.Later(d, do) }
func (e *openHome) MayAct() bool                                     { return e.lease }
func (e *openHome) Token(strategy.ShardID) protocol.Token            { return e.token }
func (e *openHome) NeedHomes([]strategy.ShardID)                     {}
func (e *openHome) StartElsewhere(int, clock.Instant, func(ok bool)) {}
func (e *openHome) CheckActs(protocol.ShardToken)                    {}

// TestACrashedEntityMustStartAgain: within a second and the time of its queue, while its home has the
// shard under the same token, and a lease. The core of the test does not start it.
func TestACrashedEntityMustStartAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*openHome)
		fails  bool
	}{
		"nothing happens":      {func(*openHome) {}, true},
		"the shard has moved":  {func(e *openHome) { e.token.Seq++ }, false},
		"the lease has lapsed": {func(e *openHome) { e.lease = false }, false},
	} {
		r := run.New(&seed.Options{Nodes: 1})
		r.Config, r.Calm = seed.Config{Ping: time.Second}, true
		p := &process.Process{Run: r, Thread: virtual.NewThread(&r.Time), Clock: virtual.NewClock(0, 0)}
		e := &openHome{p: p, token: protocol.Token{Term: 1, Seq: 1}, lease: true}
		table := NewTable(p, &seed.Type{Name: "r", Shards: 1, Entities: 4, Remembered: 100}, e)
		table.Remember(nil, invariant.NewRemembered())
		elsewhere := func(strategy.ShardID) (t protocol.Token) { return t }
		table.Host(&core.Node{Token: elsewhere, Members: func() (m daemon.Members) { return m }})
		st := protocol.ShardToken{Token: e.token}
		table.Handle(st, 2)
		if !table.Runs(0, 2) {
			t.Fatal("a message does not start an entity")
		}
		in := table.shards[0][2]
		table.endInstance(in)
		table.memory.noteCrashed(in)
		fails := func(within time.Duration) (failed bool) {
			defer func() { _, failed = recover().(run.Failure) }()
			for range int(within / (50 * time.Millisecond)) {
				r.Until(r.Now().Add(50 * time.Millisecond))
				table.Look()
			}
			return false
		}
		if fails(time.Second) {
			t.Errorf("%s: the run stops within a second", name)
		}
		c.change(e)
		if got := fails(2 * time.Second); got != c.fails {
			t.Errorf("%s: the run stops: %v", name, got)
		}
	}
}
