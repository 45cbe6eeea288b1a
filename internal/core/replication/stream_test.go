package replication

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/replicator"
)

// entryOf returns an entry for a key that takes size bytes in the log.
func entryOf(key string, size int) *Entry {
	e := &Entry{Items: []Item{{Key: key, Gen: 1}}}
	e.Items[0].Bytes = make([]byte, size-e.encodedSize())
	return e
}

// streamTo returns the stream of node 1 to nodes 2..n, with entries of 100 bytes in its log.
func streamTo(cfg Config, n gossip.NodeID, entries int) (*stream, *env) {
	e, ms := newParts(cfg, n)
	st := newStream(e, ms)
	for range entries {
		st.appendEntry(1, entryOf("k", 100))
	}
	return st, e
}

// deltasIn returns the first numbers and lengths of the runs that were sent to a node.
func deltasIn(e *env, to gossip.NodeID) (runs [][2]int) {
	for _, s := range e.out.Send {
		if m, is := s.Msg.(*Deltas); is && s.To == to {
			runs = append(runs, [2]int{int(m.From), len(m.Entries)})
		}
	}
	return runs
}

// The applied entries of a stream, as ranges of them arrive.
func TestTracksOfRanges(t *testing.T) {
	for _, c := range []struct {
		from     track
		lo, hi   uint64
		want     track
		gap, top uint64
	}{
		{track{}, 1, 3, track{3, 0, 0}, 0, 3},
		{track{3, 0, 0}, 2, 3, track{3, 0, 0}, 0, 3},
		{track{3, 0, 0}, 4, 4, track{4, 0, 0}, 0, 4},
		{track{3, 0, 0}, 5, 6, track{3, 5, 6}, 1, 6},
		{track{3, 5, 6}, 4, 4, track{6, 0, 0}, 0, 6},
		{track{3, 6, 7}, 4, 4, track{4, 6, 7}, 0, 7},
		{track{3, 6, 7}, 4, 5, track{7, 0, 0}, 0, 7},
		{track{3, 6, 7}, 4, 9, track{9, 0, 0}, 0, 9},
		{track{3, 6, 7}, 8, 9, track{3, 6, 9}, 1, 9},
		{track{3, 6, 7}, 9, 9, track{3, 9, 9}, 1, 9},
		{track{3, 8, 9}, 6, 7, track{3, 6, 9}, 1, 9},
		{track{3, 8, 9}, 5, 6, track{3, 8, 9}, 1, 9},
		{track{3, 8, 9}, 5, 20, track{3, 5, 20}, 1, 20},
	} {
		got := c.from
		gap := got.addRange(c.lo, c.hi)
		if got != c.want || gap != (c.gap == 1) || got.top() != c.top {
			t.Errorf("%+v with %d..%d: %+v, gap %v, top %d; want %+v", c.from, c.lo, c.hi, got, gap, got.top(), c.want)
		}
	}
}

// The log keeps numbers and bytes of its entries.
func TestTheLogOfOwnEntries(t *testing.T) {
	l := ownLog{first: 1}
	if l.last() != 0 || l.entryAt(0) != nil || l.entryAt(1) != nil {
		t.Error("an empty log has entries")
	}
	for i := range 5 {
		if seq := l.appendEntry(entryOf("k", 100)); seq != uint64(i+1) {
			t.Errorf("entry %d has number %d", i+1, seq)
		}
	}
	for _, c := range []struct {
		entries, bytes int
		want           uint64
	}{{5, 500, 0}, {5, 499, 1}, {4, 500, 1}, {5, 300, 2}, {2, 1000, 3}, {0, 0, 4}} {
		if got := l.cutToFit(c.entries, c.bytes); got != c.want {
			t.Errorf("to %d entries of %d bytes the log is cut to %d, want %d", c.entries, c.bytes, got, c.want)
		}
	}
	if l.dropTo(2); l.first != 3 || l.bytes != 300 || l.last() != 5 || l.entryAt(2) != nil || l.entryAt(3) == nil || l.entryAt(6) != nil {
		t.Errorf("the log from %d to %d has %d bytes", l.first, l.last(), l.bytes)
	}
	if l.dropTo(9); l.first != 6 || l.bytes != 0 || l.last() != 5 {
		t.Errorf("an empty log from %d, %d bytes", l.first, l.bytes)
	}
}

