package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// Two replicas that differ in a few elements of one large value, because the deltas
// were lost for good, exchange sums and those elements, and not the value. By count
// of bytes.
func TestLargeValueIsMendedInParts(t *testing.T) {
	t.Parallel()
	n, differ := testsize.Runs(40_000, 40_000, 100_000), 8
	for _, c := range []struct {
		name   string
		fill   func(i int) operation.Op
		change func(id gossip.NodeID, i int) operation.Op
	}{
		{"ORSet, elements added", func(i int) operation.Op { return addTo(1, "k", fmt.Sprint("element-", i)) },
			func(id gossip.NodeID, i int) operation.Op { return addTo(id, "k", fmt.Sprint("new-", id, i)) }},
		{"ORSet, elements removed", func(i int) operation.Op { return addTo(1, "k", fmt.Sprint("element-", i)) },
			func(id gossip.NodeID, i int) operation.Op {
				return removeFrom("k", fmt.Sprint("element-", i*n/differ+int(id)))
			}},
		{"LWWMap, entries written", func(i int) operation.Op { return setIn(1, "k", fmt.Sprint("element-", i), "value", 1, uint64(i+1)) },
			func(id gossip.NodeID, i int) operation.Op {
				return setIn(id, "k", fmt.Sprint("element-", i*n/differ+int(id)), "new", 2, uint64(i+1))
			}},
		{"GSet", func(i int) operation.Op { return largeKinds()["GSet"](1, fmt.Sprint("element-", i)) },
			func(id gossip.NodeID, i int) operation.Op {
				return largeKinds()["GSet"](id, fmt.Sprint("new-", id, i))
			}},
		{"ORMap", func(i int) operation.Op { return largeKinds()["ORMap"](1, fmt.Sprint("element-", i)) },
			func(id gossip.NodeID, i int) operation.Op {
				return largeKinds()["ORMap"](id, fmt.Sprint("new-", id, i))
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, 2, nil)
			w.hasty = true
			for i := 0; i < n; i += 4000 {
				ops := make([]operation.Op, 4000)
				for j := range ops {
					ops[j] = c.fill(i + j)
				}
				w.reply(1, w.update(1, replicator.All, replicator.Fence{}, ops...))
			}
			w.run(time.Second)
			whole := w.nodes[1].core.Key("k").Bytes
			// Every delta of what follows is lost, and the log is forgotten.
			w.cut = func(a, b gossip.NodeID) bool { return true }
			for i := range differ {
				for _, id := range w.order {
					w.update(id, replicator.Local, replicator.Fence{}, c.change(id, i))
				}
			}
			for _, id := range w.order {
				core := w.nodes[id].core
				core.stream.log.dropTo(core.stream.log.last())
				for _, p := range core.members.peers {
					p.acked, p.next = core.stream.log.last(), core.stream.log.last()+1
				}
			}
			w.run(time.Second)
			want := w.nodes[1].core.Value("k").Clone()
			if _, err := want.Join(w.nodes[2].core.Value("k")); err != nil {
				t.Fatal(err)
			}
			w.cut, w.bytes = nil, 0
			w.settle(20 * time.Second)
			for _, id := range w.order {
				if w.nodes[id].core.Value("k").Digest() != want.Digest() {
					t.Fatalf("node %v holds something else than both together", id)
				}
			}
			sent := w.nodes[1].core.Stats().PartsSent + w.nodes[2].core.Stats().PartsSent
			t.Logf("%d bytes on the wire for %d differences in a value of %d bytes, %d answers in parts", w.bytes, 2*differ, whole, sent)
			// Sums both ways, then a part of 1/1024 or less for each difference.
			most := 2*8*partsOf(whole) + 2*differ*whole/partsOf(whole)*4 + 10_000
			if w.bytes > most || w.bytes > whole/20 || sent == 0 {
				t.Errorf("%d bytes, want at most %d; %d answers in parts", w.bytes, min(most, whole/20), sent)
			}
		})
	}
}

// Values that cannot be compared in parts travel whole: another generation, another
// type, or a small one at the other side.
func TestValuesThatCannotBeComparedInPartsTravelWhole(t *testing.T) {
	w := newWorld(t, 1, 2, nil)
	c := w.nodes[1].core
	w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", "e"))
	grain := c.Value("k").(partialValue).Grain()
	for _, m := range []*FetchParts{
		{Key: "k", Gen: 1, Kind: crdt.KindORSet, Grain: grain, Sums: make([]uint64, 4)},
		{Key: "k", Kind: crdt.KindLWWMap, Grain: grain, Sums: make([]uint64, 4)},
		{Key: "k", Kind: crdt.KindORSet, Grain: 255, Sums: make([]uint64, 4)},
		{Key: "k", Kind: crdt.KindORSet, Grain: grain},
		{Key: "k", Kind: crdt.KindORSet, Grain: grain, Sums: make([]uint64, partsMax+1)},
		{Key: "k", Kind: crdt.KindORSet, Grain: grain, Sums: make([]uint64, 4)},
		{Key: "none", Kind: crdt.KindORSet, Grain: grain, Sums: make([]uint64, 4)},
	} {
		var out Effects
		c.Step(w.now, Received{From: 2, Msg: m}, &out)
		v := out.Send[0].Msg.(*Values)
		if m.Key == "none" {
			if v.Answered != 1 || len(v.Items) != 0 {
				t.Errorf("%+v", v)
			}
			continue
		}
		got, err := crdt.Decode(v.Items[0].Kind, v.Items[0].Bytes)
		if err != nil || got.Digest() != c.Value("k").Digest() {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
