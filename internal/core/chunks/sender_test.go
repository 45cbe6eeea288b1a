package chunks

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

const firstWait = 100 * time.Millisecond

func newTestSender(window int) Sender[string] {
	return NewSender[string](Config{Window: window, Wait: func(misses int) time.Duration { return Backoff(firstWait, misses) }})
}

// sendAll returns the numbers of all chunks that can leave.
func sendAll(s *Sender[string], now clock.Instant) (numbers []uint64) {
	for n, _, ok := s.Next(now); ok; n, _, ok = s.Next(now) {
		numbers = append(numbers, n)
	}
	return numbers
}

func wantNumbers(t *testing.T, what string, got []uint64, want ...uint64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: sends %v, want %v", what, got, want)
	}
}

func fillWindow(s *Sender[string]) {
	for s.HasRoom() {
		s.Add("x")
	}
}

func TestAWindowOfChunksIsInFlight(t *testing.T) {
	s := newTestSender(3)
	fillWindow(&s)
	wantNumbers(t, "begin", sendAll(&s, 0), 0, 1, 2)
	if acked := s.OnAck(1, 2); len(acked) != 2 || s.Unacked() != 1 {
		t.Errorf("%d newly acknowledged, %d not", len(acked), s.Unacked())
	}
	fillWindow(&s)
	wantNumbers(t, "after an acknowledgement", sendAll(&s, 1), 3, 4)
	// Acknowledgements that are old, or of what was never sent.
	for _, next := range []uint64{0, 1, 2, 6, 1 << 60} {
		if acked := s.OnAck(1, next); acked != nil && next != 2 {
			t.Errorf("acknowledgement %d confirms %v", next, acked)
		}
	}
}

func TestUnacknowledgedChunksAreSentAgainAtTheDeadline(t *testing.T) {
	s := newTestSender(2)
	if s.Deadline() != clock.Never {
		t.Errorf("a deadline of %v without chunks", s.Deadline())
	}
	fillWindow(&s)
	sendAll(&s, 0)
	now := clock.Instant(0)
	for i, wait := range []time.Duration{1, 2, 4, 8, 8} {
		if got := s.Deadline().Sub(now); got != wait*firstWait || s.Misses() != i {
			t.Fatalf("deadline after %v with %d misses, want %v", got, s.Misses(), wait*firstWait)
		}
		if s.Expire(s.Deadline() - 1) {
			t.Fatal("expired before the deadline")
		}
		now = s.Deadline()
		if !s.Expire(now) {
			t.Fatal("not expired at the deadline")
		}
		wantNumbers(t, "again", sendAll(&s, now), 0, 1)
	}
	s.OnAck(now, 1)
	if s.Misses() != 0 || s.Deadline().Sub(now) != firstWait {
		t.Errorf("after progress: %d misses, deadline after %v", s.Misses(), s.Deadline().Sub(now))
	}
	if s.OnAck(now, 2); s.Deadline() != clock.Never {
		t.Error("a deadline with nothing in flight")
	}
}

// The acknowledgement of a chunk after a gap causes one retransmission, however many follow.
func TestAGapIsRepairedOnce(t *testing.T) {
	s := newTestSender(4)
	fillWindow(&s)
	sendAll(&s, 0)
	s.OnAck(1, 1)
	wantNumbers(t, "no gap", sendAll(&s, 1))
	s.OnAck(1, 1)
	wantNumbers(t, "a gap", sendAll(&s, 1), 1, 2, 3)
	s.OnAck(1, 1)
	wantNumbers(t, "the same gap", sendAll(&s, 1))
}

func TestAChunkWithoutRoomIsSentLater(t *testing.T) {
	s := newTestSender(2)
	fillWindow(&s)
	s.Next(0)
	s.TakeBack()
	if s.Deadline() != clock.Never {
		t.Error("a deadline with nothing in flight")
	}
	wantNumbers(t, "with room", sendAll(&s, 0), 0, 1)
	s.TakeBack()
	wantNumbers(t, "one of two", sendAll(&s, 0), 1)
}

