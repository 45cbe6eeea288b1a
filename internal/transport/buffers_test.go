package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheReadBufferFollowsItsUse checks when the buffer of a reader grows and shrinks: it doubles if
// a read has filled it, beyond readBytesMax only for a frame that fills it, and it shrinks after
// reads that leave three quarters of it unused.
func TestTheReadBufferFollowsItsUse(t *testing.T) {
	for name, c := range map[string]struct {
		size, r, w int
		full       bool
		quiet      int
		want       int
	}{
		"filled":                      {size: 8 << 10, r: 8 << 10, w: 8 << 10, full: true, want: 16 << 10},
		"a frame fills it":            {size: 8 << 10, w: 8 << 10, want: 16 << 10},
		"filled, at the bound":        {size: readBytesMax, r: 1, w: readBytesMax, full: true, want: readBytesMax},
		"a frame fills the largest":   {size: readBytesMax, w: readBytesMax, full: true, want: 2 * readBytesMax},
		"not filled":                  {size: 8 << 10, w: 8<<10 - 1, want: 8 << 10},
		"quiet for long":              {size: 8 << 10, w: 2 << 10, quiet: quietReads + 1, want: 4 << 10},
		"quiet, not for long enough":  {size: 8 << 10, w: 2 << 10, quiet: quietReads, want: 8 << 10},
		"quiet, more than a quarter":  {size: 8 << 10, w: 2<<10 + 1, quiet: quietReads + 1, want: 8 << 10},
		"quiet, the smallest":         {size: readBytesMin, quiet: quietReads + 1, want: readBytesMin},
		"too large, and quiet":        {size: 2 * readBytesMax, w: readBytesMax - 1, quiet: 17, want: readBytesMax},
		"too large, not yet quiet":    {size: 2 * readBytesMax, quiet: 16, want: 2 * readBytesMax},
		"too large, a frame needs it": {size: 2 * readBytesMax, w: readBytesMax, quiet: 17, want: 2 * readBytesMax},
		"of the bound, quiet":         {size: readBytesMax, quiet: 17, want: readBytesMax},
	} {
		b := &frameBuffer{buf: make([]byte, c.size), r: c.r, w: c.w, full: c.full, quiet: c.quiet, checked: 9}
		for i := range b.buf {
			b.buf[i] = byte(i % 251)
		}
		rest := bytes.Clone(b.buf[c.r:c.w])
		space := b.space()
		if len(b.buf) != c.want || b.r != 0 || b.checked != 0 || !bytes.Equal(b.buf[:b.w], rest) || len(space) != c.want-len(rest) {
			t.Errorf("%s: %d bytes of memory, want %d; r %d, w %d, checked %d, space %d", name, len(b.buf), c.want, b.r, b.w, b.checked, len(space))
		}
		if resized := c.want != c.size; resized && (b.full || b.quiet != 0) || !resized && b.quiet != c.quiet {
			t.Errorf("%s: full %v, quiet %d", name, b.full, b.quiet)
		}
	}
}

// TestAReadIsQuietIfItNeedsAQuarter checks how the reads of a buffer are counted.
func TestAReadIsQuietIfItNeedsAQuarter(t *testing.T) {
	b := &frameBuffer{buf: make([]byte, 100)}
	for _, c := range []struct {
		n, quiet int
		full     bool
	}{{25, 1, false}, {0, 2, false}, {1, 0, false}, {73, 0, false}, {1, 0, true}} {
		if b.received(c.n); b.quiet != c.quiet || b.full != c.full {
			t.Errorf("%d bytes in the buffer: quiet %d, full %v, want %d, %v", b.w, b.quiet, b.full, c.quiet, c.full)
		}
	}
}

