package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// statusOf is a Status of a node that is level with the core, and holds other keys.
func (s *single) statusOf(keys uint64) *Status {
	return &Status{Epoch: s.members.epoch, CaughtUp: s.members.epoch, Root: 99, Keys: keys, Floor: s.barrier.floor, Sweep: s.barrier.sweep}
}

// pulling returns a core of five nodes that pulls the keys k0, k1, ... from node 2, at most
// fetchKeys in one question.
func pulling(t *testing.T, keys, fetchKeys int) (*single, *Effects) {
	s := newSingle(t, 5, func(c *Config) { c.FetchKeys, c.NoStream = fetchKeys, true })
	for _, p := range s.members.peers {
		p.keys = uint64(keys)
	}
	cmp := sentTo[*Compare](s.receive(2, s.statusOf(uint64(keys))), 2)
	if len(cmp) != 1 {
		t.Fatalf("%d comparisons", len(cmp))
	}
	d := &Differ{Session: cmp[0].Session, Ask: cmp[0].Ask, Epoch: s.members.epoch, Next: bucketCount}
	for i := range keys {
		d.Keys, d.Prints = append(d.Keys, fmt.Sprint("k", i)), append(d.Prints, uint64(i+1))
	}
	return s, s.receive(2, d)
}

// TestASessionAsksHelpers checks that helpers are asked once one question cannot cover the keys, with at
// most two questions each.
func TestASessionAsksHelpers(t *testing.T) {
	for keys, want := range map[int][]gossip.NodeID{2: ids(2), 3: ids(2, 3), 20: ids(2, 3, 4, 5)} {
		s, out := pulling(t, keys, 2)
		if got := receivers[*Fetch](out); len(got) != len(want) || got[0] != 2 {
			t.Errorf("%d keys: asks %v, want %v", keys, got, want)
		}
		fetched := map[string]bool{}
		for _, id := range ids(2, 3, 4, 5) {
			questions := sentTo[*Fetch](out, id)
			if len(questions) > sourceAsksMax {
				t.Errorf("%d keys: %d questions to %v", keys, len(questions), id)
			}
			for _, m := range questions {
				if len(m.Keys) > 2 || m.Credit != s.cfg.Limits.FrameBytes {
					t.Errorf("asks for %v with credit %d", m.Keys, m.Credit)
				}
				for _, k := range m.Keys {
					if fetched[k] {
						t.Errorf("%s is asked for twice", k)
					}
					fetched[k] = true
				}
			}
		}
		if want := min(keys, 16); len(fetched) != want || s.sessions.current.credit != len(s.sessions.current.asks)*s.cfg.Limits.FrameBytes {
			t.Errorf("%d keys: asks for %d, want %d; credit %d", keys, len(fetched), want, s.sessions.current.credit)
		}
	}
}

// TestPeersThatDontHelp checks that a peer is no helper if it is down, at another floor or dismissed,
// serves already, or holds less than half of the keys.
func TestPeersThatDontHelp(t *testing.T) {
	for name, edit := range map[string]func(s *single, p *peer){
		"down":          func(_ *single, p *peer) { p.down = true },
		"another floor": func(_ *single, p *peer) { p.floor = 1 },
		"few keys":      func(_ *single, p *peer) { p.keys = 9 },
		"dismissed":     func(s *single, p *peer) { s.sessions.current.dismissed = append(s.sessions.current.dismissed, p.id) },
		"serves already": func(s *single, p *peer) {
			s.sessions.current.sources = append(s.sessions.current.sources, source{peer: p.id})
		},
	} {
		s := newSingle(t, 3, nil)
		s.members.byID[2].keys = 20
		s.sessions.current = session{peer: 2, chunk: 2, want: make([]wanted, 3), sources: []source{{peer: 2}}}
		p := s.members.byID[3]
		p.keys = 10
		edit(s, p)
		before := len(s.sessions.current.sources)
		if s.sessions.addSources(1); len(s.sessions.current.sources) != before {
			t.Errorf("%s: becomes a source", name)
		}
	}
	s := newSingle(t, 3, nil)
	s.members.byID[2].keys, s.members.byID[3].keys = 20, 10
	s.sessions.current = session{peer: 2, chunk: 2, want: make([]wanted, 3), sources: []source{{peer: 2}}}
	if s.sessions.addSources(7); len(s.sessions.current.sources) != 2 || s.sessions.current.sources[1].answeredAt != 7 {
		t.Errorf("sources %+v, half of the keys are enough", s.sessions.current.sources)
	}
}

