package sharding_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Deposit is a request of the examples' account.
type Deposit struct{ Cents int }

// Balance is its response.
type Balance struct{ Cents int }

type Account struct{ cents int }

func (a *Account) Handle(_ *sharding.Context, d Deposit) (Balance, error) {
	if a.cents+d.Cents < 0 {
		return Balance{}, errors.New("not enough")
	}
	a.cents += d.Cents
	return Balance{a.cents}, nil
}

// alone starts a cluster of one node with a type; it is what the examples share.
func alone[Req, Resp any](t sharding.Type[Req, Resp]) (*sharding.Region[Req, Resp], context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	node, err := peerage.New(peerage.Config{})
	if err != nil {
		panic(err)
	}
	region, err := sharding.Register(node.Registry(), t)
	if err != nil {
		panic(err)
	}
	if err := node.Start(ctx); err != nil {
		panic(err)
	}
	return region, ctx, func() { cancel(); _ = node.Close() }
}

func ExampleRegister() {
	accounts, ctx, done := alone(sharding.Type[Deposit, Balance]{
		Name: "account",
		New:  func(id string) sharding.Entity[Deposit, Balance] { return &Account{} },
	})
	defer done()

	alice := accounts.Ref("alice")
	_ = alice.Tell(ctx, Deposit{100})
	balance, err := alice.Ask(ctx, Deposit{20})
	fmt.Println(balance.Cents, err)

	_, err = alice.Ask(ctx, Deposit{-500})
	var said *sharding.HandlerError
	fmt.Println(errors.As(err, &said), err, sharding.Retryable(err))
	// Output:
	// 120 <nil>
	// true not enough false
}

// Command is what the examples' purse understands: messages of several kinds.
type Command interface{ apply(cents int) int }

// Put adds.
type Put struct{ Cents int }

func (p Put) apply(cents int) int { return cents + p.Cents }

// Empty takes all.
type Empty struct{}

func (Empty) apply(int) int { return 0 }

type purse struct{ cents int }

func (p *purse) Handle(_ *sharding.Context, c Command) (int, error) {
	p.cents = c.apply(p.cents)
	return p.cents, nil
}

func ExampleKinds() {
	purses, ctx, done := alone(sharding.Type[Command, int]{
		Name: "purse",
		New:  func(string) sharding.Entity[Command, int] { return &purse{} },
		ReqCodec: sharding.Kinds[Command]{
			1: sharding.Kind[Command](sharding.Msgpack[Put]{}),
			2: sharding.Kind[Command](sharding.JSON[Empty]{}),
		},
	})
	defer done()
	fmt.Println(purses.Ask(ctx, "alice", Put{Cents: 5}))
	fmt.Println(purses.Ask(ctx, "alice", Empty{}))
	// Output:
	// 5 <nil>
	// 0 <nil>
}

func ExampleFunc() {
	greeters, ctx, done := alone(sharding.Type[string, string]{
		Name: "greeter",
		New: func(id string) sharding.Entity[string, string] {
			return sharding.Func(func(_ *sharding.Context, name string) (string, error) {
				return id + " greets " + name, nil
			})
		},
	})
	defer done()
	fmt.Println(greeters.Ask(ctx, "ada", "grace"))
	// Output: ada greets grace <nil>
}

// An error has one of eight codes; its details are for logs.
func ExampleError() {
	counters, ctx, done := alone(sharding.Type[int, int]{
		Name: "counter",
		New: func(string) sharding.Entity[int, int] {
			return sharding.Func(func(_ *sharding.Context, n int) (int, error) { return n + 1, nil })
		},
	})
	defer done()
	_, err := counters.Ask(ctx, "", 1)
	var e *sharding.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code == sharding.ErrInvalid, e.Retryable(), e.OutcomeUnknown())
	}
	fmt.Println(errors.Is(err, sharding.ErrInvalid), errors.Is(err, sharding.ErrBadID))
	// Output:
	// true false false
	// true true
}

