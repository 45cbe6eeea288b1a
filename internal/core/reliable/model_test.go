package reliable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/failure"
)

// world is one producer, some shards with their homes, and a network that loses,
// doubles and reorders copies and answers.
type world struct {
	t   testing.TB
	rng *rand.Rand
	now clock.Instant
	s   *Sender
	// homes[i] is where shard i runs; nodes are never used again.
	homes []*home
	nodes gossip.NodeID
	wire  []func()
	lossy bool
	// stashes: handlers put messages aside, which ends order.
	stashes bool
	// offered, per entity, is what was taken; ran what ran, in order. crashes[id] marks
	// the places in ran before which the home crashed.
	offered map[string]int
	ran     map[string][]int
	crashes map[string][]int
	done    map[string]int
	wrong   string
}

// home is one home of one shard.
type home struct {
	node   gossip.NodeID
	memory *Memory
	gone   bool
	boxes  map[string][]letter
	// stash holds what the handler put aside.
	stash map[string][]letter
}

type letter struct {
	stamp   Stamp
	data    []byte
	resumed bool
}

const worldShards, worldEntities = 3, 4

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), lossy: true, stashes: seed%3 == 0,
		offered: map[string]int{}, ran: map[string][]int{}, crashes: map[string][]int{}, done: map[string]int{},
	}
	w.s = NewSender(Config{
		Producer: 7, Window: 1 + w.rng.IntN(12), Messages: 1 + w.rng.IntN(30), Bytes: 8 * 40,
		Resend: 100 * time.Millisecond, KeepDone: w.rng.IntN(2) == 0,
	})
	for range worldShards {
		w.homes = append(w.homes, w.newHome())
	}
	return w
}

func (w *world) newHome() *home {
	w.nodes++
	return &home{node: w.nodes, memory: &Memory{}, boxes: map[string][]letter{}, stash: map[string][]letter{}}
}

func shardOf(id string) protocol.ShardID { return protocol.ShardID(id[0] - '0') }

func (w *world) step(ev Event) {
	var out Effects
	w.s.Step(w.now, ev, &out)
	for _, d := range out.Done {
		w.done[d.ID]++
		if w.s.cfg.KeepDone {
			w.s.Step(w.now, Released{1, len(d.Data)}, &Effects{})
		}
	}
}

func (w *world) offer() {
	id := fmt.Sprintf("%d.%d", w.rng.IntN(worldShards), w.rng.IntN(worldEntities))
	var out Effects
	w.s.Step(w.now, Offer{shardOf(id), id, binary.BigEndian.AppendUint64(nil, uint64(w.offered[id]+1))}, &out)
	if out.Taken {
		w.offered[id]++
	}
}

// pump sends what is to be sent.
func (w *world) pump() {
	for {
		t, ok := w.s.Next(w.now)
		if !ok {
			return
		}
		h := w.homes[t.Shard]
		if w.lossy && w.rng.IntN(10) == 0 {
			w.step(Blocked{Shard: t.Shard})
			continue
		}
		w.step(Sent{t.Shard, t.Stamp.Seq, h.node})
		var head [StampBytes]byte
		t.Stamp.Put(head[:])
		stamp, err := ParseStamp(head[:])
		if err != nil || stamp != t.Stamp {
			w.t.Fatalf("stamp %+v came as %+v: %v", t.Stamp, stamp, err)
		}
		w.send(func() { w.arrive(h, t.ID, letter{stamp: t.Stamp, data: t.Data}) })
	}
}

// send puts something on the wire: lost, once or twice.
func (w *world) send(f func()) {
	if w.lossy && w.rng.IntN(5) == 0 {
		return
	}
	w.wire = append(w.wire, f)
	if w.lossy && w.rng.IntN(5) == 0 {
		w.wire = append(w.wire, f)
	}
}

func (w *world) deliver() {
	if len(w.wire) == 0 {
		return
	}
	i := w.rng.IntN(len(w.wire))
	f := w.wire[i]
	w.wire = slices.Delete(w.wire, i, i+1)
	f()
}

func (w *world) arrive(h *home, id string, l letter) {
	switch {
	case h.gone:
		w.send(func() { w.step(Refused{shardOf(id), l.stamp.Seq, l.stamp.Try, false}) })
	case w.lossy && w.rng.IntN(10) == 0: // mailbox full
		w.send(func() { w.step(Refused{shardOf(id), l.stamp.Seq, l.stamp.Try, false}) })
	default:
		h.boxes[id] = append(h.boxes[id], l)
	}
}

// handle works off one message of an entity.
func (w *world) handle(h *home, id string) {
	box := h.boxes[id]
	if len(box) == 0 {
		return
	}
	l := box[0]
	h.boxes[id] = box[1:]
	shard, stamp := shardOf(id), l.stamp
	switch h.memory.Check(id, stamp, l.resumed) {
	case Duplicate:
		all := h.memory.All(id, stamp.Producer)
		w.send(func() { w.step(Confirmed{shard, stamp.Seq, h.node, all, failure.ResultLost}) })
	case Gap:
		w.send(func() { w.step(Refused{shard, stamp.Seq, stamp.Try, true}) })
	case Run:
		if !l.resumed && w.lossy && w.stashes && w.rng.IntN(15) == 0 {
			h.memory.Ran(id, stamp, true)
			l.resumed = true
			h.stash[id] = append(h.stash[id], l)
			return
		}
		h.memory.Ran(id, stamp, false)
		w.ran[id] = append(w.ran[id], int(binary.BigEndian.Uint64(l.data)))
		all := h.memory.All(id, stamp.Producer)
		w.send(func() { w.step(Confirmed{shard, stamp.Seq, h.node, all, nil}) })
	}
}