// TestAHelperThatIsDismissedReturnsItsQuestions checks that the keys and the credit of its questions go to
// other sources, and that it does not serve the session again.
func TestAHelperThatIsDismissedReturnsItsQuestions(t *testing.T) {
	s, _ := pulling(t, 20, 2)
	c := &s.sessions.current
	helper := c.sources[1].peer
	left := c.left()
	s.sessions.dismissSource(helper)
	if c.left() != left || len(c.sources) != 3 || !slices.Equal(c.dismissed, []gossip.NodeID{helper}) || s.stats.LanesDismissed != 1 {
		t.Errorf("%d of %d keys, %d sources, dismissed %v", c.left(), left, len(c.sources), c.dismissed)
	}
	if len(c.asks) != 6 || c.credit != 6*s.cfg.Limits.FrameBytes || slices.ContainsFunc(c.asks, func(a ask) bool { return a.peer == helper }) {
		t.Errorf("questions %+v, credit %d", c.asks, c.credit)
	}
	if s.sessions.dismissSource(helper); s.stats.LanesDismissed != 1 || c.peer != 2 {
		t.Error("dismissed twice")
	}
	if s.sessions.dismissSource(2); c.peer != 0 || s.sessions.avoidPeer != 2 {
		t.Errorf("without its primary the session goes on, avoiding %v", s.sessions.avoidPeer)
	}
}

// TestAHelperWithOtherValues checks that keys whose values differ are left to the primary. A helper is
// dismissed if more than half of the values in an answer differ.
func TestAHelperWithOtherValues(t *testing.T) {
	for other, dismissed := range map[int]bool{1: false, 2: false, 3: true} {
		s, _ := pulling(t, 40, 4)
		c := &s.sessions.current
		helper := c.sources[1].peer
		i := slices.IndexFunc(c.asks, func(a ask) bool { return a.peer == helper })
		a := &c.asks[i]
		answer := &Values{Session: c.id, Ask: a.id, Answered: 4}
		for i := range a.keys {
			item := setItem(a.keys[i].key, 9, "e")
			answer.Items = append(answer.Items, item)
			if i >= other {
				v, _ := crdt.Decode(item.Kind, item.Bytes)
				probe := &store{}
				it := probe.obtain(item.Key)
				probe.absorb(it, 0, 0, v)
				a.keys[i].print = it.print
			}
		}
		s.receive(helper, answer)
		own := len(c.own)
		for _, a := range c.asks {
			if a.own {
				own += len(a.keys)
			}
		}
		if got := slices.Contains(c.dismissed, helper); got != dismissed || own != other {
			t.Errorf("%d of 4 differ: dismissed %v, %d keys for the primary", other, got, own)
		}
	}
}

// TestAnswersThatEndASession checks that a malformed value, an answer without a key, or one with more keys
// than were asked ends the session.
func TestAnswersThatEndASession(t *testing.T) {
	for name, c := range map[string]struct {
		m    Values
		ends bool
	}{
		"one key":          {Values{Answered: 1}, false},
		"both keys":        {Values{Answered: 2}, false},
		"none":             {Values{}, true},
		"more":             {Values{Answered: 3}, true},
		"nonsense":         {Values{Answered: 2, Items: []Item{{Key: "k0", Kind: crdt.KindORSet, Bytes: []byte("x")}}}, true},
		"of another one":   {Values{Answered: 3, Session: 77}, false},
		"another question": {Values{Answered: 3, Ask: 77}, false},
	} {
		s, _ := pulling(t, 20, 2)
		a := s.sessions.current.asks[0]
		c.m.Session += s.sessions.current.id
		c.m.Ask += a.id
		s.receive(a.peer, &c.m)
		if ended := s.sessions.current.peer == 0; ended != c.ends || s.stats.ValuesReceived != uint64(len(c.m.Items)) {
			t.Errorf("%s: ended %v, counts %d values", name, ended, s.stats.ValuesReceived)
		}
		if c.ends && s.sessions.avoidPeer != 2 {
			t.Errorf("%s: the next session avoids %v", name, s.sessions.avoidPeer)
		}
	}
}

