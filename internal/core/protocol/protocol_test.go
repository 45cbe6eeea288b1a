package protocol

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

// samples holds every message with every field set.
func samples() []Message {
	h := Head{Type: "counter", Term: 7<<32 | 3, View: 7<<32 | 4, Seq: 99, Probe: true}
	t1, t2 := Token{Term: 7<<32 | 3, Seq: 5}, Token{Term: 7<<32 | 3, Seq: 6}
	s := Settings{256, "backend", 150, 1<<63 | 9, "no state", Shapes{1 << 63, 7}}
	sts := []ShardToken{{1, t1}, {ShardsMax - 1, t2}}
	return []Message{
		&Register{h, true, s},
		&RegisterRefused{h, Conflict{"role", "a", "b"}},
		&GetHome{h, true, s, []ShardID{0, 5, ShardsMax - 1}},
		&ShardsHosted{h, sts},
		&BeginAck{h, sts},
		&Stopped{h, sts},
		&CensusReport{h, true, s, []Claim{{1, t1, ClaimHosted, 0}, {2, t2, ClaimStopping, 9}, {3, t1, ClaimStarting, 0}}, []Held{{3, t1, 8, 9, 7<<32 | 4, true}}},
		&Drain{h},
		&Refused{h},
		&Seen{h},
		&RegisterAck{h},
		&Homes{h, []Home{{1, 11, t1}, {2, 12, t2}}},
		&HostShards{h, []HostOrder{{1, t1, 0, Token{}}, {2, t2, 12, t1}}},
		&Begin{h, sts},
		&HandOff{h, 10 * time.Second, []HandOffOrder{{1, t1, t2, 12}}},
		&StoppedAck{h, sts},
		&CensusRequest{h, "backend"},
		&Declined{h, true, false}, &Declined{h, true, true},
		&Drained{h, 17},
		&Query{h, 3, 5, true, "ada", true, true},
		&Answer{h, 3, true, true, true, s, 7, true, []ShardLoad{{1, t1, 9}}, []Event{{7, -1, true, true, 11, t2, "kind", "detail"}},
			[]EntityState{{5, "ada", 61, 3, true, 512}}, `{"name": "a"}`},
	}
}

func TestEveryMessageSurvivesTheWire(t *testing.T) { wiretest.Check(t, &messages, samples()) }

func TestTheWireIsAsItWas(t *testing.T) {
	wiretest.Golden(t, &messages, samples())
}

func FuzzDecode(f *testing.F) { wiretest.Fuzz(f, &messages, samples(), nil) }

func TestMessagesHaveOneDirection(t *testing.T) {
	for _, m := range samples() {
		if IsQuery(m) == (m.messageKind() < kindQuery) {
			t.Errorf("%s: IsQuery says %v", Name(m), IsQuery(m))
		}
		if forRegion := m.messageKind() >= firstForRegion; ToCoordinator(m) == forRegion {
			t.Errorf("%s goes the wrong way", Name(m))
		}
		if Name(m) == "" {
			t.Errorf("%T has no name", m)
		}
	}
}

func TestLimitsAreRefused(t *testing.T) {
	var limit *wire.LimitError
	for _, m := range []Message{
		&GetHome{Shards: []ShardID{ShardsMax}},
		&GetHome{Shards: make([]ShardID, ShardsMax+1)},
		&CensusReport{Claims: []Claim{{State: 9}}},
		&CensusReport{Claims: []Claim{{}}},
		&HostShards{Shards: make([]HostOrder, HostOrdersMax+1)},
		&Register{Head: Head{Type: string(make([]byte, TypeBytesMax+1))}},
	} {
		if _, err := Decode(Append(nil, m)); !errors.As(err, &limit) {
			t.Errorf("%s: %v", Name(m), err)
		}
	}
	if _, err := Decode([]byte{250, 0, 0, 0, 0, 0}); !errors.Is(err, wire.ErrUnknownKind) {
		t.Errorf("unknown kind: %v", err)
	}
}

