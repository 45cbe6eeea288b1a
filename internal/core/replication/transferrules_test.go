package replication

import (
	"bytes"
	"compress/flate"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
)

// TestATransferBeginsWithItsFirstPart checks that a transfer begins with a first part that has data, if its
// total is within the limits. If too many transfers are open, the oldest is dropped.
func TestATransferBeginsWithItsFirstPart(t *testing.T) {
	e, _ := newParts(Config{Limits: Limits{ValueBytes: 100, RequestBytes: 10, Transfers: 2}}, 2)
	tr := &transfers{env: e}
	for name, c := range map[string]struct {
		m     Part
		opens bool
	}{
		"the first part":   {Part{Transfer: 9, Total: 210, Data: []byte("x")}, true},
		"a later part":     {Part{Transfer: 9, Index: 1, Total: 210, Data: []byte("x")}, false},
		"above the limits": {Part{Transfer: 9, Total: 211, Data: []byte("x")}, false},
		"without data":     {Part{Transfer: 9, Total: 210}, false},
	} {
		p := &peer{id: 2}
		r := tr.receivingOf(p, &c.m)
		if (r != nil) != c.opens || len(p.in.open) != map[bool]int{true: 1}[c.opens] {
			t.Errorf("%s: opens %v, %d are open", name, r != nil, len(p.in.open))
		}
		if again := c.m; c.opens {
			again.Index = 3
			if tr.receivingOf(p, &again) != r || r.total != 210 {
				t.Errorf("%s: a later part belongs to another transfer", name)
			}
		}
	}
	p := &peer{id: 2}
	for id := uint64(1); id <= 5; id++ {
		tr.receivingOf(p, &Part{Transfer: id, Total: 5, Data: []byte("x")})
	}
	if len(p.in.open) != 4 || p.in.open[0].id != 2 || p.in.open[3].id != 5 {
		t.Errorf("%d transfers are open, the first is %d", len(p.in.open), p.in.open[0].id)
	}
}

// TestPartsAreTakenInOrder checks that each part is taken once, up to the total of the transfer.
func TestPartsAreTakenInOrder(t *testing.T) {
	e, ms := newParts(Config{NoPack: true}, 2)
	tr, p := &transfers{env: e}, ms.byID[2]
	whole := Append(nil, &Repair{ID: 9, Items: []Item{setItem("k", 2, "e")}})
	half := len(whole) / 2
	for i, c := range []struct {
		m    Part
		next int
		at   clock.Instant
	}{
		{Part{Index: 0, Data: whole[:half]}, 1, 1},
		{Part{Index: 0, Data: whole[:half]}, 1, 1},
		{Part{Index: 2, Data: whole[half:]}, 1, 1},
		{Part{Index: 1, Data: append(slices.Clone(whole[half:]), 0)}, 1, 1},
		{Part{Index: 1}, 1, 1},
		{Part{Index: 1, Data: whole[half:]}, 2, 6},
		{Part{Index: 1, Data: whole[half:]}, 2, 6},
		{Part{Index: 2, Data: whole[half:]}, 2, 6},
	} {
		c.m.Transfer, c.m.Total = 4, len(whole)
		e.out.Reset()
		got, _ := tr.onPart(clock.Instant(i+1), p, &c.m).(*Repair)
		if ack, ok := e.out.Send[0].Msg.(*partAck); !ok || ack.Next != c.next || ack.Transfer != 4 || p.in.at != c.at {
			t.Errorf("step %d: %+v, newest part at %d", i, e.out.Send[0].Msg, p.in.at)
		}
		if (got != nil && got.ID == 9) != (i == 5) {
			t.Errorf("step %d: whole %v", i, got)
		}
	}
	for _, m := range [][]byte{Append(nil, &Part{Transfer: 5, Data: []byte("x")}), Append(nil, &partAck{Transfer: 5}), []byte("\xffnonsense")} {
		e.stats.Refused++
		before := e.stats.Refused
		if got := tr.onPart(1, p, &Part{Transfer: before + 10, Total: len(m), Data: m}); got != nil || e.stats.Refused != before+1 {
			t.Errorf("takes %v", got)
		}
	}
}

// largeRepair is a message that is sent in parts.
func largeRepair(n int) *Repair {
	return &Repair{ID: 9, Items: []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: append(bytes.Repeat([]byte("x"), n/2), noise(rand.New(rand.NewPCG(1, 1)), n-n/2)...)}}}
}