// Entries that all peers have are dropped, and the oldest ones if there are too many. A peer
// that lacks these goes on behind them.
func TestTheLogIsTrimmed(t *testing.T) {
	st, e := streamTo(Config{Limits: Limits{LogEntries: 4}}, 3, 0)
	cut := func() (peers []gossip.NodeID) {
		for _, ev := range e.out.Trace {
			if ev.Kind == TraceLogCut {
				peers = append(peers, ev.Peer)
			}
		}
		return peers
	}
	for range 4 {
		st.appendEntry(1, entryOf("k", 100))
	}
	p, q := st.members.byID[2], st.members.byID[3]
	p.acked, p.next, q.acked, q.next = 3, 5, 1, 2
	if st.trimLog(); st.log.first != 2 || len(cut()) != 0 {
		t.Errorf("the log begins at %d, cut for %v", st.log.first, cut())
	}
	st.appendEntry(1, entryOf("k", 100))
	st.appendEntry(1, entryOf("k", 100))
	if st.log.first != 3 || !slices.Equal(cut(), []gossip.NodeID{3}) || q.acked != 2 || q.next != 3 || p.acked != 3 || p.next != 5 {
		t.Errorf("the log begins at %d, cut for %v; %d, %d", st.log.first, cut(), q.acked, q.next)
	}
}

// An entry is sent when the batch is due, unless this replica is alone.
func TestEntriesAreBatched(t *testing.T) {
	st, _ := streamTo(Config{BatchEvery: 10}, 2, 0)
	st.batchAt = clock.Never
	st.appendEntry(5, entryOf("k", 100))
	st.appendEntry(9, entryOf("k", 100))
	if st.batchAt != 15 {
		t.Errorf("sent at %v", st.batchAt)
	}
	alone, _ := streamTo(Config{}, 1, 0)
	alone.batchAt = clock.Never
	if alone.appendEntry(5, entryOf("k", 100)); alone.batchAt != clock.Never {
		t.Error("a replica without peers sends batches")
	}
	fresh, _ := streamTo(Config{}, 2, 0)
	if fresh.appendEntry(1, entryOf("k", 100)); len(fresh.barrier.own) != 0 {
		t.Error("a replica that is not fresh notes its own items")
	}
	fresh.barrier.fresh = true
	if fresh.appendEntry(1, entryOf("k", 100)); len(fresh.barrier.own) != 1 {
		t.Error("a fresh replica does not note its own items")
	}
	fresh.appendEntry(1, entryOf("other", 100))
	bytes := fresh.log.bytes
	fresh.voidLogged("k")
	if len(fresh.barrier.own) != 1 || fresh.log.bytes != bytes-2*(100-12) || len(fresh.log.entries[0].Items) != 0 || len(fresh.log.entries[2].Items) != 1 {
		t.Errorf("voided: %d own items, %d bytes of %d", len(fresh.barrier.own), fresh.log.bytes, bytes)
	}
}

