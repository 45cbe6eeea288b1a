package replication

import (
	"strings"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// TestSizesGrowWithTheContent checks that the estimate of a message's size has at least the bytes of its
// keys and of its numbers, for each message that can be long.
func TestSizesGrowWithTheContent(t *testing.T) {
	const n = 10_000
	keys, sums := []string{strings.Repeat("k", n)}, make([]uint64, n/8)
	for name, c := range map[string]struct {
		empty, full Message
	}{
		"ReadRequest":        {&ReadRequest{}, &ReadRequest{Keys: keys}},
		"ReadResult, prints": {&ReadResult{}, &ReadResult{Prints: sums}},
		"Differ, keys":       {&Differ{}, &Differ{Keys: keys}},
		"Differ, vector":     {&Differ{}, &Differ{Vector: make([]Seen, n/24)}},
		"Differ, fences":     {&Differ{}, &Differ{Fences: make([]replicator.Fence, n/24)}},
		"Fetch":              {&Fetch{}, &Fetch{Keys: keys}},
		"ReadParts, key":     {&ReadParts{}, &ReadParts{Key: keys[0]}},
		"ReadParts, sums":    {&ReadParts{}, &ReadParts{Sums: sums}},
		"PartsResult":        {&PartsResult{}, &PartsResult{Differ: make([]byte, n)}},
		"FetchParts, key":    {&FetchParts{}, &FetchParts{Key: keys[0]}},
		"FetchParts, sums":   {&FetchParts{}, &FetchParts{Sums: sums}},
		"Values":             {&Values{}, &Values{Items: []Item{{Key: keys[0]}}}},
		"Repair":             {&Repair{}, &Repair{Items: []Item{{Key: keys[0]}}}},
		"ReadResult, items":  {&ReadResult{}, &ReadResult{Items: []Item{{Key: keys[0]}}}},
		"PartsResult, items": {&PartsResult{}, &PartsResult{Items: []Item{{Key: keys[0]}}}},
	} {
		if more := sizeOf(c.full) - sizeOf(c.empty); more < n-24 || more > n+200 {
			t.Errorf("%s: %d bytes more, want about %d", name, more, n)
		}
	}
}

// TestItemsThatNoReplicaCanHold checks the bounds of eras and generations.
func TestItemsThatNoReplicaCanHold(t *testing.T) {
	for name, c := range map[string]struct {
		in   Item
		good bool
		v    crdt.Value
	}{
		"a stamp of the last era":     {in: Item{Kind: crdt.KindLWWRegister, Era: eraMax}, good: true, v: registerOf(5)},
		"a stamp of an era beyond it": {in: Item{Kind: crdt.KindLWWRegister, Era: eraMax + 1}, v: registerOf(5)},
		"deleted":                     {Item{}, true, nil},
		"the highest generation":      {Item{Kind: crdt.KindORSet, Gen: timeMax - 1}, true, nil},
		"the highest deletion":        {Item{Gen: timeMax - 2}, true, nil},
		"deleted in an open one":      {Item{Gen: 7}, false, nil},
		"no generation":               {Item{Gen: timeMax}, false, nil},
		"the newest stamp":            {Item{Kind: crdt.KindLWWRegister}, true, registerOf(timeMax - 1)},
		"a stamp that is none":        {Item{Kind: crdt.KindLWWRegister}, false, registerOf(timeMax)},
		"an era without a stamp":      {Item{Era: 1}, false, nil},
		"a generation far beyond all": {Item{Gen: 1<<64 - 1}, false, nil},
	} {
		if err := malformed(&c.in, c.v); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFingerprintsAreEqualOnAllNodes checks that a fingerprint depends on each property of a state, and
// never changes between releases: replicas of two releases compare them.
func TestFingerprintsAreEqualOnAllNodes(t *testing.T) {
	seen := map[uint64]bool{}
	for _, in := range [][4]uint64{{1, 2, 3, 4}, {9, 2, 3, 4}, {1, 9, 3, 4}, {1, 2, 9, 4}, {1, 2, 3, 9}} {
		seen[fingerprint(in[0], in[1], crdt.Kind(in[2]), in[3])] = true
	}
	if len(seen) != 5 || seen[0] {
		t.Errorf("%d fingerprints of 5 states, or one that stands for no key", len(seen))
	}
	if got := fingerprint(1, 2, 3, 4); got != 0x81b2393f6728c071 {
		t.Errorf("a fingerprint is %#x, which no other release has", got)
	}
}

// TestQueriesForStampsAreComparedWhole checks when an update needs other stamps than those that it has.
func TestQueriesForStampsAreComparedWhole(t *testing.T) {
	a := stampAsk{Key: "k", Entries: []string{"a", "b"}}
	for name, c := range map[string]struct {
		b    stampAsk
		want bool
	}{
		"equal": {stampAsk{Key: "k", Entries: []string{"a", "b"}}, true}, "another key": {stampAsk{Key: "l", Entries: a.Entries}, false},
		"fewer entries": {stampAsk{Key: "k", Entries: []string{"a"}}, false}, "another order": {stampAsk{Key: "k", Entries: []string{"b", "a"}}, false},
	} {
		if sameAsk(a, c.b) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}