// TestHalfFramesEndTheOldest checks that the memory of half-received frames is used up to its last
// byte, and that the oldest frames end for more.
func TestHalfFramesEndTheOldest(t *testing.T) {
	var h halfFrames
	h.initHalves(100)
	first, second, third := &part{}, &part{}, &part{}
	for _, c := range []struct {
		p     *part
		n     int
		ended []*part
		held  int
	}{
		{first, 60, nil, 60}, {second, 20, nil, 80}, {first, 20, nil, 100}, {second, 1, []*part{first}, 21},
		{third, 79, nil, 100}, {third, 22, []*part{second, third}, 0},
	} {
		if ended := h.countBytes(c.p, c.n); !slices.Equal(ended, c.ended) || h.bytes() != c.held {
			t.Fatalf("%d bytes more: %d ended, %d held, want %d, %d", c.n, len(ended), h.bytes(), len(c.ended), c.held)
		}
	}
	h.countBytes(second, 10)
	h.countBytes(first, 5)
	h.releasePart(second)
	h.releasePart(second)
	if h.bytes() != 5 || h.order.Len() != 1 || second.held != 0 {
		t.Errorf("%d bytes of %d frames are held, want 5 of 1", h.bytes(), h.order.Len())
	}
}

// piece returns the payload of the first piece of a frame.
func piece(total int, payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(total)), payload...)
}

// TestPiecesAreCheckedAgainstTheirFrame checks that a frame is whole with its last byte, and that a
// piece that does not fit its frame ends the connection.
func TestPiecesAreCheckedAgainstTheirFrame(t *testing.T) {
	var oversize *oversizeError
	type step struct {
		k       Kind
		slot    byte
		payload []byte
		whole   string // "" if none
		bad     bool
	}
	for name, steps := range map[string][]step{
		"two pieces":                     {{1, 1 | firstPiece, piece(5, "abc"), "", false}, {1, 1, []byte("de"), "abcde", false}},
		"one piece":                      {{1, 4 | firstPiece, piece(3, "abc"), "abc", false}, {1, 4 | firstPiece, piece(1, "d"), "d", false}},
		"two slots":                      {{1, 1 | firstPiece, piece(2, "a"), "", false}, {2, 2 | firstPiece, piece(2, "x"), "", false}, {1, 1, []byte("b"), "ab", false}, {2, 2, []byte("y"), "xy", false}},
		"as large as allowed":            {{1, 1 | firstPiece, piece(100, "a"), "", false}},
		"too large":                      {{1, 1 | firstPiece, piece(101, "a"), "", true}},
		"no begin":                       {{1, 1, []byte("a"), "", true}},
		"a second begin":                 {{1, 1 | firstPiece, piece(5, "a"), "", false}, {1, 1 | firstPiece, piece(5, "a"), "", true}},
		"no length":                      {{1, 1 | firstPiece, []byte("abc"), "", true}},
		"nothing in the first":           {{1, 1 | firstPiece, piece(5, ""), "", true}},
		"nothing in a later one":         {{1, 1 | firstPiece, piece(5, "a"), "", false}, {1, 1, nil, "", true}},
		"another kind":                   {{1, 1 | firstPiece, piece(5, "a"), "", false}, {2, 1, []byte("b"), "", true}},
		"one byte too many":              {{1, 1 | firstPiece, piece(2, "a"), "", false}, {1, 1, []byte("bc"), "", true}},
		"one byte too many in one piece": {{1, 1 | firstPiece, piece(2, "abc"), "", true}},
	} {
		r := &receiver{cfg: &Config{Message: classLimits{FrameBytesMax: 100}}}
		r.halves.initHalves(1000)
		in := &inbound{class: Message}
		for i, s := range steps {
			whole, err := r.takePiece(in, s.k, s.slot, s.payload)
			if (err != nil) != s.bad || err != nil && !errors.Is(err, errMalformed) && !errors.As(err, &oversize) {
				t.Errorf("%s, piece %d: %v", name, i, err)
			}
			if (whole != nil) != (s.whole != "") || whole != nil && string(whole.buf) != s.whole {
				t.Errorf("%s, piece %d: whole %+v, want %q", name, i, whole, s.whole)
			}
			if whole != nil {
				r.halves.releasePart(whole)
			}
		}
		held := 0
		for _, p := range in.parts {
			if p != nil {
				held += cap(p.buf)
			}
		}
		if h := r.halves.bytes(); h != held {
			t.Errorf("%s: %d bytes are counted, %d held", name, h, held)
		}
		if r.dropParts(in); r.halves.bytes() != 0 {
			t.Errorf("%s: %d bytes stay counted", name, r.halves.bytes())
		}
	}
}

