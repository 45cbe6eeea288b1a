package standby

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
)

func tokenOf(seq uint64) protocol.Token { return protocol.Token{Term: 1, Seq: seq} }

// The shell's buffer is emptied for the next steps: it keeps its memory and nothing in it.
func TestEffectsAreReset(t *testing.T) {
	e := Effects{Do: []Effect{Kept{}}}
	if e.Reset(); len(e.Do) != 0 || cap(e.Do) != 1 || e.Do[:1][0] != nil {
		t.Errorf("%+v", e)
	}
}

// Settings that are left out have their defaults; others stay as they are.
func TestSettingsHaveDefaults(t *testing.T) {
	want := Config{Mode: Quorum, Replicas: 1, Resend: 200 * time.Millisecond, Grace: 500 * time.Millisecond, BytesMax: 1 << 30, PageBytes: 256 << 10}
	if got := New(Config{}).cfg; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	set := Config{Self: 1, Type: "t", Role: "r", Mode: Async, Replicas: 3, Resend: 1, Grace: 2, BytesMax: 3, PageBytes: 4}
	if got := New(set).cfg; got != set {
		t.Errorf("%+v, want %+v", got, set)
	}
}

// Of two layouts, the one of the later owner counts, then the later one of that owner, then the
// active one.
func TestLayoutsAreOrdered(t *testing.T) {
	ordered := []Layout{
		{}, {Token: tokenOf(1)}, {Token: tokenOf(1), Active: true}, {Token: tokenOf(1), Seq: 1}, {Token: tokenOf(1), Seq: 1, Active: true},
		{Token: tokenOf(1), Seq: 2}, {Token: tokenOf(2)}, {Token: tokenOf(2), Seq: 1},
	}
	for i := range ordered {
		for j := range ordered {
			if got := ordered[i].newer(&ordered[j]); got != (i > j) {
				t.Errorf("%+v is newer than %+v: %v", ordered[i], ordered[j], got)
			}
		}
	}
}

// Acknowledgements rest on the members of a layout, and on former sets until it is active.
func TestALayoutRestsOnItsSets(t *testing.T) {
	now, before := []gossip.NodeID{1, 2, 3}, [][]gossip.NodeID{{4, 5}, {6}}
	for _, c := range []struct {
		l    Layout
		want int
	}{{Layout{}, 0}, {Layout{Members: now, Before: before}, 3}, {Layout{Members: now, Before: before, Active: true}, 1}} {
		if got := c.l.sets(); len(got) != c.want || c.want > 0 && !slices.Equal(got[0], now) {
			t.Errorf("%+v rests on %v", c.l, got)
		}
	}
}

// So many answers have one of every quorum among them. In Async mode, only the former home may be
// missing.
func TestAnswersMeetEveryQuorum(t *testing.T) {
	for n, want := range []struct{ quorum, answers, async int }{1: {1, 1, 1}, 2: {2, 1, 1}, 3: {2, 2, 2}, 4: {3, 2, 3}, 5: {3, 3, 4}} {
		if n == 0 {
			continue
		}
		if q, a, async := quorum(n), answersNeeded(Quorum, n), answersNeeded(Async, n); q != want.quorum || a != want.answers || async != want.async {
			t.Errorf("of %d: quorum %d, answers %d and %d, want %+v", n, q, a, async, want)
		}
	}
}

// A node confirms a layout by that layout or a later one. Without being active it confirms no
// active one.
func TestALayoutIsConfirmedByItsNumber(t *testing.T) {
	for _, c := range []struct {
		n    *notice
		l    Layout
		want bool
	}{
		{nil, Layout{}, false},
		{&notice{seq: 1}, Layout{Seq: 2}, false},
		{&notice{seq: 2}, Layout{Seq: 2}, true},
		{&notice{seq: 2}, Layout{Seq: 2, Active: true}, false},
		{&notice{seq: 2, active: true}, Layout{Seq: 2, Active: true}, true},
		{&notice{seq: 2, active: true}, Layout{Seq: 3}, false},
		{&notice{seq: 3}, Layout{Seq: 2, Active: true}, true},
	} {
		if got := c.n.confirms(&c.l); got != c.want {
			t.Errorf("%+v confirms %+v: %v", c.n, c.l, got)
		}
	}
}