// Frames of entries end at FrameBytes, one entry may exceed it; and a peer gets a window of
// entries at most.
func TestEntriesLeaveInFrames(t *testing.T) {
	st, e := streamTo(Config{Limits: Limits{FrameBytes: 300}}, 2, 7)
	for from, want := range map[uint64]int{1: 3, 4: 3, 5: 3, 6: 2, 7: 1} {
		if m := st.nextRun(from); m.From != from || len(m.Entries) != want {
			t.Errorf("the run from %d has %d entries, want %d", from, len(m.Entries), want)
		}
	}
	large, _ := streamTo(Config{Limits: Limits{FrameBytes: 99}}, 2, 2)
	if m := large.nextRun(1); len(m.Entries) != 1 {
		t.Errorf("a run of %d large entries", len(m.Entries))
	}
	p := st.members.byID[2]
	st.pushEntries(1, p)
	if p.next != 8 || e.stats.DeltasSent != 7 || p.resendAt == clock.Never || p.resendAt <= 1 {
		t.Errorf("next %d, %d sent, again at %v", p.next, e.stats.DeltasSent, p.resendAt)
	}
	many, _ := streamTo(Config{}, 2, windowEntries+10)
	p = many.members.byID[2]
	p.next = windowEntries
	if many.pushEntries(1, p); p.next <= windowEntries {
		t.Error("a window has no room for its last entry")
	}
	p.next = windowEntries + 1
	if many.pushEntries(1, p); p.next != windowEntries+1 {
		t.Error("entries leave beyond the window")
	}
	silent, e := streamTo(Config{NoStream: true}, 2, 1)
	silent.pushEntries(1, silent.members.byID[2])
	if len(e.out.Send) != 0 {
		t.Error("a replica without streams sends entries")
	}
}

// Peers at one position get one message, as long as it ends with the newest entry.
func TestRunsAreShared(t *testing.T) {
	st, _ := streamTo(Config{}, 2, 2)
	first := st.nextRun(1)
	if st.nextRun(1) != first {
		t.Error("the run is made twice")
	}
	if st.nextRun(2) == first || len(st.nextRun(2).Entries) != 1 {
		t.Error("a run from elsewhere is shared")
	}
	again := st.nextRun(1)
	st.appendEntry(1, entryOf("k", 100))
	if m := st.nextRun(1); m == again || len(m.Entries) != 3 {
		t.Errorf("a run without the newest entry is shared: %d entries", len(m.Entries))
	}
}

// Entries for a peer that is lost wait for a rare attempt, which is made once.
func TestALostPeerGetsRareAttempts(t *testing.T) {
	st, e := streamTo(Config{}, 2, 1)
	p := st.members.byID[2]
	p.down, p.resendAt = true, clock.Never
	st.flushPeer(1, p)
	at := p.resendAt
	if st.flushPeer(2, p); at == clock.Never || p.resendAt != at || len(e.out.Send) != 0 {
		t.Errorf("attempts at %v, then %v; %d sent", at, p.resendAt, len(e.out.Send))
	}
	if st.resendEntries(at, p); len(deltasIn(e, 2)) != 1 || e.stats.DeltasResent != 0 {
		t.Errorf("%v sent, %d again", deltasIn(e, 2), e.stats.DeltasResent)
	}
}

// Entries in flight are retransmitted with growing pauses, but not while they travel in parts.
func TestRetransmissionsBackOff(t *testing.T) {
	st, e := streamTo(Config{}, 2, 3)
	p := st.members.byID[2]
	st.pushEntries(1, p)
	p.acked = 1
	for i := range backoffMax + 2 {
		e.out.Reset()
		st.resendEntries(p.resendAt, p)
		if want := min(i+1, backoffMax); p.backoff != want || !slices.Equal(deltasIn(e, 2), [][2]int{{2, 2}}) {
			t.Errorf("after %d times: back-off %d, sent %v", i+1, p.backoff, deltasIn(e, 2))
		}
	}
	if want := uint64(2 * (backoffMax + 2)); e.stats.DeltasResent != want {
		t.Errorf("counts %d retransmissions, want %d", e.stats.DeltasResent, want)
	}
	st.log.first = 3
	if st.rewindPeer(p); p.next != 3 {
		t.Errorf("goes back to %d, which the log does not hold", p.next)
	}
}

