package reliable

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/failure"
)

// desk is a Sender on a clock of its own; node 1 is the home of all shards.
type desk struct {
	*Sender
	t   *testing.T
	now clock.Instant
	out Effects
}

func newDesk(t *testing.T, change func(*Config)) *desk {
	cfg := Config{Producer: 7, Window: 100, Messages: 100, Bytes: 1000, Resend: time.Second}
	if change != nil {
		change(&cfg)
	}
	return &desk{Sender: NewSender(cfg), t: t, now: clock.Instant(time.Hour)}
}

func (d *desk) do(ev Event) *Effects {
	d.out.Reset()
	d.Step(d.now, ev, &d.out)
	return &d.out
}

// offer offers a message of so many bytes to an entity of a shard.
func (d *desk) offer(shard protocol.ShardID, id string, bytes int) bool {
	return d.do(Offer{Shard: shard, ID: id, Data: make([]byte, bytes)}).Taken
}

// pump sends all that is to be sent to node 1, and returns it: "seq/try after prev".
func (d *desk) pump() (sent []string) {
	for {
		m, ok := d.Next(d.now)
		if !ok {
			return sent
		}
		sent = append(sent, fmt.Sprintf("%d/%d after %d", m.Stamp.Seq, m.Stamp.Try, m.Stamp.Prev))
		d.do(Sent{Shard: m.Shard, Seq: m.Stamp.Seq, At: 1})
	}
}

func (d *desk) expect(what string, want ...string) {
	d.t.Helper()
	if got := d.pump(); !slices.Equal(got, want) {
		d.t.Errorf("%s: sent %q, want %q", what, got, want)
	}
}

// wait lets time pass until what Deadline says, and returns how long that was.
func (d *desk) wait() time.Duration {
	d.t.Helper()
	next := d.Deadline()
	if next == clock.Never {
		d.t.Fatal("nothing will happen any more")
	}
	took := max(next.Sub(d.now), 0)
	d.now = d.now.Add(took)
	d.do(Tick{})
	return took
}

// The bounds hold for what is unconfirmed; a message larger than Bytes goes alone.
func TestSenderKeepsItsBounds(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Window, c.Messages, c.Bytes = 3, 5, 100 })
	if !d.offer(1, "a", 200) || d.offer(1, "a", 1) {
		t.Error("200 bytes of 100 are taken if nothing else is held, and hold everything else back")
	}
	d.pump()
	d.do(Confirmed{Shard: 1, Seq: 1, From: 1})
	for i, want := range []bool{true, true, false} {
		if d.offer(1, "a", 50) != want {
			t.Errorf("message %d of 50 bytes each, of 100", i+1)
		}
	}
	d = newDesk(t, func(c *Config) { c.Window, c.Messages, c.Bytes = 3, 5, 100 })
	for i, want := range []bool{true, true, true, false} {
		if d.offer(1, "a", 1) != want {
			t.Errorf("message %d of a window of 3", i+1)
		}
	}
	for i, want := range []bool{true, true, false} {
		if d.offer(2, "a", 1) != want {
			t.Errorf("message %d of 5, of another shard", i+4)
		}
	}
}

// Unanswered messages are retransmitted, with the number of the copy, after Resend, then
// twice that, four times, eight times, and no later: the first of an entity only.
func TestSilenceIsAnsweredByCopies(t *testing.T) {
	d := newDesk(t, nil)
	d.offer(1, "a", 1)
	d.offer(1, "a", 1)
	d.offer(1, "b", 1)
	d.expect("at first", "1/1 after 0", "2/1 after 1", "3/1 after 0")
	last := d.now
	for try, want := range []time.Duration{1, 2, 4, 8, 8} {
		var sent []string
		for len(sent) == 0 {
			d.wait()
			sent = d.pump()
		}
		// The look for them comes twice in each Resend.
		if took := d.now.Sub(last); took < want*time.Second || took > want*time.Second+time.Second/2 {
			t.Errorf("copy %d after %v, want %ds", try+2, took, want)
		}
		slices.Sort(sent)
		if !slices.Equal(sent, []string{fmt.Sprintf("1/%d after 0", try+2), fmt.Sprintf("3/%d after 0", try+2)}) {
			t.Errorf("copy %d: %q", try+2, sent)
		}
		last = d.now
	}
}