// TestAPartGrowsToItsFrame checks that the memory of a half-received frame grows to at most twice
// what was received, and never beyond the frame.
func TestAPartGrowsToItsFrame(t *testing.T) {
	r := &receiver{}
	r.halves.initHalves(1000)
	p := &part{total: 100}
	for _, c := range []struct{ n, room int }{{10, 10}, {11, 20}, {20, 20}, {41, 41}, {42, 82}, {83, 100}} {
		if err := r.growPart(p, c.n); err != nil || cap(p.buf) != c.room || r.halves.bytes() != c.room {
			t.Errorf("room for %d bytes: %d, %d counted, want %d; %v", c.n, cap(p.buf), r.halves.bytes(), c.room, err)
		}
		p.buf = p.buf[:c.n]
	}
	r.halves.releasePart(p)
	var half *halfFramesError
	if err := r.growPart(&part{total: 2000}, 1001); !errors.As(err, &half) {
		t.Errorf("a frame larger than all memory: %v", err)
	}
}

// TestLanesSendInTurn checks that lanes take turns piece by piece, that at most piecesMax frames are
// sent in pieces, and that a frame without a flow waits for all that came before it.
func TestLanesSendInTurn(t *testing.T) {
	var q lanes
	largest := make([]byte, 2*pieceBytes+1)
	for f := range Flow(piecesMax + 1) {
		q.addFrame(f+1, Kind(f+1), largest)
	}
	q.addFrame(0, 9, []byte("last"))
	q.addFrame(1, 8, []byte("small"))
	var got []Kind
	for l := q.ready(); l != nil; l = q.ready() {
		got = append(got, Kind(q.takeBlock(l).bytes[frameKindAt]))
		checkLanes(t, &q)
	}
	if want := []Kind{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 8, 5, 5, 9}; !slices.Equal(got, want) || q.frames != 0 {
		t.Errorf("pieces of kinds %d, want %d; %d frames are left", got, want, q.frames)
	}
}

// checkLanes fails the test if an invariant of the lanes does not hold.
func checkLanes(t *testing.T, q *lanes) {
	t.Helper()
	size, frames, slots := 0, 0, 0
	for _, l := range q.order {
		if len(l.frames) == 0 || q.busy[l.flow] != l {
			t.Fatalf("the lane of flow %d has %d frames, or is not the busy one", l.flow, len(l.frames))
		}
		for i, w := range l.frames {
			size, frames = size+len(w.payload), frames+1
			if i > 0 || l.slot == 0 {
				size += frameHeaderBytes
			}
		}
		if size -= l.sent; l.slot != 0 {
			slots++
		}
	}
	taken := 0
	for _, s := range q.slots {
		if s {
			taken++
		}
	}
	if size != q.bytes || frames != q.frames || slots != taken || len(q.busy) != len(q.order) || len(q.order) > 0 && q.next >= len(q.order) {
		t.Fatalf("%d bytes in %d frames wait, %d in %d are counted; %d slots of %d; next %d of %d", size, frames, q.bytes, q.frames, slots, taken, q.next, len(q.order))
	}
}

