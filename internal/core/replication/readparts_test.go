package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// largeKinds fill and change one large value of each type, one key at a time.
func largeKinds() map[string]func(id gossip.NodeID, e string) operation.Op {
	return map[string]func(id gossip.NodeID, e string) operation.Op{
		"ORSet":  func(id gossip.NodeID, e string) operation.Op { return addTo(id, "k", e) },
		"LWWMap": func(id gossip.NodeID, e string) operation.Op { return setIn(id, "k", e, "value", uint64(id), 1) },
		"GSet": func(_ gossip.NodeID, e string) operation.Op {
			return Mutate("k", crdt.KindGSet, len(e), func(v crdt.Value) crdt.Value { return v.(*crdt.GSet[string]).Add(e) })
		},
		"ORMap": func(id gossip.NodeID, e string) operation.Op {
			return Mutate("k", crdt.KindORMap, len(e)+24, func(v crdt.Value) crdt.Value {
				return v.(*crdt.ORMap[string, string]).At(e, "tags").Add(crdt.NodeID(id), "x")
			})
		},
		"PNCounterMap": func(id gossip.NodeID, e string) operation.Op { return countIn(id, "k", e, 1) },
	}
}

// largeWorld holds one large value at five members, level; nothing spreads but by
// requests, and nothing of what was changed is in a log.
func largeWorld(t *testing.T, fill func(id gossip.NodeID, e string) operation.Op) *world {
	w := newWorld(t, 1, 5, func(c *Config) { c.NoGossip = true })
	w.hasty = true
	for i := 0; i < 20_000; i += 4000 {
		ops := make([]operation.Op, 4000)
		for j := range ops {
			ops[j] = fill(1, fmt.Sprint("element-", i+j))
		}
		if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, ops...)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	w.run(time.Second)
	return w
}

// alone makes a change that no delta brings to others.
func (w *world) alone(id gossip.NodeID, op operation.Op) {
	w.cut = func(a, b gossip.NodeID) bool { return true }
	w.update(id, replicator.Local, replicator.Fence{}, op)
	c := w.nodes[id].core
	c.stream.log.dropTo(c.stream.log.last())
	for _, p := range c.members.peers {
		p.acked, p.next = c.stream.log.last(), c.stream.log.last()+1
	}
	w.run(100 * time.Millisecond)
	w.cut = nil
}

// A majority read of a large value costs fingerprints where replicas are level, and
// where they are not, sums and the parts that differ: to the reader, and to those who
// are stale, be it the reader or a replica that held the same as the reader. By count of
// bytes.
func TestMajorityReadOfALargeValueCostsWhatDiffers(t *testing.T) {
	t.Parallel()
	for name, fill := range largeKinds() {
		t.Run(name, func(t *testing.T) {
			w := largeWorld(t, fill)
			whole := w.nodes[1].core.Key("k").Bytes
			if whole < 100_000 {
				t.Fatalf("%d bytes are not large", whole)
			}
			w.bytes = 0
			if r := w.reply(2, w.read(2, majority, replicator.Fence{}, "k")); r.Err != nil || w.bytes > 1000 {
				t.Fatalf("%d bytes where all are level, %v", w.bytes, r.Err)
			}
			// The reader has something of its own, one it asks has something else, and
			// another one what the reader had.
			w.alone(2, fill(2, "of the reader"))
			w.alone(3, fill(3, "of another"))
			w.bytes = 0
			r := w.reply(2, w.read(2, majority, replicator.Fence{}, "k"))
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			want := w.nodes[3].core.Value("k").Digest()
			if r.Values[0].Digest() != want || w.nodes[1].core.Value("k").Digest() != want || w.nodes[2].core.Value("k").Digest() != want {
				t.Error("not level after the read")
			}
			t.Logf("%d bytes for a read of a value of %d bytes", w.bytes, whole)
			if w.bytes > whole/10 {
				t.Errorf("%d bytes", w.bytes)
			}
			// One that holds nothing gets the whole.
			w.start(9)
			w.setView(w.next(func(v *gossip.View) { remove(1, 4, 5)(v); add(gossip.Up, 9)(v) }))
			if r := w.reply(9, w.read(9, majority, replicator.Fence{}, "k")); r.Err != nil || r.Values[0].Digest() != want {
				t.Errorf("%v", r.Err)
			}
		})
	}
}

// The parts of a read are lost, come twice, and the values change meanwhile, also into
// something that has no parts: reads stay right.
func TestReadsInPartsUnderFaults(t *testing.T) {
	for seed := range uint64(15) {
		w := newWorld(t, seed, 3, func(c *Config) { c.NoGossip, c.NoStream, c.PartialMin = true, true, 1 })
		w.drop, w.dup, w.delayMax = 0.2, 0.3, 5*time.Millisecond
		for range 120 {
			id := w.order[w.rng.IntN(3)]
			e := fmt.Sprint("e", w.rng.IntN(200))
			key := []string{"a", "b"}[w.rng.IntN(2)]
			switch w.rng.IntN(12) {
			case 0:
				w.update(id, replicator.Local, replicator.Fence{}, operation.Op{Key: key, Delete: true})
			case 1, 2:
				w.update(id, replicator.Local, replicator.Fence{}, removeFrom(key, e))
			case 3, 4, 5:
				rid := w.read(id, majority, replicator.Fence{}, "a", "b")
				var atLeast []crdt.Value
				var gens []uint64
				for _, k := range []string{"a", "b"} {
					v := w.nodes[id].core.Value(k)
					if v != nil {
						v = v.Clone()
					}
					atLeast, gens = append(atLeast, v), append(gens, w.nodes[id].core.Key(k).Generation)
				}
				w.onAnswer(id, rid, func(r Reply) {
					if r.Err != nil {
						return
					}
					holders := []int{0, 0}
					for i, k := range []string{"a", "b"} {
						if r.Values[i] != nil && atLeast[i] != nil && w.nodes[id].core.Key(k).Generation == gens[i] {
							if more, _ := r.Values[i].Clone().Join(atLeast[i]); more {
								t.Errorf("seed %d: the read has lost something", seed)
							}
						}
						for _, o := range w.order {
							v := w.nodes[o].core.Value(k)
							if r.Values[i] == nil {
								holders[i]++
							} else if v == nil || w.nodes[o].core.Key(k).Generation > gens[i] {
								holders[i]++ // deleted since
							} else if more, _ := v.Clone().Join(r.Values[i]); !more {
								holders[i]++
							}
						}
						if holders[i] < 2 {
							t.Errorf("seed %d: what was read stands at %d replicas", seed, holders[i])
						}
					}
				})
			default:
				w.update(id, replicator.Local, replicator.Fence{}, addTo(id, key, e))
			}
			w.run(time.Duration(w.rng.IntN(4)) * time.Millisecond)
		}
		w.drop = 0
		w.run(3 * time.Second)
		if r := w.reply(1, w.read(1, replicator.All, replicator.Fence{}, "a", "b")); r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, k := range []string{"a", "b"} {
			for _, id := range w.order {
				if w.nodes[id].core.Key(k).Print != w.nodes[1].core.Key(k).Print {
					t.Errorf("seed %d: node %v differs in %s after a read at all", seed, id, k)
				}
			}
		}
	}
}