// Acknowledgements move a peer forward, never back, and not beyond the log.
func TestProgressOfAPeer(t *testing.T) {
	for _, c := range []struct {
		seen, lo, hi uint64
		acked, next  uint64
		waits        bool
	}{
		{0, 0, 0, 2, 6, true},
		{2, 0, 0, 2, 6, true},
		{3, 0, 0, 3, 6, true},
		{5, 0, 0, 5, 6, false},
		{9, 0, 0, 5, 6, false},
		{1, 3, 4, 4, 6, true},
		{1, 4, 5, 2, 6, true},
		{3, 4, 4, 4, 6, true},
	} {
		st, _ := streamTo(Config{}, 3, 5)
		p := st.members.byID[2]
		p.acked, p.next, p.backoff, p.resendAt = 2, 6, 3, 77
		st.noteProgress(10, p, c.seen, c.lo, c.hi)
		moved := c.acked > 2
		if p.acked != c.acked || p.next != c.next || (p.backoff == 0) != moved || (p.resendAt != clock.Never) != c.waits || moved == (p.resendAt == 77) {
			t.Errorf("%+v: acked %d, next %d, back-off %d, again at %v", c, p.acked, p.next, p.backoff, p.resendAt)
		}
	}
	st, e := streamTo(Config{}, 3, 5)
	p := st.members.byID[2]
	p.next = 2
	e.out.Reset()
	if st.noteProgress(10, p, 3, 0, 0); p.next != 6 || !slices.Equal(deltasIn(e, 2), [][2]int{{4, 2}}) {
		t.Errorf("next %d, sent %v", p.next, deltasIn(e, 2))
	}
}

// If the log was cut, a peer that lacks the cut entries records only one range of later entries, the
// last one. Retransmissions may always arrive in the same order, with losses. The sender must then go
// on behind each acknowledged entry.
func TestAcknowledgementsCountBehindACut(t *testing.T) {
	st, e := streamTo(Config{Limits: Limits{FrameBytes: 280}}, 2, 11)
	p, ws := st.members.byID[2], &writes{env: e, members: st.members, stream: st, table: &table{env: e}}
	st.log.dropTo(3)
	p.acked, p.next = 3, 4
	e2, ms2 := newParts(Config{}, 2)
	to := newStream(e2, ms2)
	rounds := 0
	for ; p.acked < 11 && rounds < 5; rounds++ {
		e.out.Reset()
		e2.out.Reset()
		st.rewindPeer(p)
		st.pushEntries(1, p)
		runs := e.out.Send
		last := len(runs) - 1
		for _, i := range []int{last, 0, 1} {
			if i <= last {
				to.onDeltas(ms2.byID[2], runs[i].Msg.(*Deltas))
			}
		}
		for _, s := range e2.out.Send {
			ws.onAck(2, p, s.Msg.(*Ack))
		}
	}
	if p.acked != 11 || rounds != 2 {
		t.Errorf("%d of 11 entries are acknowledged after %d rounds", p.acked, rounds)
	}
	if mine := to.tracks[2]; mine.seen != 0 {
		t.Errorf("the peer claims to have entries that it never got: %+v", mine)
	}
}

// The vector has the own stream if it has entries, and all others, sorted.
func TestTheVectorOfStreams(t *testing.T) {
	st, _ := streamTo(Config{}, 5, 0)
	for id := gossip.NodeID(9); id > 1; id-- {
		st.tracks[id] = &track{seen: uint64(id), lo: 20, hi: 21}
	}
	vector := st.seenVector()
	if len(vector) != 8 || vector[0] != (Seen{2, 2, 21}) || !slices.IsSortedFunc(vector, func(a, b Seen) int { return int(a.Node) - int(b.Node) }) {
		t.Errorf("%v", vector)
	}
	st.appendEntry(1, entryOf("k", 100))
	if vector = st.seenVector(); len(vector) != 9 || vector[0] != (Seen{1, 1, 1}) {
		t.Errorf("with an own entry: %v", vector)
	}
	if got := st.seenOf(77); got != (Seen{Node: 77}) {
		t.Errorf("an unknown stream: %v", got)
	}
}