// unstash gives an entity back what it put aside, or fails it.
func (w *world) unstash(h *home, id string, fails bool) {
	stash := h.stash[id]
	delete(h.stash, id)
	if !fails {
		h.boxes[id] = append(slices.Clone(stash), h.boxes[id]...)
		return
	}
	for _, l := range stash {
		h.memory.Undo(id, l.stamp)
		w.send(func() { w.step(Refused{shardOf(id), l.stamp.Seq, l.stamp.Try, false}) })
	}
}

func (w *world) entities(shard int, f func(id string)) {
	for e := range worldEntities {
		f(fmt.Sprintf("%d.%d", shard, e))
	}
}

// move hands a shard over in order: what is in mailboxes is handled first.
func (w *world) move(shard int) {
	old := w.homes[shard]
	w.entities(shard, func(id string) {
		for len(old.boxes[id]) > 0 {
			w.handle(old, id)
		}
		w.unstash(old, id, true)
	})
	old.gone = true
	w.homes[shard] = w.newHome()
	if err := w.homes[shard].memory.Restore(old.memory.Append(nil)); err != nil {
		w.t.Fatal(err)
	}
	w.step(Freed{Shard: protocol.ShardID(shard)})
}

// crash takes a home down with all it knows.
func (w *world) crash(shard int) {
	old := w.homes[shard]
	old.gone = true
	w.entities(shard, func(id string) { w.crashes[id] = append(w.crashes[id], len(w.ran[id])) })
	w.homes[shard] = w.newHome()
	w.step(Lost{old.node})
}

// play lets n things happen.
func (w *world) play(n int) {
	for range n {
		h := w.homes[w.rng.IntN(worldShards)]
		switch k := w.rng.IntN(100); {
		case k < 20:
			w.offer()
		case k < 55:
			w.deliver()
		case k < 80:
			w.entities(int(slices.Index(w.homes, h)), func(id string) { w.handle(h, id) })
		case k < 95:
			w.pass(time.Duration(w.rng.IntN(20)) * time.Millisecond)
		case k < 97:
			shard := slices.Index(w.homes, h)
			w.entities(shard, func(id string) { w.unstash(h, id, w.rng.IntN(3) == 0) })
		case k < 98:
			w.move(slices.Index(w.homes, h))
		case k == 98 && w.rng.IntN(2) == 0:
			w.crash(slices.Index(w.homes, h))
		}
		w.pump()
		w.check()
	}
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	if !w.now.Before(w.s.Deadline()) {
		w.step(Tick{})
	}
}

// heal lets all that is out arrive, and waits for the end.
func (w *world) heal() {
	w.lossy = false
	for range 3000 {
		for len(w.wire) > 0 {
			w.deliver()
		}
		for shard, h := range w.homes {
			w.entities(shard, func(id string) {
				w.unstash(h, id, false)
				for len(h.boxes[id]) > 0 {
					w.handle(h, id)
				}
			})
		}
		w.pass(10 * time.Millisecond)
		w.pump()
		if held, _ := w.s.Held(); held == 0 && len(w.wire) == 0 {
			return
		}
	}
	w.fail("messages are unconfirmed for ever: %+v", w.s)
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// check looks at the bounds.
func (w *world) check() {
	held, bytes := w.s.Held()
	if held > w.s.cfg.Messages || bytes > w.s.cfg.Bytes || held < 0 || bytes < 0 {
		w.fail("%d messages of %d bytes are held", held, bytes)
	}
	for _, h := range w.homes {
		for _, p := range h.memory.producers {
			if len(p.last) > 2*w.s.cfg.Window || len(p.order) > 2*w.s.cfg.Window {
				w.fail("%d records, %d in order with a window of %d", len(p.last), len(p.order), w.s.cfg.Window)
			}
		}
	}
	if w.s.Deadline() != clock.Never && held == 0 {
		w.fail("a deadline with nothing to wait for")
	}
}

// verdict checks what ran: all of it, in order, and twice only behind a crash. What
// was put aside may run later than what came behind it, so order is checked where
// nothing was.
func (w *world) verdict() {
	for id, n := range w.offered {
		times := map[int]int{}
		for _, v := range w.ran[id] {
			times[v]++
		}
		for v := 1; v <= n; v++ {
			if times[v] == 0 {
				w.fail("%s: %d never ran, of %d", id, v, n)
			}
			if times[v] > 1+len(w.crashes[id]) {
				w.fail("%s: %d ran %d times with %d crashes: %v", id, v, times[v], len(w.crashes[id]), w.ran[id])
			}
		}
		if !w.stashes {
			w.inOrder(id)
		}
		if w.done[id] != n {
			w.fail("%s: %d of %d confirmed", id, w.done[id], n)
		}
	}
}

// inOrder checks that an entity's messages ran in order, and that a crash turned the
// clock back and never forward.
func (w *world) inOrder(id string) {
	last := 0
	for i, v := range w.ran[id] {
		if v != last+1 && (v > last || !slices.Contains(w.crashes[id], i)) {
			w.fail("%s: %d ran after %d: %v, crashes at %v", id, v, last, w.ran[id], w.crashes[id])
		}
		last = v
	}
}

func playSeed(t testing.TB, seed uint64) string {
	w := newWorld(t, seed)
	for range 4 {
		w.play(150)
		w.heal()
		w.lossy = true
	}
	w.verdict()
	return w.wrong
}

// TestNothingIsLostOrRunTwice plays random schedules: with loss, doubling,
// reordering, moves, crashes, full mailboxes and messages put aside.
func TestNothingIsLostOrRunTwice(t *testing.T) {
	for seed := range uint64(1500) {
		if wrong := playSeed(t, seed); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}
