package replication

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/internal/clock"
)

// fetching returns a core of five nodes whose session asks node 2, its primary, for k0 and k1, and the
// helper node 3 for k2 and k3.
func fetching(t *testing.T) *single {
	s, out := pulling(t, 4, 2)
	if a, b := sentTo[*Fetch](out, 2), sentTo[*Fetch](out, 3); len(a) != 1 || len(b) != 1 || b[0].Keys[0] != "k2" {
		t.Fatalf("fetches %+v", out.Send)
	}
	return s
}

// TestKeysOfAHelperThatGoesAreAskedInTheStep checks that the keys of a helper which is late, lost, removed
// or at another floor are asked of the primary in the same step.
func TestKeysOfAHelperThatGoesAreAskedInTheStep(t *testing.T) {
	for name, goes := range map[string]func(s *single) *Effects{
		"late": func(s *single) *Effects {
			s.sessions.current.sources[1].took = 1 // a quick one
			return s.pass(2 * s.cfg.ResendAfter)
		},
		"lost":    func(s *single) *Effects { return s.do(PeerLost{ID: 3}) },
		"removed": func(s *single) *Effects { return s.withView(1, 2, 4, 5) },
		"at another floor": func(s *single) *Effects {
			return s.receive(3, &Values{Floor: 9, Session: s.sessions.current.id, Ask: 3, Answered: 1})
		},
	} {
		s := fetching(t)
		out := goes(s)
		if m := sentTo[*Fetch](out, 2); len(m) != 1 || !slices.Equal(m[0].Keys, []string{"k2", "k3"}) {
			t.Errorf("%s: fetches %+v", name, m)
		}
		if c := &s.sessions.current; c.peer != 2 || slices.Contains(sourcesOf(c), 3) {
			t.Errorf("%s: sources %v", name, sourcesOf(c))
		}
	}
}

// TestALateQuestionToThePrimary checks that keys which helpers could send go to these in the same step,
// and that a comparison and keys of the primary's own are repeated to it under their number.
func TestALateQuestionToThePrimary(t *testing.T) {
	for name, c := range map[string]struct {
		a       ask
		helpers bool
		moved   bool
	}{
		"keys":                           {ask{keys: wantedKeys("k", 2)}, true, true},
		"keys, without helpers":          {ask{keys: wantedKeys("k", 2)}, false, false},
		"keys of its own":                {ask{keys: wantedKeys("k", 2), own: true}, true, false},
		"a comparison":                   {ask{}, true, false},
		"a comparison without helpers":   {ask{}, false, false},
		"keys of its own, without them ": {ask{keys: wantedKeys("k", 2), own: true}, false, false},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		c.a.id, c.a.peer, c.a.at, c.a.tries = 9, 2, s.at, 1
		s.sessions.current = session{id: 7, peer: 2, chunk: 5, next: 5, asked: 9, asks: []ask{c.a}, sources: []source{{peer: 2, answeredAt: s.at}}}
		if c.helpers {
			s.sessions.current.sources = append(s.sessions.current.sources, source{peer: 3, answeredAt: s.at})
		}
		out := s.pass(4 * s.cfg.ResendAfter)
		repeated := 0
		for _, m := range sentTo[*Fetch](out, 2) {
			if m.Ask == 9 {
				repeated++
			}
		}
		for _, m := range sentTo[*Compare](out, 2) {
			if m.Ask == 9 {
				repeated++
			}
		}
		if moved := sentTo[*Fetch](out, 3); (len(moved) == 1 && len(moved[0].Keys) == 2) != c.moved || (repeated == 1) == c.moved || s.sessions.current.sources[0].late != c.moved {
			t.Errorf("%s: sends %+v, repeated %d times", name, out.Send, repeated)
		}
	}
}

// TestHowLongAPrimaryMayBeSilent checks that a question which was repeated ends the session after more than
// silenceMax times ResendAfter without an answer or a part.
func TestHowLongAPrimaryMayBeSilent(t *testing.T) {
	for name, c := range map[string]struct {
		tries  int
		part   clock.Instant
		more   clock.Instant
		goesOn bool
	}{
		"as long as may be":         {2, 0, 0, true},
		"longer":                    {2, 0, 1, false},
		"longer, not yet repeated":  {1, 0, 1, true},
		"a part has come meanwhile": {2, 8, 1, true},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		wait := clock.Instant(s.cfg.ResendAfter)
		s.sessions.current = session{id: 7, peer: 2, chunk: 5, next: bucketCount, asked: 9, asks: []ask{{id: 9, peer: 2, keys: wantedKeys("k", 2), own: true, at: s.at, tries: c.tries}}, sources: []source{{peer: 2, answeredAt: s.at}}}
		if c.part > 0 {
			s.members.byID[2].in.at = s.at + c.part*wait
		}
		s.at += silenceMax*wait + c.more
		s.do(Tick{})
		if got := s.sessions.current.peer == 2; got != c.goesOn {
			t.Errorf("%s: goes on %v", name, got)
		}
	}
}

// TestALargeKeyThatDiffersIsFetchedInParts checks that a large key which a comparison names is asked of the
// primary alone, in parts and in a question of its own, and that answers to no question are ignored.
func TestALargeKeyThatDiffersIsFetchedInParts(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoStream, c.PartialMin = true, 100 })
	s.put("large", string(make([]byte, 200)))
	cmp := sentTo[*Compare](s.receive(2, s.statusOf(3)), 2)[0]
	d := &Differ{Session: cmp.Session, Ask: cmp.Ask + 70, Epoch: s.members.epoch, Next: bucketCount, Keys: []string{"small", "large"}, Prints: []uint64{5, 6}}
	if out := s.receive(2, d); len(out.Send) != 0 || s.sessions.current.next != 0 {
		t.Errorf("an answer to no question: sends %+v", out.Send)
	}
	d.Ask = cmp.Ask
	out := s.receive(2, d)
	parts, whole := sentTo[*FetchParts](out, 2), sentTo[*Fetch](out, 2)
	if len(parts) != 1 || parts[0].Key != "large" || len(whole) != 1 || !slices.Equal(whole[0].Keys, []string{"small"}) {
		t.Errorf("sends %+v", out.Send)
	}
	s = newSingle(t, 3, func(c *Config) { c.PartialMin = 100 })
	s.put("large", string(make([]byte, 200)))
	s.sessions.current = session{id: 7, peer: 2, chunk: 5, own: []wanted{{key: "small"}, {key: "large"}}, sources: []source{{peer: 2}}}
	out = &Effects{}
	s.out = out
	s.sessions.fetchFrom(s.at, &s.sessions.current.sources[0])
	s.out = nil
	if whole = sentTo[*Fetch](out, 2); len(whole) != 1 || !slices.Equal(whole[0].Keys, []string{"small"}) {
		t.Errorf("a large key is asked for with %+v", whole)
	}
}