func TestSettingsAreCompared(t *testing.T) {
	mine := Settings{Shards: 256, Role: "a", Capacity: 1, Keeps: "no state"}
	for _, c := range []struct {
		theirs Settings
		want   string
	}{
		{Settings{256, "a", 9, 0, "", Shapes{}}, ""},
		{Settings{}, ""},
		{Settings{256, "a", 1, 0, "no state", Shapes{}}, ""},
		{Settings{128, "b", 1, 0, "", Shapes{}}, "number of shards is 256 here, 128 there"},
		{Settings{256, "", 1, 0, "", Shapes{}}, `role is "a" here, "" there`},
		{Settings{256, "a", 1, 0, "no state, remembered", Shapes{}}, "what is kept of entities is no state here, no state, remembered there"},
		{Settings{256, "a", 1, 7, "", Shapes{}}, "function from id to shard is the hash here, custom (0000000000000007) there"},
	} {
		got := mine.Compare(&c.theirs)
		if got == (Conflict{}) != (c.want == "") || c.want != "" && got.String() != c.want {
			t.Errorf("%+v: %v, want %q", c.theirs, got, c.want)
		}
		if back := c.theirs.Compare(&mine); back != got.Swap() {
			t.Errorf("%+v: the other side sees %v, not %v", c.theirs, back, got.Swap())
		}
	}
}

func TestShapesOfMessagesAreCompared(t *testing.T) {
	mine := Shapes{1, 2}
	for theirs, want := range map[Shapes]string{
		{1, 2}: "", {0, 0}: "", {1, 0}: "", {3, 2}: "requests", {0, 3}: "responses", {3, 3}: "requests and responses",
	} {
		if got := mine.Compare(theirs); got != want || theirs.Compare(mine) != want {
			t.Errorf("%v: %q, want %q", theirs, got, want)
		}
	}
	// They differ between versions of a program: no conflict.
	if got := (&Settings{Shards: 1, Messages: mine}).Compare(&Settings{Shards: 1, Messages: Shapes{5, 6}}); got != (Conflict{}) {
		t.Error(got)
	}
}

// A full report of the largest type fits a control frame of 1 MiB.
func TestTheLargestMessageFitsAFrame(t *testing.T) {
	report := &CensusReport{}
	for i := range ShardID(ShardsMax) {
		report.Claims = append(report.Claims, Claim{i, Token{Term: 1 << 63, Seq: 1 << 40}, ClaimStopping, 1 << 63})
	}
	for i := range HeldMax + 5 {
		report.Held = append(report.Held, Held{ShardID(ShardsMax - 1 - i), Token{Term: 1 << 63, Seq: 1 << 40}, 1 << 63, 1 << 63, 1 << 63, true})
	}
	if n := len(Append(nil, report)); n > 1<<20 {
		t.Errorf("a census report of %d shards has %d bytes", ShardsMax, n)
	}
	orders := &HostShards{}
	for i := range ShardID(HostOrdersMax) {
		orders.Shards = append(orders.Shards, HostOrder{i, Token{Term: 1 << 63, Seq: 1 << 63}, 1 << 63, Token{Term: 1 << 63, Seq: 1 << 63}})
	}
	if n := len(Append(nil, orders)); n > 1<<20 {
		t.Errorf("orders to start %d shards have %d bytes", len(orders.Shards), n)
	}
	stats := &Answer{}
	for i := range ShardID(ShardsMax) {
		stats.Shards = append(stats.Shards, ShardLoad{i, Token{Term: 1 << 63, Seq: 1 << 40}, 1 << 31})
	}
	history, text := &Answer{}, strings.Repeat("x", 1000)
	for range EventsMax + 5 {
		history.Events = append(history.Events, Event{Token: Token{Term: 1 << 63, Seq: 1 << 40}, Kind: text, Detail: text})
	}
	found := &Answer{Figures: strings.Repeat("x", FiguresBytesMax)}
	for range EntitiesMax {
		found.Entities = append(found.Entities, EntityState{ShardsMax - 1, strings.Repeat("x", EntityMax), 1 << 62, 1 << 62, true, 1 << 62})
	}
	for _, m := range []*Answer{stats, history, found} {
		if n := len(Append(nil, m)); n > 1<<20 {
			t.Errorf("an answer of %d shards and %d events has %d bytes", len(m.Shards), len(m.Events), n)
		}
		if _, err := Decode(Append(nil, m)); err != nil {
			t.Error(err)
		}
	}
}

