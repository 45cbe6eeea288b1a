package replication

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// Each part of the core, alone or over the parts that it needs.

// newParts returns env and members of node 1, with voters 1..n.
func newParts(cfg Config, n gossip.NodeID) (*env, *members) {
	cfg.Self = 1
	e := &env{cfg: cfg.withDefaults(), out: &Effects{}, now: 1}
	ms := &members{env: e}
	v := &gossip.View{Epoch: gossip.FirstEpoch(1)}
	for id := gossip.NodeID(1); id <= n; id++ {
		v.Members = append(v.Members, member(id, gossip.Up))
		ms.voters = append(ms.voters, id)
	}
	ms.view, ms.epoch = v, v.Epoch
	ms.enlist(v, 0)
	return e, ms
}

func TestMembersCountOverKeptVoters(t *testing.T) {
	_, ms := newParts(Config{}, 5)
	former := *ms.view
	former.Epoch--
	ms.keepFormer(&former, []gossip.NodeID{1, 2, 3})
	qs := ms.quorumsFor(replicator.Majority(0, 0))
	if len(qs) != 2 || qs[0].need != 3 || qs[1].need != 2 {
		t.Fatalf("quorums %+v", qs)
	}
	if ms.hasCaughtUp() {
		t.Fatal("caught up before any exchange")
	}
	ms.byID[2].synced = ms.epoch // with node 1 itself a majority of the former voters
	if !ms.hasCaughtUp() {
		t.Error("not caught up with a majority of the former voters")
	}
}

// TestAsManySetsAreKeptAsHaveRoom checks that the sets of former voters stay apart while there is room, and that
// the two oldest become one beyond that, of which all that are present are needed.
func TestAsManySetsAreKeptAsHaveRoom(t *testing.T) {
	_, ms := newParts(Config{}, 3)
	former := *ms.view
	former.Epoch--
	for n := 1; n <= formerMax+2; n++ {
		ms.keepFormer(&former, []gossip.NodeID{1, 2, gossip.NodeID(100 + n)})
		if want := min(n, formerMax); len(ms.former) != want || ms.former[0].all != (n > formerMax) || !ms.behind {
			t.Fatalf("%d sets are kept of %d, of the first all are needed: %v", len(ms.former), n, ms.former[0].all)
		}
		if newest := ms.former[len(ms.former)-1]; newest.all || !slices.Contains(newest.members, gossip.NodeID(100+n)) {
			t.Fatalf("the newest set is %+v", newest)
		}
	}
	if got := ms.former[0].members; !slices.Equal(got, []gossip.NodeID{1, 2}) {
		t.Errorf("the merged set has %v, want those that are present", got)
	}
}

// TestOnlyStampedValuesHaveStampedEntries checks what is known of an entry of each kind of value.
func TestOnlyStampedValuesHaveStampedEntries(t *testing.T) {
	set := &crdt.ORSet[string]{}
	set.Add(1, "e")
	if s, val, deleted := entryState(set, "e"); s != (crdt.Stamp{}) || val != "" || deleted {
		t.Errorf("an element of a set: stamp %v, value %q, deleted %v", s, val, deleted)
	}
	if s, _, deleted := entryState(registerOf(5), ""); s.Time != 5 || deleted {
		t.Errorf("a register: stamp %v, deleted %v", s, deleted)
	}
}

func TestClocksFollowTheLowerMedian(t *testing.T) {
	const year2099, present = 4_070_908_800_000, 1_800_000_000_000
	e, ms := newParts(Config{Wall: func() uint64 { return year2099 }}, 3)
	ck := &clocks{env: e, members: ms, unjudged: true}
	if !ck.isMuted() || ck.judgingWall() != year2099 {
		t.Fatal("not muted, or judged by another clock than the own one")
	}
	if !ck.noteClock(ms.byID[2], present) || ck.isMuted() {
		t.Error("the first clock does not make the replica judge its own stamps")
	}
	if ck.noteClock(ms.byID[3], present+5) {
		t.Error("the second clock does")
	}
	if got := ck.stampWall(); got < present || got > present+5+millis(stampLead) {
		t.Errorf("stamps at %d", got)
	}
	if got := ck.judgingWall(); got != present+5 {
		t.Errorf("judges by %d", got)
	}
}

