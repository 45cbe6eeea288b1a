package view_test

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

func of(n int) *view.View {
	v := &view.View{Cluster: 1, Epoch: view.FirstEpoch(1)}
	for id := 1; id <= n; id++ {
		v.Members = append(v.Members, view.Member{Node: view.Node{ID: view.NodeID(id), Name: fmt.Sprint("n", id)}, Joined: v.Epoch, Status: view.Up})
	}
	return v
}

func these(ids ...view.NodeID) func(view.NodeID) bool {
	return func(id view.NodeID) bool {
		for _, x := range ids {
			if x == id {
				return true
			}
		}
		return false
	}
}

func ExampleKeepMajority() {
	p := view.KeepMajority{}
	fmt.Println(p.Quorum(of(4), these(3, 4)), p.Quorum(of(4), these(1, 4)), p.Quorum(of(5), these(3, 4, 5)))
	// Output: false true true
}

func ExampleStaticQuorum() {
	p := view.StaticQuorum{N: 4}
	fmt.Println(p.Quorum(of(5), these(1, 2, 3)), p.Quorum(of(5), these(2, 3, 4, 5)))
	// Output: false true
}

func ExampleKeepOldest() {
	p := view.KeepOldest{}
	fmt.Println(p.Quorum(of(5), these(1, 2)), p.Quorum(of(5), these(3, 4, 5)), p.Quorum(of(5), these(2, 3, 4, 5)))
	// Output: true false true
}

func ExampleAssumeCrash() {
	fmt.Println(view.AssumeCrash{After: 10 * time.Second})
	// Output: assume crash after 10s
}

// anyTwo is a policy that lets two parts act at the same time.
type anyTwo struct{ view.KeepMajority }

func (anyTwo) Quorum(v *view.View, in func(view.NodeID) bool) bool {
	n := 0
	for i := range v.Members {
		if in(v.Members[i].ID) {
			n++
		}
	}
	return n >= 2
}

// Check a policy of the application before a cluster runs with it.
func ExampleVerifyPolicy() {
	fmt.Println(view.VerifyPolicy(view.KeepMajority{}, of(4)))
	err := view.VerifyPolicy(anyTwo{}, of(4)).(*view.PolicyError)
	fmt.Println(len(err.A), len(err.B), err.Why)
	// Output:
	// <nil>
	// 2 2 both are enough, but they have no voter in common
}

// A core is stepped by events, and returns the actions that the shell must perform.
func ExampleCore() {
	c := view.New(view.Config{
		Self: view.Node{ID: 1, Name: "a"}, Ping: 100 * time.Millisecond, Lease: time.Second, RemoveAfter: 2 * time.Second,
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
	m, err := view.Decode(view.Append(nil, &view.Decided{View: view.Whole(of(2))}))
	fmt.Println(m.(*view.Decided).View.Members[1].Name, err)
	_, err = view.Decode([]byte{99})
	fmt.Println(err)
	// Output:
	// n2 <nil>
	// view: unknown message
}

func ExampleView() {
	v := of(3)
	v.Members[1].Roles = []string{"billing"}
	v.Out = []view.Departure{{ID: 9, Cause: view.CauseDead, Evidence: "refused"}}
	fmt.Println(v.Epoch, v.Oldest("").Name, v.Oldest("billing").Name, v.Member(3).Name, v.Member(4) == nil)
	fmt.Println(v.Out[0].Cause, v.Out[0].Evidence)
	// Output:
	// 1.1 n1 n2 n3 true
	// dead refused
}

// Of two clusters of one name, the one that had more voters continues; of two equal ones
// the older.
func ExampleStanding() {
	three := view.Standing{Peak: 3, Birth: view.FirstEpoch(200)}
	fresh := view.Standing{Peak: 1, Birth: view.FirstEpoch(100)}
	old := view.Standing{Peak: 1, Birth: view.FirstEpoch(50)}
	fmt.Println(three.Above(7, fresh, 8), fresh.Above(8, old, 9), fresh)
	// Output: true false at most 1 voters at a time, formed in 100.1
}
