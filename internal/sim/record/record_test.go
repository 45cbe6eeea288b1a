package record

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// recorder returns a Recorder and the clock that it reads.
func recorder() (*Recorder, *virtual.Instant) {
	now := new(virtual.Instant)
	return New(2, func() virtual.Instant { return *now }), now
}

func TestALeaseEndsWhenNothingRenewsIt(t *testing.T) {
	r, now := recorder()
	r.Renew(0, false, 100)
	*now = 80
	r.Renew(0, false, 180)
	*now = 250 // it has expired since
	r.Renew(0, false, 350)
	*now = 300
	r.Renew(0, true, 400)
	*now = 320
	r.Renew(0, true, 0)
	*now = 500
	got := r.Finish().Bars
	want := []Bar{
		{Kind: Lease, From: 0, To: 180, End: "expired"},
		{Kind: Lease, From: 250, To: 300, End: "replaced"},
		{Kind: LeaderLease, From: 300, To: 320, End: "withdrawn"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestBarsEndWithTheirProcess(t *testing.T) {
	r, now := recorder()
	r.Begin(Bar{Kind: Life, Host: 1})
	r.Begin(Bar{Kind: Shard, Host: 1, Group: "t0"})
	r.Begin(Bar{Kind: Shard, Host: 0, Group: "t1"})
	r.Begin(Bar{Kind: Cut, Host: 1, Group: "0"})
	r.Ran(1, "t0", 4, "tell")
	r.Ran(1, "t7", 4, "tell")
	*now = 10
	r.EndProcess(1, "crashed")
	*now = 30
	rec := r.Finish()
	for i, end := range []time.Duration{10, 10, 30, 30} {
		if rec.Bars[i].To != end {
			t.Errorf("bar %d ends at %v, want %v", i, rec.Bars[i].To, end)
		}
	}
	if len(rec.Handlers) != 1 || rec.Handlers[0].Bar != 1 || rec.OthersLeftOut != 1 {
		t.Errorf("handlers %v, %d left out: one ran in no shard", rec.Handlers, rec.OthersLeftOut)
	}
}

// The newest messages are kept, and each keeps its number.
func TestTheOldestMessagesAreLeftOut(t *testing.T) {
	r, now := recorder()
	numbers := map[int]int{}
	const sent = 3*messagesMax + 7
	for i := range sent {
		*now = virtual.Instant(i)
		numbers[i] = r.Send(0, 1, func() (Class, string) { return Order, fmt.Sprint(i) })
	}
	*now = sent
	r.Handle(numbers[0])
	r.Handle(numbers[sent-1])
	rec := r.Finish()
	first, last := rec.Messages[0], rec.Messages[messagesMax-1]
	if len(rec.Messages) != messagesMax || rec.MessagesLeftOut != sent-messagesMax || first.Text != fmt.Sprint(sent-messagesMax) {
		t.Errorf("%d messages from %q on, %d left out", len(rec.Messages), first.Text, rec.MessagesLeftOut)
	}
	if last.Handled != sent || first.Handled >= 0 {
		t.Errorf("handled at %v and %v", first.Handled, last.Handled)
	}
}

func TestEventsBecomeMarksInPlainWords(t *testing.T) {
	r, _ := recorder()
	r.Note(1, "removed", 0, func() string { return "its cluster has yielded" })
	r.Note(1, "removed", 0, nil) // of the same moment
	r.Note(0, "office left", 0, func() string { return "24.2017460225/0 another is elected" })
	r.Note(0, "disk fails", 0, nil)
	r.Note(0, "route opened", 0, func() string { t.Error("called for an event that is not drawn"); return "" })
	var got []string
	for _, m := range r.Finish().Marks {
		got = append(got, m.Text)
	}
	want := []string{"the incarnation ends: its cluster has yielded", "no longer coordinates: another is elected", "the disk works again"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestANilRecorderRecordsNothing(t *testing.T) {
	var r *Recorder
	r.Begin(Bar{})
	r.End(Life, 0, "", "")
	r.EndProcess(0, "")
	r.Renew(0, true, 1)
	r.Add(Mark{})
	r.Note(0, "crashed", 0, nil)
	r.Ran(0, "", 0, "")
	r.Handle(r.Send(0, 1, func() (Class, string) { t.Error("described"); return 0, "" }))
	if r.Finish() != nil {
		t.Error("a recording of nothing")
	}
}
