package view_test

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
)

// A core is stepped by events, and returns the actions that the shell must perform.
func ExampleCore() {
	c := view.New(view.Config{
		Self: gossip.Node{ID: 1, Name: "a"}, Ping: 100 * time.Millisecond, Lease: time.Second, RemoveAfter: 2 * time.Second,
	}, clock.Instant(1))
	var out view.Effects
	now := clock.Instant(1)
	c.Step(now, view.Form{Generation: 7}, &out)
	for c.Lease().Until == 0 { // no other node has to answer
		now = max(now, c.Deadline())
		c.Step(now, view.Tick{}, &out)
	}
	fmt.Println(c.View().Epoch, len(c.View().Members), c.Lease().Valid(now), c.Lease().Leader)
	// Output: 7.1 1 true true
}

// Views and messages are sent as frames.
func ExampleDecode() {
	m, err := view.Decode(view.Append(nil, &view.Decided{View: view.Whole(&gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1), Members: []gossip.Member{{Node: gossip.Node{ID: 2, Name: "n2"}, Status: gossip.Up}}})}))
	fmt.Println(m.(*view.Decided).View.Members[0].Name, err)
	_, err = view.Decode([]byte{99})
	fmt.Println(err)
	// Output:
	// n2 <nil>
	// wire: message of an unknown kind
}
