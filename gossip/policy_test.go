package gossip

import (
	"errors"
	"strings"
	"testing"
)

// broken is a policy that violates each requirement somewhere.
type broken func(voters, yes int) bool

func (broken) String() string                         { return "broken" }
func (broken) Survives(*View, func(NodeID) bool) bool { return true }
func (p broken) Quorum(v *View, in func(NodeID) bool) bool {
	voters, yes, _ := countVoters(v, in)
	return p(voters, yes)
}

// viewOf returns a view whose members have the statuses of a word: u, j or l.
func viewOf(word string) *View {
	v := &View{Cluster: 1, Epoch: FirstEpoch(1)}
	for i, r := range word {
		v.Members = append(v.Members, Member{Node: Node{ID: NodeID(i + 1)}, Status: map[rune]Status{'u': Up, 'j': Joining, 'l': Leaving}[r]})
	}
	return v
}

func TestBrokenPoliciesAreCaught(t *testing.T) {
	for why, p := range map[string]broken{
		"no voter in common":        func(voters, yes int) bool { return yes >= voters/2 },
		"but the larger is not":     func(voters, yes int) bool { return yes == voters/2+1 || yes == voters },
		"all voters are not enough": func(voters, yes int) bool { return false },
	} {
		err := VerifyPolicy(p, viewOf("uuuuu"))
		var e *PolicyError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// A takeover's epoch is above those of a generation opened in order, below the next
// generation, and of the same generation.
func TestTakeoverEpoch(t *testing.T) {
	e := TakeoverEpoch(7)
	if e.Generation() != 7 || e <= FirstEpoch(7)+65534 || e >= FirstEpoch(8) {
		t.Errorf("the takeover opens %v", e)
	}
}