// A vector lacks a stream if its node is a member and entries of it were applied here.
func TestAVectorLacksAStream(t *testing.T) {
	for name, c := range map[string]struct {
		track  track
		node   gossip.NodeID
		vector []Seen
		want   bool
	}{
		"not in the vector":   {track{seen: 1}, 2, nil, true},
		"in the vector":       {track{seen: 1}, 2, []Seen{{2, 0, 0}}, false},
		"without entries":     {track{}, 2, nil, false},
		"of a former member":  {track{seen: 1}, 9, nil, false},
		"of another sender":   {track{seen: 1}, 2, []Seen{{3, 1, 1}}, true},
		"entries beyond some": {track{lo: 5, hi: 6}, 2, nil, true},
	} {
		st, _ := streamTo(Config{}, 3, 0)
		st.tracks[c.node] = &c.track
		if got := st.lacksStream(c.vector); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A receiver acknowledges what it has applied, counts holes, and refuses what it cannot confirm.
func TestEntriesAreAppliedAndRefused(t *testing.T) {
	e, ms := newParts(Config{}, 2)
	st := newStream(e, ms)
	v := &crdt.ORSet[string]{}
	v.Add(2, "x")
	good := &Entry{Items: []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: v.Append(nil)}}}
	bad := &Entry{Items: []Item{{Key: "bad", Kind: crdt.KindORSet, Bytes: []byte{255}}}}
	late := &Entry{Fence: replicator.Fence{Group: "g", Term: 1}, Items: good.Items}
	st.fences.max = 1
	st.fences.raise(replicator.Fence{Group: "g", Term: 2})
	receive := func(from uint64, entries ...*Entry) *Ack {
		e.out.Reset()
		st.onDeltas(ms.byID[2], &Deltas{Epoch: ms.epoch, From: from, Entries: entries})
		return e.out.Send[len(e.out.Send)-1].Msg.(*Ack)
	}
	if ack := receive(1, good, bad, late); ack.Epoch != ms.epoch || ack.From != 1 || ack.To != 3 || ack.Seen != 3 ||
		len(ack.Refused) != 2 || ack.Refused[0].Seq != 2 || ack.Refused[0].Higher != 0 || ack.Refused[1].Seq != 3 || ack.Refused[1].Higher != 2 {
		t.Errorf("%+v", ack)
	}
	if ack := receive(5, good); ack.Seen != 3 || ack.Lo != 5 || ack.Hi != 5 || e.stats.Gaps != 1 || e.stats.DeltasReceived != 4 {
		t.Errorf("%+v, %d holes, %d received", ack, e.stats.Gaps, e.stats.DeltasReceived)
	}
	if ack := receive(4, good); ack.Seen != 5 || ack.Lo != 0 || e.stats.Gaps != 1 {
		t.Errorf("%+v, %d holes", ack, e.stats.Gaps)
	}
}

