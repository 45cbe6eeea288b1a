package standby

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// The grace period ends before the first retransmission.
const (
	stepGrace  = 300 * time.Millisecond
	stepResend = time.Second
)

// scripted is a Core on node 1 that is stepped by hand.
type scripted struct {
	t   *testing.T
	c   *Core
	now clock.Instant
}

func newScripted(t *testing.T, members ...gossip.NodeID) *scripted {
	s := &scripted{t: t, now: 1000, c: New(Config{Self: 1, Type: "t", Replicas: 3, Resend: stepResend, Grace: stepGrace, PageBytes: 4 * copyBytes})}
	s.c.Step(s.now, viewOf(1, members...), &Effects{})
	return s
}

func viewOf(epoch gossip.Epoch, members ...gossip.NodeID) ViewChanged {
	v := &gossip.View{Epoch: epoch}
	for _, id := range members {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	return ViewChanged{View: v}
}

// step performs a step and describes its effects.
func (s *scripted) step(ev Event) string {
	s.t.Helper()
	out := &Effects{}
	s.c.Step(s.now, ev, out)
	var all []string
	for _, e := range out.Do {
		switch e := e.(type) {
		case Send:
			all = append(all, describeMessage(e.Msg)+fmt.Sprintf(" to %d", e.To))
		case Ready:
			all = append(all, fmt.Sprintf("ready with %v, short %v", slices.Sorted(maps.Keys(e.Copies)), e.Short))
		case Kept:
			all = append(all, fmt.Sprintf("kept %s %d", e.ID, e.Version))
		default:
			all = append(all, strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "standby.")))
		}
	}
	return strings.Join(all, "; ")
}

func describeMessage(m Message) string {
	switch m := m.(type) {
	case Collect:
		return fmt.Sprintf("collect after %q", m.After)
	case Write:
		var ids []string
		for _, cp := range m.Copies {
			ids = append(ids, cp.ID)
		}
		return fmt.Sprintf("write %d/%d of %v", m.Stream, m.Seq, ids)
	case Announce:
		return fmt.Sprintf("announce %d %v active %v", m.Layout.Seq, m.Layout.Members, m.Layout.Active)
	}
	return fmt.Sprintf("%T", m)
}

