package protocol

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// Each token of a message is seen: a term or a number that a message must not name is found
// wherever it stands.
func TestEveryTokenOfAMessageIsSeen(t *testing.T) {
	far := Token{Term: 99, Seq: 7}
	in := []ShardToken{{1, Token{Term: 3}}, {2, far}}
	h := Head{Term: 5}
	for name, m := range map[string]Message{
		"ShardsHosted":        &ShardsHosted{h, in},
		"BeginAck":            &BeginAck{h, in},
		"Stopped":             &Stopped{h, in},
		"Begin":               &Begin{h, in},
		"StoppedAck":          &StoppedAck{h, in},
		"CensusReport claims": &CensusReport{Head: h, Claims: []Claim{{}, {Token: far}}},
		"CensusReport held":   &CensusReport{Head: h, Held: []Held{{}, {Token: far}}},
		"Homes":               &Homes{h, []Home{{}, {Token: far}}},
		"HostShards":          &HostShards{h, []HostOrder{{}, {Token: far}}},
		"HostShards ended":    &HostShards{h, []HostOrder{{}, {Ended: far}}},
		"HandOff":             &HandOff{Head: h, Shards: []HandOffOrder{{}, {Token: far}}},
		"HandOff move":        &HandOff{Head: h, Shards: []HandOffOrder{{}, {Move: far}}},
	} {
		var seen []Token
		EachToken(m, func(t Token) { seen = append(seen, t) })
		if !slices.Contains(seen, far) {
			t.Errorf("%s: sees %v", name, seen)
		}
		if got := NewestTerm(m); got != far.Term {
			t.Errorf("%s: the newest term is %v", name, got)
		}
	}
	for _, m := range []Message{&Drain{h}, &ShardsHosted{h, in[:1]}} {
		if got := NewestTerm(m); got != h.Term {
			t.Errorf("%s: the newest term is %v, want that of its head", Name(m), got)
		}
	}
}

// Only the zero token stands for no allocation.
func TestOnlyTheZeroTokenIsZero(t *testing.T) {
	for _, tok := range []Token{{}, {Term: 1}, {Seq: 1}} {
		if tok.IsZero() != (tok == Token{}) {
			t.Errorf("%v is zero: %v", tok, tok.IsZero())
		}
	}
}

// A decline binds only if the node that asked can take office instead: it is a candidate, and
// runs the type.
func TestADeclineBindsForACandidateThatRunsTheType(t *testing.T) {
	v := &gossip.View{Epoch: 4, Members: []gossip.Member{
		{Node: gossip.Node{ID: 1, Roles: []string{"back"}}, Status: gossip.Up},
		{Node: gossip.Node{ID: 2}, Status: gossip.Up},
	}}
	for _, c := range []struct {
		name   string
		from   gossip.NodeID
		shards uint32
		binds  bool
	}{
		{"a candidate that runs the type", 1, 8, true},
		{"a candidate that does not", 1, 0, false},
		{"no candidate", 2, 8, false},
	} {
		r := &Register{Head: Head{Type: "counter", View: 3}, Settings: Settings{Role: "back", Shards: c.shards}}
		if d := DeclineMissing(v, c.from, r); *d != (Declined{Head: Head{Type: "counter", View: 4}, Missing: true, Unbound: !c.binds}) {
			t.Errorf("%s: %+v", c.name, *d)
		}
	}
}