// A later announcement never takes back what an earlier one confirmed.
func TestConfirmationsDoNotGoBack(t *testing.T) {
	o := newOwner(New(Config{Self: 1}), 0, tokenOf(1))
	o.announced(2, Announced{Seq: 1}) // nothing was announced to it
	n := &notice{}
	o.notices[2] = n
	for _, c := range []struct {
		m      Announced
		seq    uint64
		active bool
	}{
		{Announced{Seq: 2, Active: true}, 2, true},
		{Announced{Seq: 1}, 2, true},
		{Announced{Seq: 2}, 2, true},
		{Announced{Seq: 3}, 3, false},
		{Announced{Seq: 3, Active: true}, 3, true},
	} {
		if o.announced(2, c.m); n.seq != c.seq || n.active != c.active {
			t.Errorf("after %+v: %+v", c.m, *n)
		}
	}
}

// A layout that is active and has not this node ends what the node keeps for older ones.
func TestALayoutEndsWhatOlderOnesBegan(t *testing.T) {
	for _, c := range []struct {
		l    Layout
		t    uint64
		seq  uint64
		want bool
	}{
		{Layout{Token: tokenOf(2), Seq: 5, Active: true, Members: []gossip.NodeID{1}}, 2, 5, true},
		{Layout{Token: tokenOf(2), Seq: 5, Active: true, Members: []gossip.NodeID{1}}, 2, 6, false},
		{Layout{Token: tokenOf(2), Seq: 5, Active: true, Members: []gossip.NodeID{1}}, 1, 9, true},
		{Layout{Token: tokenOf(2), Seq: 5, Active: true, Members: []gossip.NodeID{1}}, 3, 1, false},
		{Layout{Token: tokenOf(2), Seq: 5, Members: []gossip.NodeID{1}}, 2, 5, false},
		{Layout{Token: tokenOf(2), Seq: 5, Active: true, Members: []gossip.NodeID{1, 7}}, 2, 5, false},
	} {
		h := holder{layout: c.l}
		if got := h.outside(7, tokenOf(c.t), c.seq); got != c.want {
			t.Errorf("%+v ends what %d/%d began: %v", c.l, c.t, c.seq, got)
		}
	}
}

// An address has the host before its last colon, in brackets too; a name without a port has none
// to tell nodes apart by.
func TestHostsOfAddresses(t *testing.T) {
	for addr, want := range map[string]string{"a:7000": "a", "10.0.0.1:1": "10.0.0.1", "[::1]:7000": "[::1]", ":7000": "", "": "", "a": "a"} {
		if got := hostOf(addr); got != want {
			t.Errorf("%q is on host %q, want %q", addr, got, want)
		}
	}
}

// TestChooseSpreadsCopiesOverZones checks that members of zones without a copy go first, then hosts
// without a copy, whatever their hashes, and that a member without a zone gets a copy only when no zone
// is left.
func TestChooseSpreadsCopiesOverZones(t *testing.T) {
	for _, c := range []struct {
		zones, hosts []string // of members 1, 2, ...; 1 is the owner
		replicas     int
		want         [][]gossip.NodeID // the possible choices, sorted
	}{
		{[]string{"a", "a", "a", "b", "c"}, []string{"1", "2", "3", "4", "5"}, 3, [][]gossip.NodeID{{1, 4, 5}}},
		{[]string{"a", "a", "b", "b", "c"}, []string{"1", "2", "3", "4", "5"}, 3, [][]gossip.NodeID{{1, 3, 5}, {1, 4, 5}}},
		{[]string{"a", "a", "b", "b"}, []string{"1", "1", "2", "2"}, 3, [][]gossip.NodeID{{1, 2, 3}, {1, 2, 4}, {1, 3, 4}}},
		{[]string{"a", "a", "a", "b"}, []string{"1", "1", "2", "1"}, 3, [][]gossip.NodeID{{1, 3, 4}}},
		{[]string{"", "", "", ""}, []string{"1", "1", "2", "3"}, 3, [][]gossip.NodeID{{1, 3, 4}}},
		{[]string{"a", "", "b"}, []string{"1", "2", "3"}, 2, [][]gossip.NodeID{{1, 3}}},
		{[]string{"a", "", "a"}, []string{"1", "2", "1"}, 2, [][]gossip.NodeID{{1, 2}}},
	} {
		v := &gossip.View{Epoch: 1}
		for i, zone := range c.zones {
			v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1), Zone: zone, Addr: c.hosts[i] + ":1"}, Status: gossip.Up})
		}
		for shard := range protocol.ShardID(100) {
			got := Choose(v, "", "t", shard, 1, c.replicas)
			if got[0] != 1 {
				t.Fatalf("zones %v: the owner is not the first of %v", c.zones, got)
			}
			slices.Sort(got)
			if !slices.ContainsFunc(c.want, func(w []gossip.NodeID) bool { return slices.Equal(w, got) }) {
				t.Fatalf("zones %v, hosts %v, shard %d: chooses %v, want one of %v", c.zones, c.hosts, shard, got, c.want)
			}
		}
	}
}