func TestFencesRefuseLowerAndFarTerms(t *testing.T) {
	e, ms := newParts(Config{}, 1)
	s := &fences{env: e, members: ms, max: 2}
	s.raiseAll(2, 0, []replicator.Fence{{Group: "g", Term: 7}})
	if higher, ok := s.checkTerm(2, ms.epoch, replicator.Fence{Group: "g", Term: 6}); ok || higher != 7 {
		t.Errorf("term 6 under 7: %d %v", higher, ok)
	}
	far := uint64(ms.epoch) + (gossip.GenerationsAhead+1)<<32
	if higher, ok := s.checkTerm(2, ms.epoch, replicator.Fence{Group: "g", Term: far}); ok || higher != 0 {
		t.Errorf("a far term: %d %v", higher, ok)
	}
	if e.stats.FencedHere != 1 || e.stats.FarTerms != 1 {
		t.Errorf("counted %d lower and %d far terms", e.stats.FencedHere, e.stats.FarTerms)
	}
}

// A message above a frame arrives whole and once, though each part is sent twice.
func TestTransfersPutPartsTogether(t *testing.T) {
	cfg := Config{NoPack: true, Limits: Limits{FrameBytes: 1 << 10}}
	e, ms := newParts(cfg, 2)
	from, to := &transfers{env: e}, &transfers{env: e}
	out, in := ms.byID[2], &peer{id: 1}
	sent := &Repair{ID: 9, Items: []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: []byte(strings.Repeat("x", 20<<10))}}}
	from.sendMessage(out, sent)
	whole := 0
	for now := clock.Instant(1); out.out.busy() && now < clock.Instant(time.Minute); now = now.Add(time.Second) {
		from.resendParts(now, out)
		for len(e.out.Send) > 0 {
			m := e.out.Send[0].Msg
			e.out.Send = e.out.Send[1:]
			switch m := m.(type) {
			case *Part:
				for range 2 {
					if got, ok := to.onPart(now, in, m).(*Repair); ok && got.ID == 9 && len(got.Items[0].Bytes) == 20<<10 {
						whole++
					}
				}
			case *partAck:
				from.onPartAck(now, out, m)
			}
		}
	}
	if whole != 1 || out.out.busy() {
		t.Errorf("%d whole messages, busy %v", whole, out.out.busy())
	}
}

// newRetention returns the retention of a stream's replica.
func newRetention(st *stream) *retention {
	return &retention{env: st.env, members: st.members, clocks: st.clocks, barrier: st.barrier, values: st.values,
		store: st.values.store, stream: st, table: &table{}, agreed: map[uint64]uint64{}}
}

func TestDeletionsExpireByRunningTime(t *testing.T) {
	e, ms := newParts(Config{Retain: 16 * time.Hour, Keep: func(string) bool { return true }}, 1)
	st := newStream(e, ms)
	rt := newRetention(st)
	if rt.nextSweep() != clock.Never {
		t.Error("a sweep is due without deletions")
	}
	it := st.values.store.obtain("k")
	st.values.store.absorb(it, 1, 0, nil)
	rt.loadFile(1, Memory{Ran: millis(20 * time.Minute)})
	if wait := rt.nextSweep().Sub(1); wait != 40*time.Minute {
		t.Errorf("a sweep is due in %v, 20 minutes of an hour having passed before the start", wait)
	}
	rt.endFresh()
	for n := uint64(1); n <= 1+sweepsKept; n++ {
		m := &Commit{Sweep: n, Sweeps: true, Agreed: rt.newDeletions(), Forgotten: rt.oldDeletions(n)}
		if rt.sweep(m); (st.values.store.deletions == 0) != (n == 1+sweepsKept) || (len(m.Agreed) == 1) != (n == 1) {
			t.Fatalf("sweep %d: %+v, %d deletions are left", n, m, st.values.store.deletions)
		}
	}
	if rt.barrier.minGeneration != 1 || len(rt.agreed) > 0 {
		t.Errorf("new keys begin at %d; %d deletions are agreed", rt.barrier.minGeneration, len(rt.agreed))
	}
}

