package replication

import (
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// wantedKeys returns n keys to fetch.
func wantedKeys(prefix string, n int) (out []wanted) {
	for i := range n {
		out = append(out, wanted{key: fmt.Sprint(prefix, i), print: 9})
	}
	return out
}

// asking returns the questions that a session of five nodes, with node 2 as its primary, sends next.
func asking(t *testing.T, cur session, tweak func(*Config)) (*single, *Effects) {
	t.Helper()
	s := newSingle(t, 6, func(c *Config) {
		if c.NoGossip = true; tweak != nil {
			tweak(c)
		}
	})
	cur.id, cur.peer = 7, 2
	if cur.sources = append([]source{{peer: 2}}, cur.sources...); cur.next == 0 {
		cur.next = bucketCount
	}
	s.sessions.current = cur
	out := &Effects{}
	s.out = out
	s.sessions.requestMore(s.at)
	s.out = nil
	return s, out
}

// TestTheQuestionsOfASession checks which questions a session sends: keys of the primary's own to the
// primary alone, two questions to a source, one comparison at a time, and none beyond its credit.
func TestTheQuestionsOfASession(t *testing.T) {
	frame := func(n int) func(*Config) {
		return func(c *Config) { c.Limits.FrameBytes, c.Limits.RoundBytes = 1000, n*1000 }
	}
	for name, c := range map[string]struct {
		cur      session
		tweak    func(*Config)
		fetches  map[gossip.NodeID]int
		compares int
	}{
		"own keys":                         {session{chunk: 2, own: wantedKeys("o", 9), sources: []source{{peer: 3}}}, nil, map[gossip.NodeID]int{2: 2}, 0},
		"own keys, and some for helpers":   {session{chunk: 2, own: wantedKeys("o", 9), want: wantedKeys("w", 3), sources: []source{{peer: 3}}}, nil, map[gossip.NodeID]int{2: 2, 3: 1, 4: 1}, 0},
		"a comparison is open":             {session{chunk: 2, own: wantedKeys("o", 9), next: 5, asks: []ask{{id: 1, peer: 2}}}, nil, map[gossip.NodeID]int{2: 2}, 0},
		"a comparison is due":              {session{chunk: 2, next: 5}, nil, map[gossip.NodeID]int{}, 1},
		"a fetch and a comparison":         {session{chunk: 2, next: 5, own: wantedKeys("o", 1)}, nil, map[gossip.NodeID]int{2: 1}, 1},
		"credit for one question":          {session{chunk: 2, own: wantedKeys("o", 9)}, frame(1), map[gossip.NodeID]int{2: 1}, 0},
		"credit for three":                 {session{chunk: 2, want: wantedKeys("w", 20), sources: []source{{peer: 3}, {peer: 4}, {peer: 5}}}, frame(3), map[gossip.NodeID]int{2: 1, 3: 1, 4: 1}, 0},
		"four sources, of five that could": {session{chunk: 1, want: wantedKeys("w", 20)}, nil, map[gossip.NodeID]int{2: 2, 3: 2, 4: 2, 5: 2}, 0},
		"one question is enough":           {session{chunk: 5, want: wantedKeys("w", 5)}, nil, map[gossip.NodeID]int{2: 1}, 0},
		"helpers begin at the seed":        {session{chunk: 5, want: wantedKeys("w", 6), dismissed: ids(5, 6)}, func(c *Config) { c.Seed = 2 }, map[gossip.NodeID]int{2: 1, 4: 1}, 0},
	} {
		s, out := asking(t, c.cur, c.tweak)
		got := map[gossip.NodeID]int{}
		for _, id := range receivers[*Fetch](out) {
			got[id] = len(sentTo[*Fetch](out, id))
			for _, m := range sentTo[*Fetch](out, id) {
				for _, key := range m.Keys {
					if key[0] == 'o' && id != 2 {
						t.Errorf("%s: %s is fetched from %v", name, key, id)
					}
				}
			}
		}
		if name == "helpers begin at the seed" {
			// Without a seed, node 3 would be the first helper.
			if !slices.Equal(sourcesOf(&s.sessions.current)[:2], ids(2, 4)) {
				t.Errorf("%s: sources %v", name, sourcesOf(&s.sessions.current))
			}
			continue
		}
		if fmt.Sprint(got) != fmt.Sprint(c.fetches) || len(sentTo[*Compare](out, 2)) != c.compares {
			t.Errorf("%s: fetches %v, compares %d", name, got, len(sentTo[*Compare](out, 2)))
		}
	}
}

func sourcesOf(s *session) (out []gossip.NodeID) {
	for _, l := range s.sources {
		out = append(out, l.peer)
	}
	return out
}

// TestARoundEndsWithItsCredit checks that a session with keys left and no credit ends without a claim
// that the whole state was taken over, and that one with nothing left makes that claim.
func TestARoundEndsWithItsCredit(t *testing.T) {
	for name, c := range map[string]struct {
		want, own, next int
		synced          bool
	}{
		"nothing is left":                {0, 0, bucketCount, true},
		"a key":                          {1, 0, bucketCount, false},
		"a key of the primary's own":     {0, 1, bucketCount, false},
		"one of each":                    {1, 1, bucketCount, false},
		"many keys, and more to compare": {wantMax + 1, 0, 5, false},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		synced := 0
		core := s.sessions
		core.onSynced = func(clock.Instant, *session) { synced++ }
		core.current = session{id: 7, peer: 2, chunk: 2, next: c.next, bytes: s.cfg.Limits.RoundBytes, want: wantedKeys("w", c.want), own: wantedKeys("o", c.own), sources: []source{{peer: 2}}}
		s.out = &Effects{}
		core.requestMore(s.at)
		if s.out = nil; (synced == 1) != c.synced || core.current.peer != 0 {
			t.Errorf("%s: synced %d times, pulls from %v", name, synced, core.current.peer)
		}
	}
}

// TestSessionsHaveNumbersOfTheirOwn checks that each session has another number, begins anew to count the
// differences of its peer, and that a failed one is forgotten with the next.
func TestSessionsHaveNumbersOfTheirOwn(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoStream = true })
	first := sentTo[*Compare](s.receive(2, s.statusOf(4)), 2)[0].Session
	s.sessions.abandonSession()
	if s.sessions.avoidPeer != 2 || s.sessions.current.peer != 0 {
		t.Fatal("the session is not abandoned")
	}
	s.members.byID[3].differed = 5
	second := sentTo[*Compare](s.receive(3, s.statusOf(4)), 3)[0].Session
	if first == second || s.sessions.avoidPeer != 0 || s.members.byID[3].differed != 0 {
		t.Errorf("numbers %d and %d, avoids %v, node 3 differed %d times", first, second, s.sessions.avoidPeer, s.members.byID[3].differed)
	}
}