func ExampleRetry() {
	counters, ctx, done := alone(sharding.Type[int, int]{
		Name: "counter",
		New: func(string) sharding.Entity[int, int] {
			return sharding.Func(func(_ *sharding.Context, n int) (int, error) { return n + 1, nil })
		},
	})
	defer done()
	// While a home dies and a new one is found, the request is made again.
	fmt.Println(counters.Ask(ctx, "x", 1, sharding.Retry()))
	// Output: 2 <nil>
}

func ExampleWithin() {
	echoes, ctx, done := alone(sharding.Type[time.Duration, string]{
		Name: "echo",
		New: func(string) sharding.Entity[time.Duration, string] {
			return sharding.Func(func(ctx *sharding.Context, d time.Duration) (string, error) {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return "done", ctx.Err()
			})
		},
	})
	defer done()
	fmt.Println(echoes.Ask(ctx, "x", 0, sharding.Within(5*time.Second)))
	_, err := echoes.Ask(ctx, "x", time.Hour, sharding.Within(10*time.Millisecond))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// done <nil>
	// true
}

// session says goodbye when it was idle for too long, or moves.
type session struct{ hits int }

func (s *session) Handle(ctx *sharding.Context, page string) (int, error) {
	if page == "/logout" {
		ctx.Passivate()
	}
	s.hits++
	return s.hits, nil
}

func (s *session) OnStop(ctx *sharding.Context) { fmt.Println(ctx.ID(), "ends after", s.hits) }

func ExampleStopper() {
	sessions, ctx, done := alone(sharding.Type[string, int]{
		Name: "session", IdleTimeout: time.Hour,
		New: func(string) sharding.Entity[string, int] { return &session{} },
	})
	defer done()
	s := sessions.Ref("ada")
	_, _ = s.Ask(ctx, "/")
	_, _ = s.Ask(ctx, "/logout")
	hits, _ := s.Ask(ctx, "/") // a new session
	fmt.Println(hits)
	// Output:
	// ada ends after 2
	// 1
}

func ExampleContext() {
	locks, ctx, done := alone(sharding.Type[string, bool]{
		Name: "lock",
		New: func(string) sharding.Entity[string, bool] {
			return sharding.Func(func(ctx *sharding.Context, _ string) (bool, error) {
				// An outside system that refuses lower tokens cannot be harmed by a node
				// that was frozen and does not know that it was replaced.
				return !ctx.Token().IsZero() && ctx.Shard() < sharding.DefaultShards, nil
			})
		},
	})
	defer done()
	fmt.Println(locks.Ask(ctx, "x", "acquire"))
	// Output: true <nil>
}

// door lets people in while it is open, and closes by itself.
type door struct {
	open   bool
	closed chan string
}

func (d *door) Handle(ctx *sharding.Context, what string) (string, error) {
	switch {
	case what == "open":
		d.open = true
		ctx.Unstash()
		return "opened", ctx.After("close", time.Millisecond)
	case !d.open:
		return "", ctx.Stash() // handled when the door is open
	}
	fmt.Println(what, "came in")
	return "", nil
}

func (d *door) OnTimer(ctx *sharding.Context, name string) error {
	d.open = false
	d.closed <- ctx.ID() + ": " + name
	return nil
}

func ExampleTimerHandler() {
	closed := make(chan string)
	doors, ctx, done := alone(sharding.Type[string, string]{
		Name: "door",
		New:  func(string) sharding.Entity[string, string] { return &door{closed: closed} },
	})
	defer done()
	front := doors.Ref("front door")
	_ = front.Tell(ctx, "ada")
	_ = front.Tell(ctx, "open")
	fmt.Println(<-closed)
	// Output:
	// ada came in
	// front door: close
}

func ExampleSupervision() {
	workers, ctx, done := alone(sharding.Type[string, string]{
		Name: "worker",
		New: func(string) sharding.Entity[string, string] {
			return sharding.Func(func(_ *sharding.Context, job string) (string, error) {
				if job == "" {
					panic("no job")
				}
				return job + " done", nil
			})
		},
		Supervision: sharding.Supervision{
			OnPanic:    sharding.RestartOnPanic,
			BackoffMin: time.Millisecond, BackoffMax: time.Second,
		},
		// Jobs without a name overtake the others.
		Control: func(job string) bool { return job == "" },
	})
	defer done()
	_, err := workers.Ask(ctx, "w", "")
	fmt.Println(err)
	fmt.Println(workers.Ask(ctx, "w", "dig"))
	// Output:
	// sharding: handler panicked: no job
	// dig done <nil>
}