func TestDiskRefusesDurableKeysAlone(t *testing.T) {
	e, _ := newParts(Config{Keep: func(k string) bool { return k == "kept" }}, 1)
	dk := &disk{env: e, failure: errors.New("full")}
	if err := dk.checkStorable("kept"); !errors.Is(err, replicator.ErrDurable) {
		t.Errorf("durable key: %v", err)
	}
	if err := dk.checkStorable("other"); err != nil {
		t.Errorf("key in memory: %v", err)
	}
	mixed := []plannedOp{{Op: operation.Op{Key: "kept"}}, {Op: operation.Op{Key: "other"}}}
	if err := dk.checkUnmixed(mixed); err == nil {
		t.Error("an update of both was accepted")
	}
}

// newValues returns values over a store of its own.
func newValues(e *env, ms *members) *values {
	return &values{env: e, members: ms, clocks: &clocks{env: e, members: ms}, barrier: &barrier{empty: true}, store: &store{kept: e.kept}}
}

func TestValuesMergeAndRefuse(t *testing.T) {
	e, ms := newParts(Config{}, 2)
	vs := newValues(e, ms)
	e.steps = 1
	v, _ := crdt.New(crdt.KindORSet)
	set := v.(*crdt.ORSet[string])
	set.Add(2, "a")
	item := Item{Key: "k", Kind: crdt.KindORSet, Bytes: set.Append(nil)}
	if !vs.mergeItems(ms.byID[2], []Item{item, item}) || !slices.Equal(e.out.Changed, []string{"k"}) || vs.barrier.empty {
		t.Errorf("changed %v, empty %v", e.out.Changed, vs.barrier.empty)
	}
	if vs.mergeItems(ms.byID[2], []Item{{Key: "l", Kind: crdt.KindORSet, Bytes: []byte("nonsense")}}) || e.stats.Refused != 1 || vs.store.itemOf("l") != nil {
		t.Errorf("nonsense was merged; refused %d", e.stats.Refused)
	}
}

// newStream returns a stream with values, fences and transfers.
func newStream(e *env, ms *members) *stream {
	vs := newValues(e, ms)
	return &stream{env: e, members: ms, clocks: vs.clocks, fences: &fences{env: e, members: ms}, transfers: &transfers{env: e},
		barrier: vs.barrier, disk: &disk{env: e}, values: vs, log: ownLog{first: 1}, tracks: map[gossip.NodeID]*track{}}
}

func TestStreamRetransmitsUntilAcknowledged(t *testing.T) {
	e, ms := newParts(Config{}, 2)
	st, p := newStream(e, ms), ms.byID[2]
	for range 3 {
		st.appendEntry(1, &Entry{Items: []Item{{Key: "k", Gen: 2}}})
	}
	st.flushPeer(1, p)
	st.noteProgress(2, p, 1, 0, 0)
	if st.log.first != 2 {
		t.Errorf("the log begins at %d after the acknowledgement of entry 1", st.log.first)
	}
	e.out.Reset()
	st.resendEntries(p.resendAt, p)
	m, ok := e.out.Send[0].Msg.(*Deltas)
	if !ok || m.From != 2 || len(m.Entries) != 2 || e.stats.DeltasResent != 2 {
		t.Fatalf("retransmitted %+v", e.out.Send)
	}
	// The receiver applies the entries twice, and acknowledges them twice.
	e2, ms2 := newParts(Config{}, 2)
	to := newStream(e2, ms2)
	to.onDeltas(ms2.byID[2], &Deltas{From: 1, Entries: m.Entries[:1]})
	to.onDeltas(ms2.byID[2], m)
	to.onDeltas(ms2.byID[2], m)
	if ack := e2.out.Send[2].Msg.(*Ack); ack.Seen != 3 || ack.To != 3 || len(ack.Refused) != 0 {
		t.Errorf("%+v", ack)
	}
}

