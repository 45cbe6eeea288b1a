package sharding_test

import (
	"fmt"

	"github.com/peerage-go/peerage/sharding"
)

// ledger keeps a balance; an order that ran twice would show.
type ledger struct{ balance int }

func (l *ledger) Handle(_ *sharding.Context, amount int) (int, error) {
	l.balance += amount
	return l.balance, nil
}

// A Reliable sends again what is not confirmed, and the home runs nothing twice.
func ExampleReliable() {
	ledgers, ctx, done := alone(sharding.Type[int, int]{
		Name: "ledger",
		New:  func(string) sharding.Entity[int, int] { return &ledger{} },
	})
	defer done()
	orders, err := ledgers.Reliable(sharding.ReliableConfig[int]{
		OnConfirm: func(id string, amount int, err error) { fmt.Println(id, amount, err) },
	})
	if err != nil {
		panic(err)
	}
	for _, amount := range []int{100, -30, 5} {
		if err := orders.Send(ctx, "alice", amount); err != nil {
			panic(err)
		}
	}
	if err := orders.Flush(ctx); err != nil {
		panic(err)
	}
	if err := orders.Close(); err != nil {
		panic(err)
	}
	balance, err := ledgers.Ask(ctx, "alice", 0)
	fmt.Println(balance, err)
	// Output:
	// alice 100 <nil>
	// alice -30 <nil>
	// alice 5 <nil>
	// 75 <nil>
}