func TestAChunkThatCannotBeSentIsReplaced(t *testing.T) {
	s := newTestSender(2)
	s.Add("fits")
	s.Next(0)
	s.Add("too large")
	s.Next(0)
	s.RemoveNewest()
	if acked := s.OnAck(0, 2); acked != nil {
		t.Errorf("what was removed is acknowledged: %v", acked)
	}
	s.Add("small")
	if n, chunk, ok := s.Next(0); n != 1 || chunk != "small" || !ok {
		t.Errorf("then sends %d %q %v", n, chunk, ok)
	}
}

// A receiver that holds nothing makes the sender begin again, once, and later.
func TestATransferBeginsAgain(t *testing.T) {
	s := newTestSender(2)
	if s.Restart(0) {
		t.Error("begins again before it has begun")
	}
	fillWindow(&s)
	sendAll(&s, 0)
	s.OnAck(0, 1)
	if !s.Restart(0) || s.Unacked() != 0 || s.Restart(0) {
		t.Error("does not begin again, or twice")
	}
	wantNumbers(t, "immediately", sendAll(&s, 0))
	if s.HasRoom() {
		t.Error("takes a chunk that cannot leave")
	}
	if at := s.Deadline(); at.Sub(0) != 2*firstWait || !s.Expire(at) {
		t.Errorf("deadline %v", at)
	}
	fillWindow(&s)
	wantNumbers(t, "later", sendAll(&s, s.Deadline()), 0, 1)
}

func TestRetriesBackOff(t *testing.T) {
	var r Retry
	if !r.IsDue(0) {
		t.Error("a message is not due that was never sent")
	}
	now := clock.Instant(1)
	for i, wait := range []time.Duration{1, 2, 4, 8, 8, 1} {
		r.NoteSent(now, firstWait, i > 0 && i < 5)
		if r.At().Sub(now) != wait*firstWait || r.IsDue(r.At()-1) || !r.IsDue(r.At()) {
			t.Errorf("attempt %d: due after %v, want %v", i, r.At().Sub(now), wait*firstWait)
		}
		now = r.At()
	}
}

// A gap is seen in an acknowledgement that repeats, while more than one chunk is in flight: of one
// alone, it is a copy. Another gap is repaired, too, and no repair counts as progress.
func TestAGapNeedsAChunkBehindIt(t *testing.T) {
	s := newTestSender(4)
	fillWindow(&s)
	sendAll(&s, 0)
	s.OnAck(1, 3)
	s.OnAck(1, 3)
	wantNumbers(t, "one chunk in flight", sendAll(&s, 1))
	s = newTestSender(4)
	fillWindow(&s)
	sendAll(&s, 0)
	s.Expire(s.Deadline())
	sendAll(&s, clock.Instant(firstWait))
	deadline := s.Deadline()
	s.OnAck(deadline-1, 0)
	if s.Misses() != 1 || s.Deadline() != deadline {
		t.Errorf("an acknowledgement of nothing leaves %d misses, and the deadline at %v instead of %v", s.Misses(), s.Deadline(), deadline)
	}
	wantNumbers(t, "the first gap", sendAll(&s, 1), 0, 1, 2, 3)
	s.OnAck(1, 1)
	s.OnAck(1, 1)
	wantNumbers(t, "the next gap", sendAll(&s, 1), 1, 2, 3)
	s.OnAck(1, 2)
	s.OnAck(1, 2)
	wantNumbers(t, "the last gap", sendAll(&s, 1), 2, 3)
}

// Each deadline sets the next one, also if no chunk leaves in between: the network may have no
// room.
func TestADeadlineIsFollowedByTheNext(t *testing.T) {
	s := newTestSender(1)
	fillWindow(&s)
	sendAll(&s, 0)
	now := s.Deadline()
	if s.Expire(now); s.Deadline().Sub(now) != 2*firstWait || s.Expire(now) {
		t.Errorf("the next deadline is after %v", s.Deadline().Sub(now))
	}
}

// The first message that is sent has the first wait, whatever it repeats.
func TestTheFirstRetryHasTheFirstWait(t *testing.T) {
	var r Retry
	if r.NoteSent(5, firstWait, true); r.At().Sub(5) != firstWait {
		t.Errorf("due after %v", r.At().Sub(5))
	}
}