// A copy that came and was not handled is sent again after a pause that doubles, up to a
// bound, and begins anew when the home has handled something. Later messages wait behind it.
func TestRefusalsPauseTheirEntity(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
	d.offer(1, "a", 1)
	d.offer(1, "b", 1)
	d.expect("at first", "1/1 after 0", "2/1 after 0")
	pause := func(try uint32) time.Duration {
		d.do(Refused{Shard: 1, Seq: 1, Try: try})
		d.do(Refused{Shard: 1, Seq: 1, Try: try}) // doubled by the network
		d.expect("while it pauses")
		took := d.wait()
		d.expect("after the pause", fmt.Sprintf("1/%d after 0", try+1))
		return took
	}
	for try, want := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 200, 200} {
		if got := pause(uint32(try + 1)); got != want*time.Millisecond {
			t.Errorf("pause %d took %v, want %d ms", try+1, got, want)
		}
	}
	d.do(Refused{Shard: 1, Seq: 1, Try: 4})
	d.expect("an old copy's refusal says nothing of the newest")
	d.do(Refused{Shard: 1, Seq: 1, Try: 10})
	d.offer(1, "a", 1)
	d.expect("behind what pauses")
	d.do(Confirmed{Shard: 1, Seq: 1, From: 1})
	d.expect("an earlier copy was handled all the same", "3/1 after 0")
	d.do(Refused{Shard: 1, Seq: 3, Try: 1})
	if got := d.wait(); got != refusedMin {
		t.Errorf("the first pause after a success took %v", got)
	}
}

// A home that misses something gets all from the first unconfirmed message on.
func TestAGapIsFilledFromItsBeginning(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
	for range 4 {
		d.offer(1, "a", 1)
	}
	d.expect("at first", "1/1 after 0", "2/1 after 1", "3/1 after 2", "4/1 after 3")
	d.do(Refused{Shard: 1, Seq: 3, Try: 1})
	d.wait()
	d.expect("refused for want of room", "3/2 after 2", "4/2 after 3")
	d.do(Refused{Shard: 1, Seq: 3, Try: 2, Gap: true})
	d.wait()
	d.expect("refused for a gap", "1/2 after 0", "2/2 after 1", "3/3 after 2", "4/3 after 3")
}

// Where there is no way a shard is tried again after a pause that doubles, up to a
// bound; a way that opens ends it. Other shards go on.
func TestShardsWithoutAWayAreTriedAgain(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
	d.offer(1, "a", 1)
	d.offer(1, "b", 1)
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 500, 500} {
		if m, ok := d.Next(d.now); !ok || m.Stamp.Seq != 1 {
			t.Fatalf("attempt %d: %+v, %v", i+1, m, ok)
		}
		d.do(Blocked{Shard: 1})
		d.do(Blocked{Shard: 1})
		d.expect("while there is no way")
		if d.offer(2, fmt.Sprint("c", i), 1) {
			d.expect("another shard", fmt.Sprintf("%d/1 after 0", i+1))
		}
		if got := d.wait(); got != want*time.Millisecond {
			t.Errorf("pause %d took %v, want %d ms", i+1, got, want)
		}
	}
	if _, ok := d.Next(d.now); !ok {
		t.Fatal("nothing to send")
	}
	d.do(Blocked{Shard: 1})
	d.do(Freed{Shard: 1})
	d.expect("a way has opened", "1/1 after 0", "2/1 after 0")
	d.offer(1, "a", 1)
	if _, ok := d.Next(d.now); !ok {
		t.Fatal("nothing to send")
	}
	d.do(Blocked{Shard: 1})
	if got := d.wait(); got != blockedMin {
		t.Errorf("the first pause after a success took %v", got)
	}
}

