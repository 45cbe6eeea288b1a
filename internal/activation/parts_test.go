package activation

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/peerage-go/peerage/internal/core/reliable"
)

// TestMailboxPoolKeepsFewSmallMailboxes checks that a burst leaves no large or surplus
// mailboxes with the shard, and that a mailbox comes back empty.
func TestMailboxPoolKeepsFewSmallMailboxes(t *testing.T) {
	p := mailboxPool[int]{shared: &sync.Pool{New: func() any { return new(mailbox[int]) }}}
	large := p.borrow()
	large.msgs = make([]Message[int], spareRoomMax+1)
	p.giveBack(large)
	if len(p.spare) != 0 {
		t.Fatalf("%d spare mailboxes after a large one", len(p.spare))
	}
	var lent []*mailbox[int]
	for range spareMailboxesMax + 2 {
		b := p.borrow()
		b.insertControl(0, Message[int]{Req: 1})
		b.reserved = 1
		lent = append(lent, b)
	}
	for _, b := range lent {
		p.giveBack(b)
	}
	if len(p.spare) != spareMailboxesMax {
		t.Errorf("%d spare mailboxes, want %d", len(p.spare), spareMailboxesMax)
	}
	if b := p.borrow(); len(b.msgs) != 0 || b.control != 0 || b.reserved != 0 {
		t.Errorf("borrowed %+v", b)
	}
}

// TestStateTable checks which states are found and which leave with the shard.
func TestStateTable(t *testing.T) {
	s := stateTable{arrived: map[string][]byte{"a": {1}, "b": {2}}}
	s.addLeaving("c", []byte{3})
	if _, ok := s.stateOf("c"); ok {
		t.Error("a state was put before the shard leaves")
	}
	s.dropState("a")
	s.startLeaving()
	s.addLeaving("c", []byte{3})
	for id, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if _, ok := s.stateOf(id); ok != want {
			t.Errorf("state of %s found: %v", id, ok)
		}
	}
	if n := s.countMissing(slices.Values([]string{"a", "b", "c", "d"})); n != 2 {
		t.Errorf("%d states are missing, want 2", n)
	}
	s.dropState("b")
	if len(s.leaving) != 1 {
		t.Errorf("leaving %v", s.leaving)
	}
}

// TestDeduplicator checks the outcomes of copies, and that a memory survives a transfer.
func TestDeduplicator(t *testing.T) {
	var mu sync.Mutex
	var outcomes []Outcome
	confirm := func(_ gossip.NodeID, _ ShardID, _ *ReliableMark, o Outcome, _ bool, _ error) {
		outcomes = append(outcomes, o)
	}
	counters := &Counters{}
	d := deduplicator{mu: &mu, counters: counters, confirm: confirm}
	mark := func(seq uint64) *ReliableMark {
		return &ReliableMark{Stamp: reliable.Stamp{Producer: 7, Seq: seq}}
	}
	first := mark(1)
	if !d.admitCopy(0, "a", first) {
		t.Fatal("the first copy was not admitted")
	}
	d.onHandled(0, first, false, nil)
	if d.admitCopy(0, "a", mark(1)) {
		t.Error("a second copy was admitted")
	}
	next := deduplicator{mu: &mu, counters: counters, confirm: confirm}
	states := map[string][]byte{memoryKey: d.encodeMemory()}
	if err := next.restoreFrom(states); err != nil || len(states) != 0 {
		t.Fatalf("restore: %v, left %v", err, states)
	}
	if next.admitCopy(0, "a", mark(1)) {
		t.Error("a copy was admitted after the transfer")
	}
	d.dropMemory()
	for range 2 {
		if d.admitCopy(0, "a", mark(2)) {
			t.Error("a message was admitted after the end of the shard")
		}
	}
	want := []Outcome{ReliableHandled, ReliableRepeated, ReliableRepeated, ReliableRefused, ReliableRefused}
	if !slices.Equal(outcomes, want) || counters.Repeated.Load() != 2 {
		t.Errorf("outcomes %v, want %v; %d repeated", outcomes, want, counters.Repeated.Load())
	}
}

