package peerage_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// Shutdown keeps its deadline. A handler that ignores the end of its Context is named by
// the error, and none acts for the node before its lease has run out.
func ExampleNode_Shutdown() {
	ctx := context.Background()
	node, err := peerage.Start(ctx, peerage.Config{})
	check(err)
	begun, wake := make(chan struct{}), make(chan struct{})
	reports, err := sharding.Register(node.Registry(), sharding.Type[string, string]{
		Name: "report", Shards: 4,
		New: func(string) sharding.Entity[string, string] {
			return sharding.Func(func(_ *sharding.Context, req string) (string, error) {
				close(begun)
				<-wake // for too long, and without checking the Context
				return req, nil
			})
		},
	})
	check(err)
	check(node.WaitReady(ctx))
	check(reports.Tell(ctx, "monthly", "print"))
	<-begun

	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	err = node.Shutdown(soon)
	var left *sharding.UnfinishedError
	if errors.As(err, &left) {
		for _, h := range left.Handlers { // sharding.RunningHandler
			fmt.Println(h.Type, h.ID, "still runs, known stack:", h.Stack != "")
		}
	}
	close(wake)
	// Output:
	// report monthly still runs, known stack: true
}