// TestLanesKeepOrder checks, for random frames and a backlog that is taken between them, that each
// flow keeps its order, that a frame without a flow overtakes none, and that lanes count what waits.
func TestLanesKeepOrder(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q lanes
		type sentFrame struct {
			flow  Flow
			taken bool
		}
		var sent []sentFrame
		var inBacklog []int
		lane := map[Flow][]int{}
		arrive := func(i int) {
			for j, s := range sent[:i] {
				if !s.taken && (s.flow == sent[i].flow || sent[i].flow == 0) {
					t.Fatalf("seed %d: frame %d of flow %d passed %d of flow %d", seed, i, sent[i].flow, j, s.flow)
				}
			}
			sent[i].taken = true
		}
		for step := range 400 {
			if r.IntN(2) == 0 && step < 300 {
				f, n := Flow(r.IntN(7)), r.IntN(100)
				if r.IntN(3) == 0 {
					n = r.IntN(4 * pieceBytes)
				}
				i := len(sent)
				sent = append(sent, sentFrame{flow: f})
				if n > pieceBytes || len(q.order) > 0 && (f == 0 || q.busy[f] != nil) {
					q.addFrame(f, 1, make([]byte, n))
					lane[f] = append(lane[f], i)
				} else {
					q.queued++
					inBacklog = append(inBacklog, i)
				}
				checkLanes(t, &q)
				continue
			}
			if len(inBacklog) > 0 && r.IntN(2) == 0 {
				arrive(inBacklog[0])
				inBacklog = inBacklog[1:]
				q.taken++
			} else if l := q.ready(); l != nil {
				for range q.takeBlock(l).frames {
					arrive(lane[l.flow][0])
					lane[l.flow] = lane[l.flow][1:]
				}
			} else if len(q.order) > 0 && len(inBacklog) == 0 {
				t.Fatalf("seed %d: no lane is ready, though the backlog is empty", seed)
			}
			checkLanes(t, &q)
		}
	}
}

// TestAddressesAreHeldForATime checks that datagrams are held until the time is over, and that the
// addresses are a bounded number, from which those whose time is over go first.
func TestAddressesAreHeldForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d datagrams
		d.holdAddr("a", time.Second)
		if !d.holds("a") || d.holds("b") {
			t.Error("a is not held, or b is")
		}
		passTime(time.Second - 1)
		if !d.holds("a") {
			t.Error("a is not held until its time is over")
		}
		if passTime(1); d.holds("a") || d.holding.Load() || len(d.held) != 0 {
			t.Errorf("a is held after its time, or remembered: %d", len(d.held))
		}
		d.holdAddr("short", time.Second)
		for i := range heldMax - 1 {
			d.holdAddr(fmt.Sprint(i), time.Minute)
		}
		if d.holdAddr("one more", time.Minute); d.holds("one more") || !d.holds("short") || len(d.held) != heldMax {
			t.Errorf("%d addresses are held, or another one than the first", len(d.held))
		}
		passTime(time.Second)
		if d.holdAddr("one more", time.Minute); !d.holds("one more") || d.holds("short") || !d.holds("0") || len(d.held) != heldMax {
			t.Errorf("%d addresses are held, or a finished one kept its place", len(d.held))
		}
	})
}

// passTime lets virtual time pass.
func passTime(d time.Duration) { <-time.After(d) }

// TestAnIdleLinkIsWrittenDirectly checks when a sender writes by itself: the link is idle, was quiet for long
// enough, has a connection that can, and the frame is not large.
func TestAnIdleLinkIsWrittenDirectly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(l *link)
			n      int
			quiet  time.Duration
			want   bool
		}{
			"idle and quiet":         {nil, directBytes, directPause + 1, true},
			"not quiet":              {nil, 1, directPause, false},
			"large":                  {nil, directBytes + 1, time.Hour, false},
			"busy":                   {func(l *link) { l.idle = false }, 1, time.Hour, false},
			"no such connection":     {func(l *link) { l.direct.try = nil }, 1, time.Hour, false},
			"broken":                 {func(l *link) { l.broken = errReplaced }, 1, time.Hour, false},
			"after a crowd":          {func(l *link) { l.direct.crowd = true }, 1, crowdPause, false},
			"after a crowd, quieter": {func(l *link) { l.direct.crowd = true }, 1, crowdPause + 1, true},
		} {
			l := &link{idle: true}
			l.direct.try = func() int { return 0 }
			l.direct.last = time.Now().Add(-c.quiet)
			if c.change != nil {
				c.change(l)
			}
			if got := l.mayWriteLocked(c.n); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
			if c.quiet < time.Hour && !l.direct.last.Equal(time.Now()) {
				t.Errorf("%s: the time of the send was not noted", name)
			}
		}
	})
}