func TestTokensAreOrderedByTermThenSeq(t *testing.T) {
	order := []Token{{}, {Term: 1, Seq: 0}, {Term: 1, Seq: 9}, {Term: 2, Seq: 1}, {Term: 1 << 32, Seq: 0}}
	for i, a := range order {
		for j, b := range order {
			if a.Less(b) != (i < j) || a.Max(b) != order[max(i, j)] {
				t.Errorf("%v and %v", a, b)
			}
		}
	}
}

func TestElect(t *testing.T) {
	m := func(id gossip.NodeID, s gossip.Status, roles ...string) gossip.Member {
		return gossip.Member{Node: gossip.Node{ID: id, Roles: roles}, Status: s}
	}
	for _, c := range []struct {
		name    string
		members []gossip.Member
		want    gossip.NodeID
	}{
		{"no members", nil, 0},
		{"the most senior", []gossip.Member{m(1, gossip.Up, "a"), m(2, gossip.Up, "a")}, 1},
		{"of the role", []gossip.Member{m(1, gossip.Up, "b"), m(2, gossip.Up, "a")}, 2},
		{"not one that joins", []gossip.Member{m(1, gossip.Joining, "a"), m(2, gossip.Up, "a")}, 2},
		{"not one that leaves", []gossip.Member{m(1, gossip.Leaving, "a"), m(2, gossip.Up, "a")}, 2},
		{"unless all leave", []gossip.Member{m(1, gossip.Joining, "a"), m(2, gossip.Leaving, "a"), m(3, gossip.Leaving, "a")}, 2},
		{"no member of the role", []gossip.Member{m(1, gossip.Up, "b")}, 0},
	} {
		if got := Elect(&gossip.View{Members: c.members}, "a"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if Elect(nil, "a") != 0 {
		t.Error("a coordinator elected without a view")
	}
}

func TestElectAmongThoseWhoDoNotDecline(t *testing.T) {
	v := &gossip.View{}
	for id, s := range []gossip.Status{gossip.Leaving, gossip.Up, gossip.Up, gossip.Joining, gossip.Leaving} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(id + 1)}, Status: s})
	}
	for _, c := range []struct {
		declined, missing []gossip.NodeID
		want              gossip.NodeID
		all               bool
	}{
		{nil, nil, 2, false},
		{[]gossip.NodeID{2}, nil, 3, false},
		{[]gossip.NodeID{3, 9}, nil, 2, false},
		{[]gossip.NodeID{3, 2}, nil, 1, false},
		{[]gossip.NodeID{1, 3, 2}, nil, 5, false},
		{[]gossip.NodeID{5, 1, 3, 2}, nil, 2, false},
		// When all decline it is the first that could.
		{[]gossip.NodeID{5, 1}, []gossip.NodeID{2}, 3, false},
		{[]gossip.NodeID{5, 1, 3}, []gossip.NodeID{2}, 3, false},
		{[]gossip.NodeID{5}, []gossip.NodeID{1, 2, 3}, 5, false},
		{nil, []gossip.NodeID{5, 3, 1}, 2, false},
		{nil, []gossip.NodeID{5, 3, 1, 2}, 2, true},
	} {
		var declined []Decliner
		for _, n := range c.declined {
			declined = append(declined, Decliner{Node: n})
		}
		for _, n := range c.missing {
			declined = append(declined, Decliner{Node: n, Missing: true})
		}
		e := Election{}
		e.BeginView(v)
		e.AddDeclines(declined...)
		if got, all := Elect(v, "", declined...), e.AllMissing(); got != c.want || all != c.all {
			t.Errorf("without %v: %v, all lack the type %v, want %v, %v", declined, got, all, c.want, c.all)
		}
	}
}
