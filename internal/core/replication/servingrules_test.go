package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// TestAComparisonIsAnsweredWithWhatDiffers checks that the answer to a comparison has the keys of the
// buckets which differ from the first one that was asked for, and ends after half a frame.
func TestAComparisonIsAnsweredWithWhatDiffers(t *testing.T) {
	newServer := func(frame int) *single {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Limits.FrameBytes = true, frame })
		for i := range 200 {
			s.put(fmt.Sprint("k", i), "e")
		}
		s.fences.raise(replicator.Fence{Group: "g", Term: 4})
		return s
	}
	s := newServer(1 << 20)
	bucketKeys := func(i int) (keys []string) {
		for _, it := range s.store.buckets[i].sortedItems() {
			keys = append(keys, it.key)
		}
		return keys
	}
	equal := s.store.sums()
	var full []int
	for i := range s.store.buckets {
		if len(s.store.buckets[i].items) > 0 {
			full = append(full, i)
		}
	}
	first, second, last := full[0], full[1], full[len(full)-1]
	edit := func(buckets ...int) []uint64 {
		sums := slices.Clone(equal)
		for _, i := range buckets {
			sums[i]++
		}
		return sums
	}
	for name, c := range map[string]struct {
		start int
		sums  []uint64
		keys  []string
		none  bool
	}{
		"equal":              {0, equal, nil, false},
		"one differs":        {0, edit(second), bucketKeys(second), false},
		"two differ":         {0, edit(first, last), slices.Concat(bucketKeys(first), bucketKeys(last)), false},
		"from the second on": {second, edit(first, second), bucketKeys(second), false},
		"from behind it":     {second + 1, edit(first, second), nil, false},
		"too few sums":       {0, equal[1:], nil, true},
		"too many sums":      {0, append(slices.Clone(equal), 0), nil, true},
	} {
		m := sentTo[*Differ](s.receive(2, &Compare{Session: 8, Ask: 9, Start: c.start, Sums: c.sums}), 2)
		if c.none {
			if len(m) != 0 {
				t.Errorf("%s: answers", name)
			}
			continue
		}
		if len(m) != 1 || !slices.Equal(m[0].Keys, c.keys) || m[0].Next != bucketCount || m[0].Session != 8 || m[0].Ask != 9 || m[0].Epoch != s.members.epoch || len(m[0].Fences) != 1 || len(m[0].Vector) != 1 {
			t.Fatalf("%s: answers %+v, want %v", name, m, c.keys)
		}
		for i, key := range m[0].Keys {
			if m[0].Prints[i] != s.store.print(key) {
				t.Errorf("%s: fingerprint of %s", name, key)
			}
		}
	}
	// In frames of 400 bytes, each answer has the buckets that fill half of one, and the next begins there.
	s = newServer(400)
	var got []string
	answers := 0
	for start := 0; start < bucketCount; answers++ {
		m := sentTo[*Differ](s.receive(2, &Compare{Start: start, Sums: make([]uint64, bucketCount)}), 2)
		if len(m) != 1 || m[0].Next <= start {
			t.Fatalf("from %d: %+v", start, m)
		}
		size := 0
		for i, key := range m[0].Keys {
			if b := bucketOf(s.store.itemOf(key).hash); size > 200 && i > 0 && b != bucketOf(s.store.itemOf(m[0].Keys[i-1]).hash) {
				t.Errorf("from %d: begins another bucket after %d bytes", start, size)
			}
			size += len(key) + 10
		}
		if m[0].Next < bucketCount && size <= 200 {
			t.Errorf("from %d: ends after %d bytes", start, size)
		}
		got, start = append(got, m[0].Keys...), m[0].Next
	}
	if slices.Sort(got); len(got) != 200 || len(slices.Compact(got)) != 200 || answers < 10 {
		t.Errorf("%d keys in %d answers", len(got), answers)
	}
}

