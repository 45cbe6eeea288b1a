package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// fiveAtRest returns five members that hold the same keys and have nothing more to
// tell each other but that.
func fiveAtRest(t *testing.T, keys int) *world {
	w := newWorld(t, 1, 5, nil)
	w.hasty = true
	var items []Item
	for i := range keys {
		s := &crdt.ORSet[string]{}
		s.Add(1, "e")
		items = append(items, Item{Key: fmt.Sprintf("key-%08d", i), Kind: crdt.KindORSet, Bytes: s.Append(nil)})
	}
	for _, id := range w.order {
		if err := w.nodes[id].core.Restore(items); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range w.order {
		// All streams have been used: their numbers are in every vector.
		w.update(id, replicator.Local, replicator.Fence{}, addTo(id, "users", fmt.Sprint(i)))
	}
	w.settle(10 * time.Second)
	return w
}

// What five members say, and how often their cores are stepped, in a minute at rest.
func TestRestCostsTheSameForAnyNumberOfKeys(t *testing.T) {
	t.Parallel()
	const rest = time.Minute
	var bytes, steps [2]int
	for i, keys := range []int{1, 100_000} {
		w := fiveAtRest(t, keys)
		if s := w.nodes[5].core.Stats(); s.Keys != keys+1 {
			t.Fatalf("%d keys", s.Keys)
		}
		before := w.bytes
		w.afterStep = func(*simNode) { steps[i]++ }
		w.run(rest)
		bytes[i] = w.bytes - before
	}
	perSecond := float64(bytes[1]) / 5 / rest.Seconds()
	t.Logf("%.0f bytes and %.1f steps a second at each member", perSecond, float64(steps[1])/5/rest.Seconds())
	if perSecond >= 1000 {
		t.Errorf("%.0f bytes a second", perSecond)
	}
	// The number of keys itself is in each Status, in up to two bytes more.
	if bytes[1] > bytes[0]*11/10 || steps[1] > steps[0]*11/10 {
		t.Errorf("100,000 keys cost %d bytes and %d steps, one key %d and %d", bytes[1], steps[1], bytes[0], steps[0])
	}
}

// writesInto returns the bytes that each of 1000 majority writes at once costs, among
// three members, into a map of so many entries.
func writesInto(t *testing.T, entries int) float64 {
	const writes = 1000
	w := newWorld(t, 1, 3, nil)
	w.hasty = true
	m := &crdt.LWWMap[string, string]{}
	for i := range entries {
		m.Set(fmt.Sprintf("entry-%06d", i), "value", crdt.Stamp{Time: 1, Node: 1})
	}
	item := Item{Key: "m", Kind: crdt.KindLWWMap, Bytes: m.Append(nil)}
	for _, id := range w.order {
		if err := w.nodes[id].core.Restore([]Item{item}); err != nil {
			t.Fatal(err)
		}
	}
	// The stream has been used: its number is in every vector.
	if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, setIn(1, "m", "entry", "other", 2, 1))); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.settle(10 * time.Second)
	before := w.bytes
	ids := make([]RequestID, writes)
	for i := range ids {
		ids[i] = w.update(1, majority, replicator.Fence{}, setIn(1, "m", fmt.Sprintf("entry-%06d", i*(entries/writes)), "other", 2, 1))
	}
	for _, rid := range ids {
		if r := w.reply(1, rid); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	w.settle(time.Second)
	if v, _ := w.nodes[3].core.Value("m").(*crdt.LWWMap[string, string]).Get(fmt.Sprintf("entry-%06d", entries/writes)); v != "other" {
		t.Errorf("read %q", v)
	}
	return float64(w.bytes-before) / writes
}

// A thousand majority writes at once cost what they change, and nothing on account of
// the map they go into.
func TestConcurrentWritesToALargeMapCostTheirDeltas(t *testing.T) {
	small, large := writesInto(t, 1000), writesInto(t, 100_000)
	t.Logf("%.0f bytes a write into 1,000 entries, %.0f into 100,000", small, large)
	if large > 1.1*small || large > 500 {
		t.Errorf("%.0f bytes a write into 100,000 entries, %.0f into 1,000", large, small)
	}
}
