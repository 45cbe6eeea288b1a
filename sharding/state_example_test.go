package sharding_test

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// hits counts. With Snapshot and Restore the count goes along when the shard moves.
type hits struct{ n uint64 }

func (h *hits) Handle(*sharding.Context, struct{}) (uint64, error) {
	h.n++
	return h.n, nil
}

func (h *hits) Snapshot(*sharding.Context) ([]byte, error) {
	return binary.AppendUvarint(nil, h.n), nil
}

func (h *hits) Restore(_ *sharding.Context, state []byte) error {
	h.n, _ = binary.Uvarint(state)
	return nil
}

// The count goes along when the node drains, and when it ends in order; with
// Replicated it also survives crashes and passivation.
func ExampleReplicated() {
	pages, ctx, done := alone(sharding.Type[struct{}, uint64]{
		Name: "page", IdleTimeout: time.Hour,
		New:   func(string) sharding.Entity[struct{}, uint64] { return &hits{} },
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	})
	defer done()
	fmt.Println(pages.Ask(ctx, "/", struct{}{}))
	fmt.Println(pages.Ask(ctx, "/", struct{}{}))
	s := pages.Stats()
	fmt.Println(s.StateBytes > 0, s.StateLosses)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// true 0
}

// lookup loads what it needs before its first message.
type lookup struct{ loaded string }

func (l *lookup) OnStart(ctx *sharding.Context) error {
	if ctx.ID() == "nobody" {
		return fmt.Errorf("there is no %s", ctx.ID())
	}
	l.loaded = "what is known of " + ctx.ID()
	return nil
}

func (l *lookup) Handle(*sharding.Context, struct{}) (string, error) { return l.loaded, nil }

// An entity that cannot start fails the message that woke it, and the next one tries
// again.
func ExampleStarter() {
	people, ctx, done := alone(sharding.Type[struct{}, string]{
		Name: "person",
		New:  func(string) sharding.Entity[struct{}, string] { return &lookup{} },
	})
	defer done()
	fmt.Println(people.Ask(ctx, "ada", struct{}{}))
	_, err := people.Ask(ctx, "nobody", struct{}{})
	fmt.Println(err)
	// Output:
	// what is known of ada <nil>
	// there is no nobody
}