// page says which pages a node no longer keeps.
type page struct{ ended chan string }

func (p page) Handle(*sharding.Context, string) (string, error) { return "shown", nil }

func (p page) OnStop(ctx *sharding.Context) { p.ended <- ctx.ID() }

func ExamplePassivation() {
	ended := make(chan string, 10)
	pages, ctx, done := alone(sharding.Type[string, string]{
		Name: "page", Shards: 1,
		New: func(string) sharding.Entity[string, string] { return page{ended} },
		Passivation: sharding.Passivation{
			Limit:    2,
			Eviction: sharding.EvictTinyLFU,
		},
	})
	defer done()
	for _, id := range []string{"home", "home", "a", "b", "b"} {
		_, _ = pages.Ask(ctx, id, "show")
	}
	// "home" was shown before "a", but twice.
	fmt.Println(<-ended, "is no longer kept")
	// Output: a is no longer kept
}

// What lives on this node can be listed, and limited while it runs.
func ExampleRegion_Local() {
	ended := make(chan string, 10)
	pages, ctx, done := alone(sharding.Type[string, string]{
		Name: "page", Shards: 1,
		New:         func(string) sharding.Entity[string, string] { return page{ended} },
		Passivation: sharding.Passivation{Limit: 100},
	})
	defer done()
	for _, id := range []string{"home", "news", "about"} {
		_, _ = pages.Ask(ctx, id, "show")
	}
	for _, s := range pages.Local() {
		fmt.Println("shard", s.Shard, s.IDs)
	}
	fmt.Println(pages.SetEntityLimit(1)) // this node is short of memory
	one, other := <-ended, <-ended       // they end side by side
	fmt.Println(min(one, other), max(one, other), "are no longer kept")
	fmt.Println(pages.SetEntityLimit(0))
	// Output:
	// shard 0 [about home news]
	// <nil>
	// home news are no longer kept
	// sharding: type "page": limit of 0 instances: it must be positive, and the type must have one (Passivation)
}

// poller works by itself, without being asked.
type poller struct{ polled chan string }

func (p *poller) OnStart(ctx *sharding.Context) error { return ctx.Every("poll", time.Millisecond) }

func (p *poller) OnTimer(ctx *sharding.Context, _ string) error {
	select {
	case p.polled <- ctx.ID():
	default:
	}
	return nil
}

func (p *poller) Handle(*sharding.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

func ExampleRegion_Start() {
	polled := make(chan string)
	pollers, ctx, done := alone(sharding.Type[struct{}, struct{}]{
		Name: "poller",
		New:  func(string) sharding.Entity[struct{}, struct{}] { return &poller{polled} },
	})
	defer done()
	fmt.Println(pollers.Start(ctx, "mail"))
	fmt.Println(<-polled)
	// Output:
	// <nil>
	// mail
}

func ExampleRegisterProxy() {
	var registry sharding.Registry
	accounts, err := sharding.RegisterProxy(&registry, sharding.Type[Deposit, Balance]{Name: "account", Role: "backend"})
	fmt.Println(accounts.Name(), err)
	// Output: account <nil>
}

func ExampleType() {
	var registry sharding.Registry
	_, err := sharding.Register(&registry, sharding.Type[Deposit, Balance]{
		Name: "account", Role: "backend", Shards: 1000,
		New:         func(string) sharding.Entity[Deposit, Balance] { return &Account{} },
		ReqCodec:    sharding.JSON[Deposit]{},
		IdleTimeout: 10 * time.Minute,
		Strategy:    strategy.LeastShards{},
		MinMembers:  3,
		Limits:      sharding.Limits{Mailbox: 100},
	})
	fmt.Println(err, registry.Types())
	// Output: <nil> [account]
}