// TestTheWindowOfATransfer checks that eight parts are in flight, and that each acknowledgement sends one
// more. A lost part is retransmitted once.
func TestTheWindowOfATransfer(t *testing.T) {
	e, ms := newParts(Config{NoPack: true, Limits: Limits{FrameBytes: 1 << 10}}, 2)
	tr, p := &transfers{env: e}, ms.byID[2]
	parts := func() (out []int) {
		for _, s := range e.out.Send {
			out = append(out, s.Msg.(*Part).Index)
		}
		e.out.Reset()
		return out
	}
	tr.sendMessage(p, largeRepair(20<<9-100))
	tr.resendParts(1, p)
	s := p.out.queue[0]
	if got := parts(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) || s.partCount() != 20 {
		t.Fatalf("sends %v of %d", got, s.partCount())
	}
	if due := p.out.resendAt(); due != clock.Instant(1).Add(2*e.cfg.ResendAfter) {
		t.Errorf("due at %d", due)
	}
	for i, c := range []struct {
		id   uint64
		next int
		sent []int
	}{
		{s.id, 2, []int{8, 9}},
		{s.id + 1, 5, nil},                       // of another transfer
		{s.id, 2, []int{2, 3, 4, 5, 6, 7, 8, 9}}, // after a gap
		{s.id, 2, nil},                           // after the same gap
		{s.id, 1, nil},                           // late
		{s.id, 21, nil},                          // beyond the end
		{s.id, 12, []int{12, 13, 14, 15, 16, 17, 18, 19}}, // further than was sent since
		{s.id, 19, nil},
		{s.id, 19, nil}, // nothing lies behind the gap
		{s.id, 20, nil},
	} {
		tr.onPartAck(1, p, &partAck{Transfer: c.id, Next: c.next})
		if got := parts(); !slices.Equal(got, c.sent) {
			t.Errorf("step %d: sends %v, want %v", i, got, c.sent)
		}
	}
	if p.out.busy() {
		t.Error("busy after the last acknowledgement")
	}
}

// TestATransferIsGivenUp checks that a transfer ends after nine waits without progress, and that the next
// transfer follows. Transfers above the limit are dropped.
func TestATransferIsGivenUp(t *testing.T) {
	e, ms := newParts(Config{NoPack: true, Limits: Limits{FrameBytes: 1 << 10, Transfers: 2}}, 2)
	tr, p := &transfers{env: e}, ms.byID[2]
	for range 3 {
		tr.sendMessage(p, largeRepair(4<<10))
	}
	if len(p.out.queue) != 2 || e.stats.Transfers != 2 || p.out.queue[0].id == p.out.queue[1].id {
		t.Fatalf("%d transfers wait, %d counted", len(p.out.queue), e.stats.Transfers)
	}
	now, rounds := clock.Instant(1), 0
	for ; len(p.out.queue) == 2 && rounds < 20; rounds++ {
		tr.resendParts(now, p)
		if now > 1 {
			if tr.resendParts(now, p); len(p.out.queue) == 2 && p.out.resendAt() <= now {
				t.Fatalf("due again at %d", p.out.resendAt())
			}
		}
		now = p.out.resendAt()
		if now == 1 {
			now = 2
		}
	}
	if rounds != 10 {
		t.Errorf("given up after %d rounds, want 10", rounds)
	}
	if first := p.out.queue[0]; first.misses != 0 {
		t.Errorf("the next one begins with %d misses", first.misses)
	}
}

// TestThePackerReleasesItsBuffers checks that buffers are released if no message was packed between two
// rounds.
func TestThePackerReleasesItsBuffers(t *testing.T) {
	var k packer
	m := largeRepair(4 << 10)
	packed := k.pack(m)
	if packed == nil || packed.Raw <= 4<<10 || packed.Of != tagRepair {
		t.Fatalf("%+v", packed)
	}
	if k.releaseIfIdle(); k.w == nil {
		t.Error("released in the round in which it was used")
	}
	if _, err := k.unpack(packed); err != nil {
		t.Error(err)
	}
	if k.releaseIfIdle(); k.w == nil || k.r == nil {
		t.Error("released though a message was unpacked")
	}
	if k.releaseIfIdle(); k.w != nil || k.r != nil || k.raw != nil {
		t.Error("not released")
	}
}

// TestLargeMessagesArePacked checks that values and differences above packMin are packed, and messages that
// are sent in parts.
func TestLargeMessagesArePacked(t *testing.T) {
	e, _ := newParts(Config{}, 2)
	tr := &transfers{env: e}
	frame := e.cfg.Limits.FrameBytes
	for i, c := range []struct {
		m    Message
		size int
		want bool
	}{
		{&Values{}, packMin, true}, {&Values{}, packMin - 1, false}, {&Differ{}, packMin, true}, {&Part{}, frame + 1, false},
		{&Repair{}, frame, false}, {&Repair{}, frame + 1, true},
	} {
		if got := tr.packable(c.m, c.size); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
		e.cfg.NoPack = true
		if tr.packable(c.m, c.size) {
			t.Errorf("case %d: packed though it must not be", i)
		}
		e.cfg.NoPack = false
	}
}

// TestThePartsOfATransfer checks that a message is cut into as few parts as hold it.
func TestThePartsOfATransfer(t *testing.T) {
	for size, want := range map[int]int{1: 1, 9: 1, 10: 1, 11: 2, 19: 2, 20: 2, 21: 3} {
		if got := (&sending{whole: make([]byte, size), part: 10}).partCount(); got != want {
			t.Errorf("%d bytes: %d parts of 10, want %d", size, got, want)
		}
	}
}