// TestKeysOfOneQuestionFollowTheAnswers checks that a question has twice as many keys after a full answer,
// and else at most twice as many as were answered.
func TestKeysOfOneQuestionFollowTheAnswers(t *testing.T) {
	for name, c := range map[string]struct{ chunk, answered, want int }{
		"a full answer":        {40, 40, 80},
		"full, near the bound": {64, 64, 100},
		"half":                 {64, 32, 64},
		"few":                  {64, 20, 40},
		"one":                  {64, 1, fetchKeysMin},
		"nearly all":           {64, 63, 100},
	} {
		s, _ := pulling(t, 800, 100)
		cur := &s.sessions.current
		cur.chunk, cur.want = c.chunk, cur.want[:0]
		a := &cur.asks[0]
		a.keys = a.keys[:c.chunk]
		rest := len(a.keys) - c.answered
		out := s.receive(a.peer, &Values{Session: cur.id, Ask: a.id, Answered: c.answered})
		if cur.chunk != c.want {
			t.Errorf("%s: asks for %d keys next, want %d", name, cur.chunk, c.want)
		}
		again := 0
		for _, id := range ids(2, 3, 4, 5) {
			for _, m := range sentTo[*Fetch](out, id) {
				again += len(m.Keys)
			}
		}
		if want := min(rest, c.want); again < want {
			t.Errorf("%s: asks for %d of %d keys again", name, again, rest)
		}
	}
}

// TestAQuestionIsLateAfterItsSource checks when a question is late: after four times ResendAfter if it is
// the first, else after two times ResendAfter or two times the duration of slower answers, counted from the
// newest answer or part of the source. Parts extend the time only up to a bound, since the answer may have been dropped.
func TestAQuestionIsLateAfterItsSource(t *testing.T) {
	s := newSingle(t, 3, nil)
	wait := s.cfg.ResendAfter
	for name, c := range map[string]struct {
		a    ask
		src  source
		part clock.Instant
		want clock.Instant
	}{
		"a comparison":             {ask{peer: 2, at: 100, tries: 1}, source{peer: 2}, 0, clock.Instant(100).Add(wait)},
		"sent a third time":        {ask{peer: 2, at: 100, tries: 3}, source{peer: 2}, 0, clock.Instant(100).Add(4 * wait)},
		"the first values":         {ask{peer: 2, keys: []wanted{{}}, at: 100, tries: 1}, source{peer: 2}, 0, clock.Instant(100).Add(4 * wait)},
		"of a quick source":        {ask{peer: 2, keys: []wanted{{}}, at: 100, tries: 1}, source{peer: 2, took: 1}, 0, clock.Instant(100).Add(2 * wait)},
		"of a slow source":         {ask{peer: 2, keys: []wanted{{}}, at: 100, tries: 1}, source{peer: 2, took: time.Second}, 0, clock.Instant(100).Add(2 * time.Second)},
		"another answer has come":  {ask{peer: 2, at: 100, tries: 1}, source{peer: 2, answeredAt: 300}, 0, clock.Instant(300).Add(wait)},
		"a part has come":          {ask{peer: 2, at: 100, tries: 1}, source{peer: 2, answeredAt: 300}, 400, clock.Instant(400).Add(wait)},
		"parts come for long":      {ask{peer: 2, at: 100, tries: 2}, source{peer: 2}, clock.Instant(100).Add(time.Hour), clock.Instant(100).Add(silenceMax * 2 * wait)},
		"an answer of another one": {ask{peer: 2, at: 100, tries: 1}, source{peer: 3, answeredAt: 300, took: time.Second}, 0, clock.Instant(100).Add(wait)},
	} {
		s.sessions.current = session{peer: 2, asks: []ask{c.a}, sources: []source{c.src}}
		s.members.byID[2].in.at = c.part
		if got := s.sessions.dueAt(&c.a); got != c.want || s.sessions.nextDue() != c.want {
			t.Errorf("%s: late at %d, want %d", name, got, c.want)
		}
	}
	s.sessions.current = session{}
	if s.sessions.nextDue() != clock.Never {
		t.Error("something is due without a session")
	}
}

// TestASilentPrimaryIsAskedAgain checks that the answer of a slow primary may be dropped: the question
// is late after the silence that ends a session, is repeated, and the session ends with the next silence.
func TestASilentPrimaryIsAskedAgain(t *testing.T) {
	s, _ := pulling(t, 2, 2)
	c := &s.sessions.current
	c.sources[0].took = 2 * silenceMax * s.cfg.ResendAfter
	out := s.pass(2 * c.sources[0].took)
	if c.peer != 2 || !slices.Contains(receivers[*Fetch](out), 2) {
		t.Fatalf("primary %v, asks %v", c.peer, receivers[*Fetch](out))
	}
	s.pass(2 * c.sources[0].took)
	if c.peer != 0 || s.sessions.avoidPeer != 2 {
		t.Error("the session has no end")
	}
}

