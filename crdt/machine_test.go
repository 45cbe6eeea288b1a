package crdt

import (
	"testing"

	"pgregory.net/rapid"
)

// TestReplicasAgreeWithTheFacts drives every type through lost, doubled, reordered
// and batched messages, chunked transfers that break off, restarts, pruning and wrong
// clocks. Longer: go test -run Facts -rapid.checks=100000
func TestReplicasAgreeWithTheFacts(t *testing.T) {
	for _, sub := range subjects() {
		t.Run(sub.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(sub, rapid.IntRange(2, 4).Draw(t, "replicas"))
				length := rapid.IntRange(10, 400).Draw(t, "length")
				script := rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, "script")
				if err := w.run(script); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// run plays a script of bytes and then lets the replicas exchange all they have.
func (w *world) run(script []byte) error {
	choose := func(n int) int {
		if len(script) == 0 || n < 2 {
			return 0
		}
		k := int(script[0]) % n
		script = script[1:]
		return k
	}
	for len(script) > 0 && w.err == nil {
		w.step(choose)
	}
	if w.err == nil {
		w.logf("settle")
		w.settle()
	}
	return w.err
}