// Numbers beyond their bounds are errors, and those at them are not.
func TestMessagesHaveBounds(t *testing.T) {
	key := strings.Repeat("k", keyBytesMax)
	for name, c := range map[string]struct {
		m    Message
		fits bool
	}{
		"a long key":             {&Repair{Items: []Item{{Key: key}}}, true},
		"a longer key":           {&Repair{Items: []Item{{Key: key + "k"}}}, false},
		"the last sweep":         {&Repair{Sweep: timeMax - 1}, true},
		"a sweep at the end":     {&Repair{Sweep: timeMax}, false},
		"the last generation":    {&Repair{Items: []Item{{Gen: timeMax - 1}}}, true},
		"a generation too many":  {&Repair{Items: []Item{{Gen: timeMax}}}, false},
		"the last era":           {&Repair{Items: []Item{{Kind: math.MaxUint16, Era: eraMax}}}, true},
		"an era too many":        {&Repair{Items: []Item{{Era: eraMax + 1}}}, false},
		"the last era of newest": {&StampAnswer{Newest: []Newest{{Era: eraMax}}}, true},
		"an era of newest":       {&StampAnswer{Newest: []Newest{{Era: eraMax + 1}}}, false},
		"no entry":               {&Deltas{From: 1}, true},
		"entries from 0":         {&Deltas{From: 0}, false},
		"entries to the last":    {&Deltas{From: math.MaxUint64 - 1, Entries: []*Entry{{}}}, true},
		"entries beyond it":      {&Deltas{From: math.MaxUint64, Entries: []*Entry{{}}}, false},
		"the last bucket":        {&Compare{Start: bucketCount}, true},
		"a bucket too many":      {&Compare{Start: bucketCount + 1}, false},
		"a top above seen":       {&Differ{Vector: []Seen{{2, 5, 6}}}, true},
		"a top below seen":       {&Differ{Vector: []Seen{{2, 5, 4}}}, false},
	} {
		var limit *wire.LimitError
		if _, err := Decode(Append(nil, c.m)); (err == nil) != c.fits || err != nil && !errors.As(err, &limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decode([]byte{255}); err == nil {
		t.Error("an unknown tag decodes")
	}
}

// Messages that are dealt with quickly are recognized by their tags.
func TestLightMessages(t *testing.T) {
	for _, m := range []Message{&Deltas{From: 1}, &Ack{}, &RepairAck{}, &StampQuery{}, &StampAnswer{}} {
		if !Light(Append(nil, m)) {
			t.Errorf("%T is not light", m)
		}
	}
	for _, m := range []Message{&ReadRequest{}, &ReadResult{}, &Repair{}, &Status{}, &Values{}} {
		if Light(Append(nil, m)) {
			t.Errorf("%T is light", m)
		}
	}
	if Light(nil) {
		t.Error("an empty frame is light")
	}
}

// Messages that are worth it are packed: values and differences above a size, others above a frame.
func TestMessagesThatArePacked(t *testing.T) {
	for _, c := range []struct {
		noPack bool
		m      Message
		size   int
		want   bool
	}{
		{false, &Values{}, packMin, true},
		{false, &Values{}, packMin - 1, false},
		{false, &Differ{}, packMin, true},
		{true, &Values{}, packMin, false},
		{false, &Repair{}, packMin, false},
		{false, &Repair{}, 10_000, false},
		{false, &Repair{}, 10_001, true},
		{false, &Part{}, 1 << 20, false},
	} {
		tr := &transfers{env: &env{cfg: Config{NoPack: c.noPack, Limits: Limits{FrameBytes: 10_000}}}}
		if got := tr.packable(c.m, c.size); got != c.want {
			t.Errorf("%T of %d bytes: %v", c.m, c.size, got)
		}
	}
	e, ms := newParts(Config{}, 2)
	tr := &transfers{env: e}
	for _, m := range []*Packed{{Raw: 0, Data: []byte{1}}, {Raw: packRawMax + 1, Data: make([]byte, 1<<20)}, {Raw: 2*packRatioMax + 1, Data: []byte{1, 2}}, {Raw: 5, Data: []byte{255, 255}}} {
		refused := e.stats.Refused
		if tr.unpack(ms.byID[2], m) != nil || e.stats.Refused != refused+1 {
			t.Errorf("%d bytes in %d: refused %d times", m.Raw, len(m.Data), e.stats.Refused-refused)
		}
	}
}

// A phase asks other members when a fifth of the time to the deadline has passed, and SpreadMax at
// the latest.
func TestAPhaseSpreads(t *testing.T) {
	for _, c := range []struct{ deadline, want time.Duration }{{time.Hour, 100}, {50, 10}} {
		e, ms := newParts(Config{SpreadMax: 100}, 2)
		tb := &table{env: e, members: ms, open: map[RequestID]*request{}}
		r := &request{id: 3, spread: true, deadline: clock.Instant(1).Add(c.deadline), answers: map[gossip.NodeID]gossip.Epoch{2: 1}}
		tb.startPhase(1, r)
		if r.spread || len(r.answers) != 0 || r.spreadAt != clock.Instant(1).Add(c.want) || len(tb.timers) != 1 || tb.timers[0].at != r.spreadAt || tb.timers[0].id != 3 {
			t.Errorf("deadline after %v: at %v, timers %v", c.deadline, r.spreadAt, tb.timers)
		}
	}
}