// TestAMessageGoesWholeUpToAFrame checks that a message goes whole if it fits a frame, as it is or
// packed, and in parts if it is a byte longer. Packed messages are sent if that saves enough.
func TestAMessageGoesWholeUpToAFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	plain := &Repair{Items: []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: bytes.Repeat([]byte(noise(rng, 500)), 10)}}}
	random := &Values{Items: []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: make([]byte, 5000)}}}
	for i := range random.Items[0].Bytes {
		random.Items[0].Bytes[i] = byte(rng.Uint32())
	}
	packed := len((&packer{}).pack(plain).Data) + 64
	for name, c := range map[string]struct {
		noPack bool
		frame  int
		m      Message
		whole  bool
		packed bool
	}{
		"as long as a frame":          {true, sizeOf(plain), plain, true, false},
		"a byte longer":               {true, sizeOf(plain) - 1, plain, false, false},
		"packed as long as a frame":   {false, packed, plain, true, true},
		"packed, a byte longer":       {false, packed - 1, plain, false, false},
		"packs though it fits":        {false, 1 << 20, &Values{Items: plain.Items}, true, true},
		"noise, that does not pack":   {false, 1 << 20, random, true, false},
		"packing has been turned off": {true, 1 << 20, &Values{Items: plain.Items}, true, false},
	} {
		e, ms := newParts(Config{NoPack: c.noPack, Limits: Limits{FrameBytes: c.frame}}, 2)
		tr, p := &transfers{env: e}, ms.byID[2]
		tr.sendMessage(p, c.m)
		if (len(e.out.Send) == 1) != c.whole || p.out.busy() == c.whole || e.stats.Transfers != map[bool]uint64{false: 1}[c.whole] {
			t.Errorf("%s: sends %d, in parts %v", name, len(e.out.Send), p.out.busy())
			continue
		}
		if !c.whole {
			continue
		}
		if _, is := e.out.Send[0].Msg.(*Packed); is != c.packed {
			t.Errorf("%s: sends a %T", name, e.out.Send[0].Msg)
		}
	}
}

// TestLargeMessagesGoOnTheConnectionForTransfers checks that messages above 64 KiB do, and those that
// fill a replica at any size.
func TestLargeMessagesGoOnTheConnectionForTransfers(t *testing.T) {
	for _, c := range []struct {
		m    Message
		size int
		bulk bool
	}{{&Repair{}, 64 << 10, false}, {&Repair{}, 64<<10 + 1, true}, {&Values{}, 1, true}, {&Status{}, 1, false}} {
		if got := bulky(c.m, c.size); got != c.bulk {
			t.Errorf("%T of %d bytes: %v", c.m, c.size, got)
		}
	}
}

// TestKeysAreNotLargerThanTheirEstimate checks that messages with many keys are at most as long as
// their estimate, by which frames are cut.
func TestKeysAreNotLargerThanTheirEstimate(t *testing.T) {
	var keys []string
	var prints []uint64
	for i := range 500 {
		keys, prints = append(keys, string(make([]byte, i%20))), append(prints, ^uint64(0))
	}
	for _, m := range []Message{
		&Fetch{Keys: keys},
		&Differ{Keys: keys, Prints: prints, Vector: make([]Seen, 9)},
		&ReadRequest{Keys: keys, Prints: prints},
	} {
		if got, most := len(Append(nil, m)), sizeOf(m); got > most {
			t.Errorf("%T: %d bytes, estimated as %d", m, got, most)
		}
	}
}

// TestAnAcknowledgementOfNoPartIsNoProgress checks that a repeated, an older or an impossible
// acknowledgement moves neither the window nor the time at which parts are sent again.
func TestAnAcknowledgementOfNoPartIsNoProgress(t *testing.T) {
	for next, progress := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: true, 5: false} {
		e, ms := newParts(Config{NoPack: true}, 2)
		tr, p := &transfers{env: e}, ms.byID[2]
		p.out.queue = []*sending{{id: 7, whole: make([]byte, 40), part: 10, acked: 2, next: 4, jumped: 3, at: 5, misses: 3}, {id: 8, whole: make([]byte, 40), part: 10, at: 1 << 40}}
		tr.onPartAck(clock.Instant(9), p, &partAck{Transfer: 7, Next: next})
		first := p.out.queue[0]
		if moved := first.id == 8 || first.acked != 2 || first.misses != 3 || first.at != 5; moved != progress || next == 3 && (first.acked != 3 || first.misses != 0) || next == 4 && first.id != 8 {
			t.Errorf("the next part is %d: %+v", next, first)
		}
	}
}

// TestAMessageOfTheLargestSizeIsInflated checks that a message which says that it has packRawMax bytes is
// not refused by its header.
func TestAMessageOfTheLargestSizeIsInflated(t *testing.T) {
	var k packer
	var corrupt flate.CorruptInputError
	if _, err := k.unpack(&Packed{Of: tagValues, Raw: packRawMax, Data: bytes.Repeat([]byte{7}, packRawMax/packRatioMax)}); !errors.As(err, &corrupt) {
		t.Errorf("%v", err)
	}
}