// Of a node that is lost only what was there goes out again, and its word does not count
// any more; without a node named, of all.
func TestWhatWasLostGoesOutAgainAtOnce(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
	d.offer(1, "a", 1)
	d.offer(2, "b", 1)
	for at := range 2 {
		m, _ := d.Next(d.now)
		d.do(Sent{Shard: m.Shard, Seq: m.Stamp.Seq, At: gossip.NodeID(at + 1)})
	}
	d.do(Lost{Node: 2})
	if out := d.do(Confirmed{Shard: 2, Seq: 1, From: 2}); len(out.Done) > 0 {
		t.Error("the word of a lost node counts")
	}
	if out := d.do(Confirmed{Shard: 1, Seq: 1, From: 3}); len(out.Done) > 0 {
		t.Error("the word of a node counts that has no copy")
	}
	d.expect("node 2 is lost", "1/2 after 0")
	d.do(Lost{})
	sent := d.pump()
	slices.Sort(sent)
	if !slices.Equal(sent, []string{"1/2 after 0", "1/3 after 0"}) {
		t.Errorf("all is lost: %q", sent)
	}
}

// Every message is over once, whatever is said twice, late, or out of the blue.
func TestEveryMessageIsOverOnce(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
	for _, id := range []string{"a", "b", "b", "b"} {
		d.offer(1, id, 1)
	}
	d.pump()
	over := func(ev Confirmed) (seqs []string) {
		for _, done := range d.do(ev).Done {
			seqs = append(seqs, fmt.Sprint(done.ID, " ", done.Result))
		}
		return seqs
	}
	no := errors.New("no")
	for i, c := range []struct {
		ev   Confirmed
		want []string
	}{
		{Confirmed{Shard: 1, Seq: 3, From: 1, All: true, Result: no}, []string{"b " + failure.ResultLost.Error(), "b no"}},
		{Confirmed{Shard: 1, Seq: 3, From: 1, All: true}, nil},
		{Confirmed{Shard: 1, Seq: 2, From: 1}, nil},
		{Confirmed{Shard: 1, Seq: 5, From: 1}, nil},
		{Confirmed{Shard: 1, Seq: 99, From: 1}, nil},
		{Confirmed{Shard: 9, Seq: 1, From: 1}, nil},
		{Confirmed{Shard: 1, Seq: 1, From: 1}, []string{"a <nil>"}},
		{Confirmed{Shard: 1, Seq: 1, From: 1}, nil},
		{Confirmed{Shard: 1, Seq: 4, From: 1}, []string{"b <nil>"}},
	} {
		if got := over(c.ev); !slices.Equal(got, c.want) {
			t.Errorf("word %d, %+v: %q are over, want %q", i+1, c.ev, got, c.want)
		}
	}
	if n, bytes := d.Held(); n != 0 || bytes != 0 || d.Deadline() != clock.Never {
		t.Errorf("%d messages, %d bytes held, next at %v", n, bytes, d.Deadline())
	}
	// Numbers are not used twice, so that what is still on its way means nothing.
	d.offer(1, "a", 1)
	d.expect("after all was over", "5/1 after 0")
}

// The word about one message lets those go on that wait behind it, with the copy that is
// due of an earlier one.
func TestAWordLetsTheRestGoOn(t *testing.T) {
	d := newDesk(t, nil)
	for range 3 {
		d.offer(1, "a", 1)
	}
	d.expect("at first", "1/1 after 0", "2/1 after 1", "3/1 after 2")
	d.wait()
	for d.now.Sub(clock.Instant(time.Hour)) < time.Second {
		d.wait()
	}
	// A copy of the first is due; that the second was handled does not change it.
	d.do(Confirmed{Shard: 1, Seq: 2, From: 1})
	d.expect("the first is still due", "1/2 after 0")
	d.do(Lost{Node: 1})
	d.do(Confirmed{Shard: 1, Seq: 1, From: 1})
	d.expect("lost", "1/3 after 0", "3/2 after 1")
	d.do(Confirmed{Shard: 1, Seq: 1, From: 1})
	d.expect("the third is out already")
	d.do(Refused{Shard: 1, Seq: 3, Try: 2})
	d.offer(1, "a", 1)
	d.wait()
	d.expect("refused, and one behind it", "3/3 after 0", "4/1 after 3")
	for from := d.now; d.now.Sub(from) <= 4*time.Second; {
		d.wait()
	}
	d.do(Confirmed{Shard: 1, Seq: 3, From: 1})
	d.expect("the copy that was due is not needed, and the next is out")
}
