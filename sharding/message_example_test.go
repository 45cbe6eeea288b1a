package sharding_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// price is a message that knows its own encoding, as those of protobuf do.
type price struct{ cents byte }

// priceCodec is the codec of it. Those for protobuf look the same, with proto.Marshal.
type priceCodec struct{}

func (priceCodec) Append(b []byte, p price) ([]byte, error) { return append(b, p.cents), nil }

func (priceCodec) Decode(b []byte) (price, error) {
	if len(b) != 1 {
		return price{}, errors.New("a price has one byte")
	}
	return price{b[0]}, nil
}

func ExampleCodec() {
	shops, ctx, done := alone(sharding.Type[price, []byte]{
		Name: "shop",
		New: func(string) sharding.Entity[price, []byte] {
			return sharding.Func(func(_ *sharding.Context, p price) ([]byte, error) { return []byte{p.cents + 1}, nil })
		},
		ReqCodec:  priceCodec{},
		RespCodec: sharding.Raw[[]byte]{}, // what []byte has by default
	})
	defer done()
	fmt.Println(shops.Ask(ctx, "corner", price{4}))
	// string has Text by default, struct{} None, and all else Msgpack.
	var defaults = []any{sharding.Text[string]{}, sharding.None{}, sharding.Msgpack[Deposit]{}}
	fmt.Printf("%T\n", defaults[1])
	// Output:
	// [5] <nil>
	// sharding.None
}

// visit has a field that no codec carries.
type visit struct {
	Page  string
	clock func() int
}

// Lossy accepts by name what Register refuses: here clock is set in messages between entities
// of one node, and nil in those from other nodes.
func ExampleLossy() {
	pages := sharding.Type[visit, string]{
		Name: "page",
		New: func(string) sharding.Entity[visit, string] {
			return sharding.Func(func(_ *sharding.Context, v visit) (string, error) {
				return fmt.Sprint(v.Page, " ", v.clock != nil), nil
			})
		},
	}
	fmt.Println(pages.Validate())
	pages.ReqCodec = sharding.Lossy[visit]{}
	fmt.Println(pages.Validate())
	// Output:
	// sharding: type "page": ReqCodec: sharding_test.visit.clock is not exported, so it arrives empty: export it, tag it `msgpack:"-"` if it may be left behind, or give sharding_test.visit the methods EncodeMsgpack and DecodeMsgpack
	// <nil>
}

// Entities know who sent a message, and answer a tell with one of their own: it goes
// to its origin directly, wherever both live.
func ExampleSender() {
	answered := make(chan string, 1)
	var echoes *sharding.Region[string, struct{}]
	echoes, ctx, done := alone(sharding.Type[string, struct{}]{
		Name: "echo",
		New: func(string) sharding.Entity[string, struct{}] {
			return sharding.Func(func(ctx *sharding.Context, word string) (none struct{}, err error) {
				switch from := ctx.Sender(); {
				case word == "begin": // from outside: from.ID is empty
					err = echoes.Tell(ctx, "mountain", "hello")
				case ctx.ID() == "mountain":
					err = echoes.Tell(ctx, from.ID, word+" "+word)
				default:
					answered <- from.ID + " says " + word
				}
				return none, err
			})
		},
	})
	defer done()
	_ = echoes.Tell(ctx, "hiker", "begin")
	fmt.Println(<-answered)
	// Output: mountain says hello hello
}

func ExampleOutcomeUnknown() {
	slow, ctx, done := alone(sharding.Type[string, string]{
		Name: "slow", Limits: sharding.Limits{PayloadBytes: 8},
		New: func(string) sharding.Entity[string, string] {
			return sharding.Func(func(ctx *sharding.Context, what string) (string, error) {
				if what == "wait" {
					<-ctx.Done() // the asker's deadline has travelled
				}
				return "", ctx.Err()
			})
		},
	})
	defer done()
	_, _ = slow.Ask(ctx, "x", "hello") // without a home the deadline may end the wait for it
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, late := slow.Ask(short, "x", "wait")
	_, bad := slow.Ask(ctx, "", "who?")
	for _, err := range []error{late, bad} {
		fmt.Println(err, sharding.Retryable(err), sharding.OutcomeUnknown(err))
	}
	// Output:
	// context deadline exceeded true true
	// sharding: entity id is empty or too long false false
}

func ExampleTypeError() {
	_, err := sharding.Register(new(sharding.Registry), sharding.Type[string, string]{
		Name: "shy", Shards: -1, MinMembers: -1,
		New: func(string) sharding.Entity[string, string] { return nil },
	})
	var wrong *sharding.TypeError
	fmt.Println(errors.As(err, &wrong), len(wrong.Wrong))
	fmt.Println(err)
	// Output:
	// true 2
	// sharding: type "shy": Shards must be 1 to 32768, is -1; MinMembers is negative
}

func ExampleStats() {
	counters, ctx, done := alone(sharding.Type[int, int]{
		Name: "counter",
		New: func(string) sharding.Entity[int, int] {
			return sharding.Func(func(_ *sharding.Context, n int) (int, error) { return n, nil })
		},
	})
	defer done()
	_, _ = counters.Ask(ctx, "a", 1) // waits for the home of its shard
	_, _ = counters.Ask(ctx, "a", 1)
	s := counters.Stats()
	for s.Handled < 2 { // a call counts a moment after its answer
		s = counters.Stats()
	}
	fmt.Println(s.Handled, "handled,", s.SentBuffered, "buffered,", s.Dropped[sharding.DropMailboxFull], "dropped")
	fmt.Println(s.Shards, "shard,", s.Entities, "entity")
	// Output:
	// 2 handled, 1 buffered, 0 dropped
	// 1 shard, 1 entity
}
