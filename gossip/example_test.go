package gossip_test

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func of(n int) *gossip.View {
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	for id := 1; id <= n; id++ {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(id), Name: fmt.Sprint("n", id)}, Joined: v.Epoch, Status: gossip.Up})
	}
	return v
}

func these(ids ...gossip.NodeID) func(gossip.NodeID) bool {
	return func(id gossip.NodeID) bool {
		for _, x := range ids {
			if x == id {
				return true
			}
		}
		return false
	}
}

func ExampleKeepMajority() {
	p := gossip.KeepMajority{}
	fmt.Println(p.Quorum(of(4), these(3, 4)), p.Quorum(of(4), these(1, 4)), p.Quorum(of(5), these(3, 4, 5)))
	// Output: false true true
}

func ExampleStaticQuorum() {
	p := gossip.StaticQuorum{N: 4}
	fmt.Println(p.Quorum(of(5), these(1, 2, 3)), p.Quorum(of(5), these(2, 3, 4, 5)))
	// Output: false true
}

func ExampleKeepOldest() {
	p := gossip.KeepOldest{}
	fmt.Println(p.Quorum(of(5), these(1, 2)), p.Quorum(of(5), these(3, 4, 5)), p.Quorum(of(5), these(2, 3, 4, 5)))
	// Output: true false true
}

func ExampleAssumeCrash() {
	fmt.Println(gossip.AssumeCrash{After: 10 * time.Second})
	// Output: assume crash after 10s
}

// anyTwo is a policy that lets two parts act at the same time.
type anyTwo struct{ gossip.KeepMajority }

func (anyTwo) Quorum(v *gossip.View, in func(gossip.NodeID) bool) bool {
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
	fmt.Println(gossip.VerifyPolicy(gossip.KeepMajority{}, of(4)))
	err := gossip.VerifyPolicy(anyTwo{}, of(4)).(*gossip.PolicyError)
	fmt.Println(len(err.A), len(err.B), err.Why)
	// Output:
	// <nil>
	// 2 2 both are enough, but they have no voter in common
}

func ExampleView() {
	v := of(3)
	v.Members[1].Roles = []string{"billing"}
	v.Out = []gossip.Departure{{ID: 9, Cause: gossip.CauseDead, Evidence: "refused"}}
	fmt.Println(v.Epoch, v.Oldest("").Name, v.Oldest("billing").Name, v.Member(3).Name, v.Member(4) == nil)
	fmt.Println(v.Out[0].Cause, v.Out[0].Evidence)
	// Output:
	// 1.1 n1 n2 n3 true
	// dead refused
}

// Of two clusters of one name, the one that had more voters continues; of two equal ones
// the older.
func ExampleStanding() {
	three := gossip.Standing{Peak: 3, Birth: gossip.FirstEpoch(200)}
	fresh := gossip.Standing{Peak: 1, Birth: gossip.FirstEpoch(100)}
	old := gossip.Standing{Peak: 1, Birth: gossip.FirstEpoch(50)}
	fmt.Println(three.Above(7, fresh, 8), fresh.Above(8, old, 9), fresh)
	// Output: true false at most 1 voters at a time, formed in 100.1
}
