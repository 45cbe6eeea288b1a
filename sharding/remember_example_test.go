package sharding_test

import (
	"fmt"

	"github.com/peerage-go/peerage/sharding"
)

// ticker is an entity that works without being asked.
type ticker struct{}

func (ticker) Handle(ctx *sharding.Context, req string) (string, error) {
	if req == "retire" {
		ctx.Passivate() // the only way to be forgotten
	}
	return ctx.ID() + " will " + req, nil
}

// With Remember, what ran at a home that crashed runs again at the next one without a
// message.
func ExampleType_remember() {
	tickers, ctx, done := alone(sharding.Type[string, string]{
		Name: "ticker", Remember: true,
		New: func(string) sharding.Entity[string, string] { return ticker{} },
	})
	defer done()
	for _, req := range []string{"stay", "retire"} {
		fmt.Println(tickers.Ask(ctx, "tower", req))
	}
	// Output:
	// tower will stay <nil>
	// tower will retire <nil>
}