// TestOnlyOwnKeysAreFetchedInParts checks that a single large key of the primary's own is fetched in
// parts, under the number of its question, and any other key whole.
func TestOnlyOwnKeysAreFetchedInParts(t *testing.T) {
	for name, c := range map[string]struct {
		own   bool
		keys  []string
		parts bool
	}{
		"a large key of its own": {true, []string{"large"}, true},
		"a small key of its own": {true, []string{"small"}, false},
		"two keys of its own":    {true, []string{"large", "small"}, false},
		"a large key":            {false, []string{"large"}, false},
	} {
		s := newSingle(t, 3, func(c *Config) { c.PartialMin = 100 })
		s.put("small", "e")
		s.put("large", string(make([]byte, 200)))
		a := ask{id: 9, peer: 2, own: c.own, credit: 50}
		for _, key := range c.keys {
			a.keys = append(a.keys, wanted{key: key})
		}
		s.sessions.current.id = 7
		out := &Effects{}
		s.out = out
		s.sessions.sendQuestion(s.at, &a)
		s.out = nil
		parts, whole := sentTo[*FetchParts](out, 2), sentTo[*Fetch](out, 2)
		if (len(parts) == 1) != c.parts || len(parts)+len(whole) != 1 || a.tries != 1 || a.at != s.at {
			t.Fatalf("%s: sends %+v", name, out.Send)
		}
		if c.parts && (parts[0].Ask != 9 || parts[0].Session != 7 || parts[0].Key != "large") || !c.parts && (whole[0].Ask != 9 || whole[0].Session != 7 || whole[0].Credit != 50 || !slices.Equal(whole[0].Keys, c.keys)) {
			t.Errorf("%s: sends %+v", name, out.Send[0].Msg)
		}
		s.sessions.current = session{}
	}
}

// TestAFullAnswerToASmallQuestion checks that an answer with all keys of a question that was smaller than
// it might be leaves the size of the next ones, and that the bytes of values are counted.
func TestAFullAnswerToASmallQuestion(t *testing.T) {
	s, out := asking(t, session{chunk: 64, own: wantedKeys("o", 10), next: 5}, nil)
	c := &s.sessions.current
	m := sentTo[*Fetch](out, 2)[0]
	item := setItem("o0", 2, "e")
	s.receive(2, &Values{Session: 7, Ask: m.Ask, Answered: 10, Items: []Item{item}})
	if c.peer != 2 || c.chunk != 64 || c.bytes != item.encodedSize() {
		t.Errorf("pulls from %v, asks for %d keys next, counts %d bytes of %d", c.peer, c.chunk, c.bytes, item.encodedSize())
	}
}