// TestTheCreditOfASession checks that the bytes in flight are bounded by RoundBytes, together with those
// that have arrived if the replica has caught up, and that one question is always allowed.
func TestTheCreditOfASession(t *testing.T) {
	for name, c := range map[string]struct {
		caughtUp      bool
		credit, bytes int
		ask           int
		has           bool
	}{
		"nothing is in flight":          {true, 0, 0, 2000, true},
		"as much as may be":             {true, 600, 0, 400, true},
		"more":                          {true, 600, 0, 401, false},
		"with what has arrived":         {true, 300, 300, 400, true},
		"more, with what has arrived":   {true, 300, 300, 401, false},
		"all has arrived":               {true, 0, 1000, 1, false},
		"a newcomer, all has arrived":   {false, 0, 1000, 1000, true},
		"a newcomer, as much as may be": {false, 600, 1000, 400, true},
		"a newcomer, more than that":    {false, 600, 1000, 401, false},
	} {
		s := newSingle(t, 3, func(cfg *Config) { cfg.Limits.RoundBytes = 1000 })
		if !c.caughtUp {
			s.members.caughtUp--
		}
		s.sessions.current = session{peer: 2, credit: c.credit, bytes: c.bytes}
		if got := s.sessions.hasCredit(c.ask); got != c.has {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestALargeKeyIsFetchedAlone checks that a key which is fetched in parts goes into a question of its own.
func TestALargeKeyIsFetchedAlone(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.PartialMin = 100 })
	for _, key := range []string{"a", "b", "large"} {
		s.put(key, "e")
	}
	s.put("large", string(make([]byte, 200)))
	for name, c := range map[string]struct {
		own  []string
		n    int
		want int
	}{
		"small ones":           {[]string{"a", "b"}, 2, 2},
		"the large one first":  {[]string{"large", "a"}, 2, 1},
		"the large one second": {[]string{"a", "large", "b"}, 3, 1},
		"the large one third":  {[]string{"a", "b", "large"}, 3, 2},
		"behind the question":  {[]string{"a", "b", "large"}, 2, 2},
	} {
		s.sessions.current = session{peer: 2}
		for _, key := range c.own {
			s.sessions.current.own = append(s.sessions.current.own, wanted{key: key})
		}
		if got := s.sessions.countOwn(c.n); got != c.want {
			t.Errorf("%s: %d keys, want %d", name, got, c.want)
		}
	}
	s.sessions.current = session{}
}

// TestTheLossOfASource checks that a session ends with its primary, after which the next round begins
// within a millisecond, and that the keys of a helper go to the remaining sources.
func TestTheLossOfASource(t *testing.T) {
	for _, lost := range ids(2, 3, 4) {
		s, _ := pulling(t, 20, 2)
		c := &s.sessions.current
		if lost == 4 {
			*c = session{}
		}
		round := s.antiEntropy.gossipAt
		s.do(PeerLost{ID: lost})
		switch lost {
		case 2:
			if c.peer != 0 || s.sessions.avoidPeer != 2 || s.antiEntropy.gossipAt != s.at.Add(time.Millisecond) {
				t.Errorf("the primary: pulls from %v, avoids %v, next round in %v", c.peer, s.sessions.avoidPeer, s.antiEntropy.gossipAt.Sub(s.at))
			}
		case 3:
			if c.peer != 2 || c.left() != 20 || !slices.Equal(c.dismissed, ids(3)) || len(c.asks) != 6 || s.antiEntropy.gossipAt != round {
				t.Errorf("a helper: pulls from %v, %d keys, dismissed %v, %d questions", c.peer, c.left(), c.dismissed, len(c.asks))
			}
		default:
			if s.antiEntropy.gossipAt != round || s.sessions.avoidPeer != 0 {
				t.Error("without a session, its loss begins a round")
			}
		}
	}
}

// TestHowLongASourceTakes checks that the answer to a fetch counts with its own time, or half of the
// former one if that is more, and that only answers to this session are noted.
func TestHowLongASourceTakes(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		keys    bool
		took    time.Duration
		session uint64
		ask     uint64
		want    time.Duration
		ok      bool
		noted   bool
	}{
		"the first":           {true, 0, 7, 1, second, true, true},
		"slower than before":  {true, second / 2, 7, 1, second, true, true},
		"a little quicker":    {true, 3 * second / 2, 7, 1, second, true, true},
		"much quicker":        {true, 4 * second, 7, 1, 2 * second, true, true},
		"a comparison":        {false, 4 * second, 7, 1, 4 * second, true, true},
		"of another session":  {true, 4 * second, 8, 1, 4 * second, false, false},
		"to no open question": {true, 4 * second, 7, 2, 4 * second, false, true},
	} {
		s := newSingle(t, 3, nil)
		a := ask{id: 1, peer: 2, at: 1, credit: 40}
		if c.keys {
			a.keys = []wanted{{key: "k"}}
		}
		cur := &s.sessions.current
		*cur = session{id: 7, peer: 2, credit: 100, asks: []ask{{id: 1, peer: 3}, a}, sources: []source{{peer: 2, took: c.took, late: true}, {peer: 3}}}
		now := clock.Instant(1).Add(second)
		got, ok := s.sessions.closeQuestion(now, s.members.byID[2], c.session, c.ask)
		src := cur.sources[0]
		if ok != c.ok || ok && (got.peer != 2 || len(cur.asks) != 1 || cur.credit != 60) || !ok && (len(cur.asks) != 2 || cur.credit != 100) {
			t.Errorf("%s: closed %v: %+v, credit %d", name, ok, got, cur.credit)
		}
		if src.took != c.want || (src.answeredAt == now) != c.noted || src.late == c.noted || cur.sources[1].answeredAt != 0 {
			t.Errorf("%s: %+v", name, src)
		}
		*cur = session{}
	}
}