// TestExpressIsBounded checks when urgent frames pass the backlog: while it is long, for as many
// bytes as the credit allows, and once the earlier frames of their flow were taken.
func TestExpressIsBounded(t *testing.T) {
	var x express
	for _, c := range []struct {
		recording bool
		backlog   int
		want      bool
	}{{false, expressFrom - 1, false}, {false, expressFrom, true}, {true, expressUntil, false}, {true, expressUntil + 1, true}, {false, expressUntil + 1, false}} {
		if x.recording = c.recording; x.isNeeded(c.backlog) != c.want {
			t.Errorf("recording %v, backlog %d: needed %v", c.recording, c.backlog, !c.want)
		}
	}
	q := backlog{pool: new(sync.Pool)}
	for _, text := range []string{"1 a", "2 b", "1 c", "0 d"} {
		q.addFrame(KindView, []byte(text))
	}
	flows := [256]func([]byte) (Flow, bool){KindView: flowOfText}
	x.recordAll(&q, 10, &flows)
	x.credit = 100
	for _, c := range []struct {
		n     int
		f     Flow
		taken uint64
		want  bool
	}{{100, 1, 13, true}, {101, 1, 13, false}, {1, 1, 12, false}, {1, 2, 12, true}, {1, 2, 11, false}, {1, 3, 0, true}} {
		if got := x.admitsFrame(c.n, c.f, c.taken); got != c.want {
			t.Errorf("%d bytes of flow %d, %d taken: %v", c.n, c.f, c.taken, got)
		}
	}
	x.blocks.pool = q.pool
	if x.addUrgent(KindView, make([]byte, 40)); x.credit != 100-40-frameBytesAround || x.blocks.frames != 1 {
		t.Errorf("credit %d, %d frames", x.credit, x.blocks.frames)
	}
	if x.dropAll(); x.last != nil || x.recording || x.blocks.frames != 0 {
		t.Errorf("left: %+v", x)
	}
}

// TestBlocksAreTakenInTurn checks that express goes first, and then blocks of the backlog and pieces
// of lanes in turn.
func TestBlocksAreTakenInTurn(t *testing.T) {
	l := &link{}
	l.backlog.pool, l.express.blocks.pool = new(sync.Pool), new(sync.Pool)
	for range 2 {
		l.backlog.addFrame(1, make([]byte, blockBytes))
		l.lanes.queued++
	}
	l.lanes.addFrame(7, 2, make([]byte, 3*pieceBytes))
	l.lanes.order[0].frames[0].after = 0 // it does not wait for the backlog
	l.express.addUrgent(3, []byte("urgent"))
	var got []Kind
	for l.framesLocked() > 0 {
		crowd := l.backlog.frames > 1
		b := l.nextLocked()
		b.seal()
		k := Kind(b.bytes[frameKindAt])
		if k == 0 {
			k = Kind(b.bytes[frameHeaderBytes+frameKindAt])
		}
		if got = append(got, k); k != 3 && l.express.credit != expressBytes {
			t.Errorf("a block of kind %d leaves express a credit of %d", k, l.express.credit)
		}
		if k == 1 && l.direct.crowd != crowd {
			t.Errorf("a crowd: %v, want %v", l.direct.crowd, crowd)
		}
	}
	if want := []Kind{3, 1, 2, 1, 2, 2}; !slices.Equal(got, want) || l.lanes.taken != 2 {
		t.Errorf("blocks of kinds %d, want %d; %d taken", got, want, l.lanes.taken)
	}
}

// TestEarlyDropsBecomeMoreLikely checks when a newcomer displaces any stranger: never while at most
// half of the slots are taken, and with a probability that grows from there.
func TestEarlyDropsBecomeMoreLikely(t *testing.T) {
	for taken := range 8 {
		for drawn := range 4 {
			var s strangers
			s.initStrangers(8, 8, new(atomic.Int64))
			s.draw = func(n int) int {
				if n == 4 {
					return drawn
				}
				return n - 1
			}
			var last *strangerConn
			for i := range taken {
				in := &strangerConn{source: fmt.Sprint(i)}
				in.at = s.all.PushBack(in)
				s.bySource[in.source]++
				last = in
			}
			want := taken > 4 && drawn < taken-4
			if taken == 5 && drawn == 0 {
				want = true
			}
			out := s.victim("new")
			if (out != nil) != want || out != nil && out != last {
				t.Errorf("%d taken, %d drawn: %+v ends", taken, drawn, out)
			}
		}
	}
}