func (s *scripted) expect(what, want string, ev Event) {
	s.t.Helper()
	if got := s.step(ev); got != want {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// after moves the clock on.
func (s *scripted) after(d time.Duration) { s.now = s.now.Add(d) }

// held is an answer to the collection under token 5.
func held(from gossip.NodeID, m Held) Received {
	m.Token = tokenOf(5)
	return Received{From: from, Msg: m}
}

func copyOf(id string, version uint64) Copy {
	return Copy{ID: id, Tag: Tag{Token: tokenOf(1), Version: version}}
}

// started returns the home of a shard that had no state.
func started(t *testing.T, members ...gossip.NodeID) *scripted {
	s := newScripted(t, members...)
	s.step(Begin{Token: tokenOf(5)})
	for _, id := range members {
		s.step(held(id, Held{}))
	}
	return s
}

// A shard without state starts when all members have answered, and writes nothing.
func TestAShardWithoutStateStarts(t *testing.T) {
	s := newScripted(t, 1, 2, 3)
	s.expect("begin", `collect after "" to 1; collect after "" to 2; collect after "" to 3`, Begin{Token: tokenOf(5)})
	s.expect("the same again", "", Begin{Token: tokenOf(5)})
	s.expect("an older allocation", "", Begin{Token: tokenOf(4)})
	s.expect("member 1", "", held(1, Held{}))
	s.expect("member 2", "", held(2, Held{}))
	s.expect("member 2 again", "", held(2, Held{}))
	s.expect("an answer of a node that was not asked", "", held(9, Held{}))
	s.expect("an answer to an older allocation", "", Received{From: 3, Msg: Held{Token: tokenOf(4)}})
	s.expect("member 3", "ready with [], short false", held(3, Held{}))
	s.after(time.Minute)
	s.expect("a tick", "", Tick{})
	s.expect("a view", "", viewOf(2, 1, 2, 3, 4))
}

// Only members that are present and have not answered are asked again, when that is due.
func TestACollectionAsksAgain(t *testing.T) {
	s := newScripted(t, 1, 2, 3, 4)
	s.step(Begin{Token: tokenOf(5)})
	s.step(held(1, Held{}))
	s.step(held(2, Held{}))
	if s.c.Deadline() != s.now.Add(stepResend) {
		t.Errorf("a tick is due after %v", s.c.Deadline().Sub(s.now))
	}
	s.after(stepResend - 1)
	s.expect("too early", "", Tick{})
	s.after(1)
	s.expect("3 and 4 are late", `collect after "" to 3; collect after "" to 4`, Tick{})
	s.expect("4 leaves, 5 joins", `collect after "" to 5`, viewOf(2, 1, 2, 3, 5))
	s.after(time.Minute)
	s.expect("3 and 5 are late", `collect after "" to 3; collect after "" to 5`, Tick{})
	s.expect("5 answers", "", held(5, Held{}))
	s.expect("3 leaves", "ready with [], short false", viewOf(3, 1, 2, 5))
}

// Copies arrive in pages. Each is asked for behind the last id of the one before.
func TestCopiesAreCollectedInPages(t *testing.T) {
	s := newScripted(t, 1, 2)
	s.step(Begin{Token: tokenOf(5)})
	s.step(held(1, Held{}))
	first := Held{Copies: []Copy{copyOf("b", 1), copyOf("a", 1)}, More: true}
	s.expect("a page", `collect after "b" to 2`, held(2, first))
	s.expect("the page again", "", held(2, first))
	s.expect("an empty page with more behind it", "", held(2, Held{After: "b", More: true}))
	// Node 2 has all of it, so writes go to this node alone.
	got := s.step(held(2, Held{After: "b", Copies: []Copy{copyOf("c", 2)}}))
	if o := s.c.owners[0]; len(o.entries) != 3 || o.asks != nil || !strings.Contains(got, "write") || strings.Contains(got, "to 2") {
		t.Errorf("the last page: %q", got)
	}
}

// Of the copies of an entity, the one with the newest tag counts.
func TestTheNewestCopyCounts(t *testing.T) {
	for _, versions := range [][2]uint64{{1, 2}, {2, 1}, {2, 2}} {
		s := newScripted(t, 1, 2)
		s.step(Begin{Token: tokenOf(5)})
		s.step(held(1, Held{Copies: []Copy{copyOf("a", versions[0])}}))
		s.step(held(2, Held{Copies: []Copy{copyOf("a", versions[1])}}))
		if got := s.c.owners[0].entries["a"].Tag.Version; got != 2 {
			t.Errorf("of versions %v counts %d", versions, got)
		}
	}
}

// A collection that has enough answers waits for the remaining ones for the grace period.
// Enough are those of the node itself, and of so many holders that each quorum has one of them.
func TestACollectionWaitsForLateAnswers(t *testing.T) {
	layout := Layout{Token: tokenOf(1), Seq: 4, Active: true, Members: []gossip.NodeID{2, 3, 4}}
	answer := Held{Layout: layout, Copies: []Copy{copyOf("a", 1)}}
	begin := func(t *testing.T, from ...gossip.NodeID) *scripted {
		s := newScripted(t, 1, 2, 3, 4)
		s.step(Begin{Token: tokenOf(5)})
		for _, id := range from {
			m := answer
			if id == 1 {
				m = Held{}
			}
			if got := s.step(held(id, m)); got != "" {
				t.Errorf("answer of %d: %q", id, got)
			}
		}
		return s
	}
	ended := func(s *scripted) bool { return s.c.owners[0].asks == nil }

	s := begin(t, 1, 2, 3)
	if s.c.Deadline() != s.now.Add(stepGrace) {
		t.Errorf("a tick is due after %v", s.c.Deadline().Sub(s.now))
	}
	s.after(stepGrace - 1)
	if s.step(Tick{}); ended(s) || s.c.Deadline() != s.now.Add(1) {
		t.Error("ends before the grace period")
	}
	s.after(1)
	if s.step(Tick{}); !ended(s) || s.c.owners[0].short {
		t.Errorf("after the grace period: over %v, short %v", ended(s), s.c.owners[0].short)
	}

	for name, from := range map[string][]gossip.NodeID{"without its own answer": {2, 3}, "with too few holders": {1, 2}, "without a holder": {1}} {
		s := begin(t, from...)
		s.after(stepGrace)
		s.step(Tick{})
		s.after(stepGrace)
		if s.step(Tick{}); ended(s) {
			t.Errorf("a collection ends %s", name)
		}
	}

	s = begin(t, 1, 2)
	s.step(viewOf(2, 1, 2))
	if !ended(s) || !s.c.owners[0].short {
		t.Errorf("the other holders are gone: over %v, short %v", ended(s), s.c.owners[0].short)
	}

	s = begin(t, 1, 2, 3)
	if s.step(held(4, answer)); !ended(s) {
		t.Error("all have answered, and it goes on")
	}
}

// A layout whose list of former sets was cut needs the answers of all members.
func TestACutLayoutNeedsAllAnswers(t *testing.T) {
	for n, want := range map[int]bool{beforeMax: true, beforeMax + 1: false} {
		o := newOwner(New(Config{Self: 1}), 0, tokenOf(1))
		o.seen = Layout{Members: []gossip.NodeID{1}, Before: slices.Repeat([][]gossip.NodeID{{1}}, n)}
		if got := o.satisfied(func(gossip.NodeID) bool { return true }); got != want {
			t.Errorf("%d former sets: %v", n, got)
		}
	}
}

// The first change makes a layout: it is filled, announced, and active once it is confirmed. Then
// the change is kept, and further ones are as soon as a quorum has them.
func TestTheFirstChangeMakesALayout(t *testing.T) {
	s := started(t, 1, 2, 3)
	changes := func(version uint64) Changes {
		return Changes{{Token: tokenOf(5), ID: "a", Version: version}, {Shard: 3, Token: tokenOf(5), ID: "x", Version: 1}, {Token: tokenOf(4), ID: "a", Version: 9}}
	}
	m := s.c.owners[0].chooseHolders()
	got := s.step(changes(1))
	for _, id := range m {
		if !strings.Contains(got, fmt.Sprintf("/0 of [a] to %d", id)) {
			t.Errorf("the first change: %q", got)
		}
	}
	s.expect("an older version", "", changes(1))
	ack := func(from gossip.NodeID, next uint64) Received {
		return Received{From: from, Msg: Ack{Token: tokenOf(5), Stream: s.c.owners[0].peers[from].stream, Next: next}}
	}
	announce := func(active bool) string {
		var all []string
		for _, id := range []gossip.NodeID{1, 2, 3} {
			all = append(all, fmt.Sprintf("announce 1 %v active %v to %d", m, active, id))
		}
		return strings.Join(all, "; ")
	}
	s.expect("one holder has it", "", ack(m[0], 1))
	s.expect("a quorum has it", announce(false), ack(m[1], 1))
	confirm := func(from gossip.NodeID, active bool) Received {
		return Received{From: from, Msg: Announced{Token: tokenOf(5), Seq: 1, Active: active}}
	}
	s.expect("one confirms", "", confirm(m[0], false))
	s.expect("a quorum confirms", "kept a 1; "+announce(true), confirm(m[1], false))
	s.expect("one confirms the active layout", "", confirm(m[0], true))
	s.after(stepResend)
	got = s.step(Tick{})
	if strings.Contains(got, fmt.Sprintf("true to %d", m[0])) || strings.Count(got, "announce") != 2 || strings.Count(got, "write") != 1 || !strings.Contains(got, fmt.Sprintf("of [a] to %d", m[2])) {
		t.Errorf("what is repeated: %q", got)
	}
	s.after(time.Minute)
	s.step(viewOf(2, m[0], m[1]))
	if got = s.step(Tick{}); strings.Contains(got, fmt.Sprintf("announce 1 %v active true to %d", m, m[2])) {
		t.Errorf("a member that has gone is announced to: %q", got)
	}
}

// A node outside an active layout drops the copies that it kept for older ones.
func TestANodeOutsideTheLayoutDropsItsCopies(t *testing.T) {
	s := newScripted(t, 1, 2, 3)
	receive := func(m Message) { s.step(Received{From: 2, Msg: m}) }
	write := Write{Token: tokenOf(5), Stream: 1, For: 1, Copies: []Copy{copyOf("a", 1)}}
	receive(write)
	outside := Layout{Token: tokenOf(5), Seq: 1, Members: []gossip.NodeID{2, 3}}
	receive(Announce{Token: tokenOf(5), Layout: outside})
	if s.c.Standby() != 1 || s.c.Bytes() == 0 {
		t.Error("a layout that is not active ends copies")
	}
	outside.Active = true
	receive(Announce{Token: tokenOf(5), Layout: outside})
	if s.c.Standby() != 0 || s.c.Bytes() != 0 {
		t.Errorf("%d shards, %d bytes are kept", s.c.Standby(), s.c.Bytes())
	}
	write.Seq = 1
	s.expect("a late write", "", Received{From: 2, Msg: write})
	if write.For = 2; s.step(Received{From: 2, Msg: write}) == "" {
		t.Error("a write for a later layout is dropped")
	}
	write.Stream = 0
	s.expect("a write of an older stream", "", Received{From: 2, Msg: write})
	// An older layout does not end what a newer write began.
	receive(Announce{Token: tokenOf(5), Layout: outside})
	if s.c.Standby() != 1 {
		t.Error("an older layout ends what a newer write began")
	}
}

// The end of a shard that is not here, and of an older allocation, has no effect.
func TestTheEndOfAnAllocation(t *testing.T) {
	s := started(t, 1)
	for _, ev := range []Event{End{Shard: 7, Token: tokenOf(5)}, End{Token: tokenOf(4)}} {
		if s.step(ev); len(s.c.owners) != 1 {
			t.Errorf("%+v ends the shard", ev)
		}
	}
	if s.step(End{Token: tokenOf(5)}); len(s.c.owners) != 0 {
		t.Error("the shard has not ended")
	}
	s = started(t, 1)
	if s.step(End{Token: tokenOf(6)}); len(s.c.owners) != 0 {
		t.Error("the end of a later allocation leaves an earlier one")
	}
	s = started(t, 1)
	refused := func(fence protocol.Token) Received {
		return Received{From: 2, Msg: Refused{Token: tokenOf(5), Fence: fence}}
	}
	s.expect("a refusal by its own fence", "", refused(tokenOf(5)))
	s.expect("a refusal", "deposed", refused(tokenOf(6)))
	s.expect("a refusal again", "", refused(tokenOf(6)))
	s = started(t, 1)
	if s.step(EndAll{}); len(s.c.owners) != 0 {
		t.Error("EndAll leaves shards")
	}
}

// Pages of copies end at PageBytes: in answers and in writes. One copy may exceed it.
func TestPagesEndAtTheirBound(t *testing.T) {
	id := strings.Repeat("x", copyBytes-1)
	all := []Copy{copyOf(id+"1", 1), copyOf(id+"2", 1), copyOf(id+"3", 1)} // each takes half of a page
	s := newScripted(t, 1)
	s.step(Received{From: 2, Msg: Write{Token: tokenOf(5), Copies: all}})
	out := &Effects{}
	s.c.Step(s.now, Received{From: 2, Msg: Collect{Token: tokenOf(5)}}, out)
	if m := out.Do[0].(Send).Msg.(Held); len(m.Copies) != 2 || !m.More {
		t.Errorf("an answer has %d copies, more %v", len(m.Copies), m.More)
	}
	o := newOwner(s.c, 0, tokenOf(5))
	p := o.newPeer(map[string]Tag{})
	for _, cp := range all {
		o.entries[cp.ID] = &entry{Copy: cp}
		p.mark(cp.ID)
		p.mark(cp.ID)
	}
	for _, want := range []int{2, 1} {
		if page, ok := o.cutPage(p); len(page) != want || !ok {
			t.Errorf("a page has %d copies, want %d", len(page), want)
		}
	}
	if _, ok := o.cutPage(p); ok || len(p.queued) != 0 {
		t.Errorf("a page without copies, and %d queued", len(p.queued))
	}
	large := Copy{ID: "large", State: make([]byte, 5*copyBytes)}
	o.entries["large"] = &entry{Copy: large}
	p.mark("large")
	if page, _ := o.cutPage(p); len(page) != 0 {
		t.Error("a copy without a tag is newer than none")
	}
}