// TestForgottenProducersAreCounted checks that producers which are evicted from the memory of a shard count as
// forgotten, whether a new producer or a new record takes their room.
func TestForgottenProducersAreCounted(t *testing.T) {
	for name, producers := range map[string]uint64{"by a producer": reliable.ProducersMax + 1, "by a record": 2} {
		var mu sync.Mutex
		counters := &Counters{}
		d := deduplicator{mu: &mu, counters: counters, confirm: func(gossip.NodeID, ShardID, *ReliableMark, Outcome, bool, error) {}}
		handle := func(producer, seq uint64) {
			m := &ReliableMark{Stamp: reliable.Stamp{Producer: reliable.Producer(producer), Seq: seq}}
			id := fmt.Sprint("e", seq)
			if !d.admitCopy(0, id, m) {
				t.Fatalf("%s: message %d of producer %d was not admitted", name, seq, producer)
			}
			d.onHandled(0, m, false, nil)
		}
		for p := range producers {
			handle(p+1, 1)
		}
		if name == "by a record" {
			for seq := uint64(2); seq <= reliable.RecordsMax; seq++ {
				if n := counters.Forgotten.Load(); n != 0 {
					t.Fatalf("%s: %d are forgotten while there is room for record %d", name, n, seq)
				}
				handle(2, seq)
			}
		}
		if n := counters.Forgotten.Load(); n != 1 {
			t.Errorf("%s: %d are forgotten, want 1", name, n)
		}
	}
}

// TestEvictionOrderSkipsStashes checks that instances with a stash, and the one for which
// room is made, stay in the order.
func TestEvictionOrderSkipsStashes(t *testing.T) {
	var none *evictionOrder[*Context, int, int]
	in := &instance[*Context, int, int]{id: "x"}
	if none.limited() || none.addInstance(in) || in.cold != nil {
		t.Error("an order without a limit has a place")
	}
	o := newEvictionOrder[*Context, int, int](evict.LRU, 4)
	all := map[string]*instance[*Context, int, int]{}
	for _, id := range []string{"a", "b", "c", "d"} {
		all[id] = &instance[*Context, int, int]{id: id}
		o.recordUse(all[id])
	}
	all["a"].cold.stash = make([]Message[int], 1)
	if o.exceeds(4) || !o.exceeds(2) {
		t.Fatal("a limit of 2 is exceeded by 4 instances, a limit of 4 is not")
	}
	var evicted []string
	for _, in := range o.evictTo(2, all["b"]) {
		evicted = append(evicted, in.id)
	}
	if !slices.Equal(evicted, []string{"c", "d"}) || o.exceeds(2) {
		t.Errorf("evicted %v", evicted)
	}
	o.dropInstance(all["a"])
	if o.addInstance(all["b"]) || !o.addInstance(all["a"]) {
		t.Error("b has lost its place, or a has kept it")
	}
}

// TestWaitTableTakesTurns checks that ordinary messages and those of handlers take turns,
// and that a waiter is not overtaken.
func TestWaitTableTakesTurns(t *testing.T) {
	pool := mailboxPool[int]{shared: &sync.Pool{New: func() any { return new(mailbox[int]) }}}
	w := waitTable[*Context, int, int]{cfg: &Config[*Context, int, int]{Type: "t", Mailbox: 4, Counters: &Counters{}}, mailboxes: &pool}
	in := &instance[*Context, int, int]{id: "a", state: running}
	handler := &Sender{Type: "t", ID: "b"}
	wait := func(req int, from *Sender) *waiter[int] {
		m := Message[int]{Req: req, From: from}
		q := &waiter[int]{m: m, done: make(chan error, 1), class: classOf(&m, "t", in.id, false)}
		in.flags.Or(flagWaited)
		w.enqueue(in, q)
		return q
	}
	for req := range 3 {
		wait(req, nil)
		wait(10+req, handler)
	}
	if room := w.findRoom(in, &Message[int]{Req: 99}, false); room != noRoom {
		t.Errorf("room %v for a message that overtakes", room)
	}
	if n := w.admitAll(in); n != 5 { // the mailbox, and the reserve of one
		t.Errorf("%d admitted", n)
	}
	var reqs []int
	for _, m := range in.mailbox.msgs {
		reqs = append(reqs, m.Req)
	}
	if !slices.Equal(reqs, []int{0, 10, 1, 11, 12}) {
		t.Errorf("mailbox %v", reqs)
	}
	w.releaseAll()
	if len(w.queues) != 0 || in.hasFlag(flagWaited) {
		t.Error("waiters are left")
	}
}