// TestWeightsStayAsTheyAre checks that the weights by which an owner chooses holders are those of earlier versions: while nodes
// of two versions run, a shard that gets an owner of the other one would copy its states to other nodes.
func TestWeightsStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		typ   string
		shard protocol.ShardID
		node  gossip.NodeID
		want  uint64
	}{{"t", 7, 3, 0x685be322c854a469}, {"t", 8, 3, 0xb7f2e14921008752}, {"counter", 7, 4, 0x2b096d9e9552f797}} {
		if got := weigh(c.typ, c.shard, c.node); got != c.want {
			t.Errorf("%q, shard %d, node %d: %#x, want %#x", c.typ, c.shard, c.node, got, c.want)
		}
	}
}

// Holders on hosts without a copy go first, and members that are not up are none.
func TestChooseSkipsMembersThatAreNotUp(t *testing.T) {
	v := &gossip.View{Epoch: 1}
	for i, status := range []gossip.Status{gossip.Up, gossip.Joining, gossip.Leaving, gossip.Up} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1), Addr: "same:1"}, Status: status})
	}
	if got := Choose(v, "", "t", 0, 1, 3); !slices.Equal(got, []gossip.NodeID{1, 4}) {
		t.Errorf("chooses %v", got)
	}
	if got := Choose(v, "", "t", 0, 1, 1); !slices.Equal(got, []gossip.NodeID{1}) {
		t.Errorf("one replica: %v", got)
	}
}

// Frames beyond the bounds are rejected, and those at them are not.
func TestFramesAreBounded(t *testing.T) {
	set := func(n int) []gossip.NodeID { return make([]gossip.NodeID, n) }
	for name, c := range map[string]struct {
		m    Message
		fits bool
	}{
		"the last shard":        {Collect{Shard: protocol.ShardsMax - 1}, true},
		"a shard too many":      {Collect{Shard: protocol.ShardsMax}, false},
		"the longest id":        {Collect{After: string(make([]byte, idBytesMax))}, true},
		"a longer id":           {Collect{After: string(make([]byte, idBytesMax+1))}, false},
		"all members":           {Announce{Layout: Layout{Members: set(membersMax)}}, true},
		"a member too many":     {Announce{Layout: Layout{Members: set(membersMax + 1)}}, false},
		"all former sets":       {Announce{Layout: Layout{Before: make([][]gossip.NodeID, beforeMax+1)}}, true},
		"a former set too many": {Announce{Layout: Layout{Before: make([][]gossip.NodeID, beforeMax+2)}}, false},
	} {
		var limit *wire.LimitError
		if _, err := Decode(Append(nil, c.m)); (err == nil) != c.fits || err != nil && !errors.As(err, &limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decode(append([]byte{250}, Append(nil, Collect{})[1:]...)); !errors.Is(err, wire.ErrUnknownKind) {
		t.Errorf("an unknown kind: %v", err)
	}
}

// A holder refuses an allocation that has ended, and counts the refusal.
func TestAHolderRefusesAnEarlierAllocation(t *testing.T) {
	c := New(Config{Self: 2})
	receive := func(m Message) []Effect {
		out := &Effects{}
		c.Step(1, Received{From: 1, Msg: m}, out)
		return out.Do
	}
	receive(Collect{Shard: 4, Token: tokenOf(5)})
	for _, m := range []Message{Collect{Shard: 4, Token: tokenOf(4)}, Write{Shard: 4, Token: tokenOf(4)}, Announce{Shard: 4, Token: tokenOf(4)}} {
		got := receive(m)
		if len(got) != 2 || got[0] != (Refusal{Shard: 4, From: 1}) || got[1] != (Send{To: 1, Msg: Refused{Shard: 4, Token: tokenOf(4), Fence: tokenOf(5)}}) {
			t.Errorf("%T: does %+v", m, got)
		}
	}
	if got := receive(Collect{Shard: 4, Token: tokenOf(5)}); len(got) != 1 {
		t.Errorf("the same allocation again: %+v", got)
	}
	if c.Standby() != 0 {
		t.Errorf("a standby of %d shards without copies", c.Standby())
	}
	receive(Write{Shard: 4, Token: tokenOf(5), Copies: []Copy{{ID: "a", Tag: Tag{Token: tokenOf(5), Version: 1}}}})
	if c.Standby() != 1 {
		t.Errorf("a standby of %d shards", c.Standby())
	}
}