// TestADifferenceNamesTheKeysToFetch checks that a session fetches the keys that differ here, takes the
// vector of the first answer, counts for the older view, and compares from the named bucket on.
func TestADifferenceNamesTheKeysToFetch(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoStream = true })
	s.put("equal", "e")
	cmp := sentTo[*Compare](s.receive(2, s.statusOf(1)), 2)[0]
	c := &s.sessions.current
	epoch := s.members.epoch
	out := s.receive(2, &Differ{Session: cmp.Session, Ask: cmp.Ask, Epoch: epoch - 1, Next: 9, Keys: []string{"equal", "other"}, Prints: []uint64{s.store.print("equal"), 5}, Vector: []Seen{{Node: 3, Seen: 6}}})
	fetched := sentTo[*Fetch](out, 2)
	if len(fetched) != 1 || !slices.Equal(fetched[0].Keys, []string{"other"}) || c.epoch != epoch-1 || len(c.vector) != 1 {
		t.Fatalf("fetches %+v, in %v, vector %v", fetched, c.epoch, c.vector)
	}
	next := sentTo[*Compare](out, 2)
	if len(next) != 1 || next[0].Start != 9 {
		t.Fatalf("compares %+v", next)
	}
	// A Differ that answers a Fetch, and one that does not go on, change nothing or little.
	s.receive(2, &Differ{Session: cmp.Session, Ask: fetched[0].Ask, Epoch: epoch - 2, Next: 50})
	if c.next != 9 || c.epoch != epoch-1 {
		t.Errorf("compares from %d in %v", c.next, c.epoch)
	}
	s.receive(2, &Differ{Session: cmp.Session, Ask: next[0].Ask, Epoch: epoch - 2, Next: 3, Vector: []Seen{{Node: 3, Seen: 7}, {Node: 4}}})
	if c.next != 10 || c.epoch != epoch-1 || len(c.vector) != 1 {
		t.Errorf("compares from %d in %v, vector %v", c.next, c.epoch, c.vector)
	}
}

// TestASessionStopsComparing checks that no further comparison is sent while more than wantMax keys wait.
func TestASessionStopsComparing(t *testing.T) {
	for waiting, compares := range map[int]bool{wantMax: true, wantMax + 1: false} {
		s := newSingle(t, 3, nil)
		s.sessions.current = session{id: 7, peer: 2, chunk: 1, next: 5, own: make([]wanted, waiting/2), want: make([]wanted, waiting-waiting/2), sources: []source{{peer: 2}}}
		s.out = &Effects{}
		s.sessions.requestMore(s.at)
		if got := len(sentTo[*Compare](s.out, 2)) == 1; got != compares {
			t.Errorf("%d keys wait: compares %v", waiting, got)
		}
		s.out, s.sessions.current = nil, session{}
	}
}

// TestALateSourceFetchesItsOwnKeysAlone checks that a primary which is late is asked only for keys that
// no helper has.
func TestALateSourceFetchesItsOwnKeysAlone(t *testing.T) {
	for name, c := range map[string]struct {
		late, own bool
		key       string // "" if none is fetched
	}{
		"in time":                     {false, false, "want"},
		"in time, a key of its own":   {false, true, "own"},
		"late":                        {true, false, ""},
		"late, with a key of its own": {true, true, "own"},
	} {
		s := newSingle(t, 3, nil)
		s.sessions.current = session{id: 7, peer: 2, chunk: 5, want: []wanted{{key: "want"}}, sources: []source{{peer: 2, late: c.late}}}
		if c.own {
			s.sessions.current.own = []wanted{{key: "own"}}
		}
		s.out = &Effects{}
		asked := s.sessions.fetchFrom(s.at, &s.sessions.current.sources[0])
		m := sentTo[*Fetch](s.out, 2)
		if asked != (c.key != "") || asked && !slices.Equal(m[0].Keys, []string{c.key}) || !asked && len(m) != 0 {
			t.Errorf("%s: fetches %+v", name, m)
		}
		s.out, s.sessions.current = nil, session{}
	}
}