// TestALateHelperIsDismissed checks a late helper, and a late primary without helpers: the primary is
// asked again until it was silent for too long.
func TestALateHelperIsDismissed(t *testing.T) {
	s, _ := pulling(t, 20, 2)
	c := &s.sessions.current
	out := s.pass(4 * s.cfg.ResendAfter)
	if c.peer != 2 || len(c.sources) != 1 || len(c.dismissed) != 3 || s.stats.LanesDismissed != 3 {
		t.Fatalf("primary %v, sources %+v, dismissed %v", c.peer, c.sources, c.dismissed)
	}
	if got := receivers[*Fetch](out); !slices.Equal(got, ids(2)) || c.left() != 20 {
		t.Errorf("asks %v, %d keys are left", got, c.left())
	}
	for range 40 {
		due := s.sessions.nextDue()
		s.at = s.Deadline()
		s.do(Tick{})
		if silent := s.at.Sub(1); (c.peer == 0) != (s.at == due && silent > silenceMax*s.cfg.ResendAfter) {
			t.Fatalf("the primary has been silent for %v, and the session goes on: %v", silent, c.peer != 0)
		}
		if c.peer == 0 {
			break
		}
	}
	if c.peer != 0 || s.sessions.avoidPeer != 2 {
		t.Error("the session has no end")
	}
}

// TestALatePrimaryLeavesKeysToHelpers checks that helpers get the keys until the primary answers.
func TestALatePrimaryLeavesKeysToHelpers(t *testing.T) {
	s, _ := pulling(t, 40, 2)
	c := &s.sessions.current
	s.at = s.at.Add(3 * s.cfg.ResendAfter) // the helpers are not late with their next answers
	for _, a := range slices.Clone(c.asks) {
		if a.peer != 2 {
			for i := range a.keys {
				a.keys[i].print = 0 // the helper lacks the key, too
			}
			s.receive(a.peer, &Values{Session: c.id, Ask: a.id, Answered: len(a.keys)})
		}
	}
	s.at = clock.Instant(1).Add(4 * s.cfg.ResendAfter)
	s.do(Tick{})
	if len(c.sources) != 4 || !c.sources[0].late || slices.ContainsFunc(c.asks, func(a ask) bool { return a.peer == 2 && !a.own }) {
		t.Errorf("sources %+v, questions %+v", c.sources, c.asks)
	}
	if c.credit != len(c.asks)*s.cfg.Limits.FrameBytes {
		t.Errorf("credit %d of %d questions", c.credit, len(c.asks))
	}
}

// TestSourcesThatLeaveTogether checks that a view without several sources of a session moves their keys to
// the sources that stay. Without the primary the session ends.
func TestSourcesThatLeaveTogether(t *testing.T) {
	for name, c := range map[string]struct {
		stay   []gossip.NodeID
		goesOn bool
	}{
		"two helpers":             {ids(1, 2, 5), true},
		"all helpers":             {ids(1, 2), true},
		"the primary":             {ids(1, 3, 4, 5), false},
		"the primary, one helper": {ids(1, 4, 5), false},
	} {
		s, out := pulling(t, 10, 2)
		asked := 0
		for _, id := range ids(2, 3, 4, 5) {
			asked += len(sentTo[*Fetch](out, id))
		}
		v := &gossip.View{Cluster: 1, Epoch: s.members.epoch + 1}
		for _, id := range c.stay {
			v.Members = append(v.Members, member(id, gossip.Up))
		}
		out = s.do(ViewChanged{View: v})
		for _, id := range receivers[*Fetch](out) {
			if !slices.Contains(c.stay, id) {
				t.Errorf("%s: asks %v, which has left", name, id)
			}
		}
		cur := &s.sessions.current
		if (cur.peer == 2) != c.goesOn {
			t.Errorf("%s: the primary is %v", name, cur.peer)
		}
		if left := cur.left(); c.goesOn && left != 10 {
			t.Errorf("%s: %d of 10 keys are left to get", name, left)
		}
		if asked != 5 {
			t.Errorf("%s: %d questions were open", name, asked)
		}
	}
}
