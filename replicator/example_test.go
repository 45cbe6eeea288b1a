package replicator_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/replicator"
)

// The code of an error gives the reaction; its fields are the particulars.
func ExampleError() {
	// A service reads with ddata.Get, which returns the same errors.
	alone := replica.New(replica.Config{Self: 1})
	defer alone.Close()
	alone.SetView(&gossip.View{Epoch: gossip.FirstEpoch(1), Members: []gossip.Member{{Node: gossip.Node{ID: 1}, Status: gossip.Up}}})

	_, err := alone.Get(context.Background(), []string{"users"}, replicator.To(3))
	fmt.Println(errors.Is(err, replicator.ErrTooFewMembers), replicator.Retryable(err), replicator.OutcomeUnknown(err))
	var e *replicator.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code == replicator.ErrTooFewMembers, e.Need, e.Got)
	}
	// Output:
	// true false false
	// true 3 1
}