func TestTableCountsAndEndsRequests(t *testing.T) {
	e, ms := newParts(Config{Limits: Limits{Pending: 1}}, 3)
	tb := &table{env: e, members: ms, fences: &fences{env: e, members: ms}, barrier: &barrier{}, disk: &disk{env: e}, open: map[RequestID]*request{}}
	majority := replicator.Majority(0, 0)
	if err := tb.admitRequest(majority, replicator.Fence{}, 1); err != nil {
		t.Fatal(err)
	}
	r := &request{id: 5, level: majority}
	tb.addRequest(1, r, 0)
	if err := tb.admitRequest(majority, replicator.Fence{}, 1); !errors.Is(err, replicator.ErrLimit) {
		t.Errorf("a second request: %v", err)
	}
	r.answers[2] = ms.epoch + 1
	if counts := tb.counts(r); !counts(1) || counts(2) || counts(3) {
		t.Error("an answer of a later view counts, or the own copy does not")
	}
	if got := tb.missingAnswers(r); !slices.Equal(got, []gossip.NodeID{3}) {
		t.Errorf("missing answers: %v", got)
	}
	tb.giveUp(r)
	if len(e.out.Reply) != 1 || !errors.Is(e.out.Reply[0].Err, replicator.ErrOutcomeUnknown) || len(tb.open) != 0 {
		t.Errorf("replies %+v, %d open", e.out.Reply, len(tb.open))
	}
}

func TestAntiEntropySendsTheLastCommitToAPeerBehind(t *testing.T) {
	e, ms := newParts(Config{}, 2)
	st := newStream(e, ms)
	ae := &antiEntropy{env: e, members: ms, clocks: st.clocks, fences: st.fences, transfers: st.transfers, barrier: st.barrier,
		values: st.values, store: st.values.store, stream: st}
	st.barrier.floor, st.barrier.last.Drops = 2, []Drop{{Key: "k", Gen: 1}}
	if ae.checkPruneFloor(ms.byID[2], 1, 0) {
		t.Error("state of a lower floor was accepted")
	}
	if m, ok := e.out.Send[0].Msg.(*Commit); !ok || m.Floor != 2 || len(m.Drops) != 1 {
		t.Errorf("sent %+v", e.out.Send)
	}
	if !ae.checkPruneFloor(ms.byID[2], 2, 0) {
		t.Error("state of the own floor was refused")
	}
}

func TestRetentionSetsAStaleFileAside(t *testing.T) {
	for _, stale := range []bool{false, true} {
		e, ms := newParts(Config{Keep: func(k string) bool { return k != "own" }}, 2)
		st := newStream(e, ms)
		e.out = nil // as in Core.Restore
		if err := st.values.mergeItem(nil, &Item{Key: "kept", Gen: 2}, nil); err != nil {
			t.Fatal(err)
		}
		asked := 0
		rt := newRetention(st)
		rt.onSetAside = func(clock.Instant) { asked++ }
		rt.loadFile(1, Memory{Sweep: 5})
		e.out = &Effects{}
		sweep := uint64(5 + sweepsKept - 1)
		if stale {
			sweep++
		}
		rt.onStanding(ms.byID[2], &Status{Sweep: sweep})
		if gone := st.values.store.itemOf("kept") == nil; gone != stale || e.out.SetAside != stale || asked != len(e.out.Trace) || rt.barrier.fresh {
			t.Errorf("stale %v: removed %v, set aside %v, asked %d, fresh %v", stale, gone, e.out.SetAside, asked, rt.barrier.fresh)
		}
	}
}
