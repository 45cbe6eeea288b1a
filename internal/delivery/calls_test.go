package delivery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// A reply completes its own call, once. A reply that is repeated, late or forged completes no
// call, in particular not the call that uses the same slot now.
func TestAnswersReachTheirOwnCallOnce(t *testing.T) {
	var table Calls[string]
	first := table.Begin(3, 7, time.Time{})
	number := first.Number
	for _, other := range []uint64{0, number + callParts, number + 1<<32, number ^ 1} {
		if table.Finish(other, "forged", nil) || table.Waits(other) || table.Move(other, 1) {
			t.Errorf("%x finds the call of %x", other, number)
		}
	}
	if !table.Waits(number) || !table.Finish(number, "yes", nil) {
		t.Fatal("the call is not there")
	}
	if table.Waits(number) || table.Move(number, 9) || table.Finish(number, "twice", nil) {
		t.Error("a call that has its answer takes another")
	}
	if _, cancelled := table.Cancel(first); cancelled {
		t.Error("a call that has its answer is cancelled")
	}
	if <-first.Done; first.Resp != "yes" || first.Err != nil {
		t.Errorf("%q, %v", first.Resp, first.Err)
	}
	table.Release(first)
	next := table.Begin(3, 7, time.Time{})
	if next != first || next.Number == number {
		t.Fatalf("the slot is used again, under another number: %x after %x", next.Number, number)
	}
	if table.Finish(number, "late", nil) || !table.Waits(next.Number) {
		t.Error("a late reply completes the call that uses the slot now")
	}
	if at, cancelled := table.Cancel(next); at != 7 || !cancelled || table.Finish(next.Number, "too late", nil) {
		t.Errorf("cancelled %v, at %v", cancelled, at)
	}
	table.Release(next)
	if n := table.Count(); n != 0 {
		t.Errorf("%d calls wait", n)
	}
}

// The loss of a node ends the calls that were sent to it, and the loss of all nodes ends the
// calls that were sent to any. Calls that wait in a buffer here go on.
func TestALostNodeEndsItsCalls(t *testing.T) {
	gone := errors.New("gone")
	var table Calls[string]
	open := map[gossip.NodeID]*Call[string]{}
	for _, at := range []gossip.NodeID{0, 1, 2} {
		open[at] = table.Begin(strategy.ShardID(at), 9, time.Time{})
		if !table.Move(open[at].Number, at) {
			t.Fatal("the call is not there")
		}
	}
	for i, want := range []struct {
		lost gossip.NodeID
		ends []gossip.NodeID
	}{{1, []gossip.NodeID{1}}, {1, nil}, {0, []gossip.NodeID{2}}, {0, nil}} {
		if n := table.FailNode(want.lost, gone); n != len(want.ends) {
			t.Errorf("loss %d, of node %v, ends %d calls, want those at %v", i+1, want.lost, n, want.ends)
		}
		for _, at := range want.ends {
			if <-open[at].Done; open[at].Err != gone {
				t.Errorf("at %v: %v", at, open[at].Err)
			}
		}
	}
	if !table.Waits(open[0].Number) || !table.Finish(open[0].Number, "home", nil) {
		t.Error("what waited in a buffer has ended")
	}
}

// Each call ends at its own limit, also if a limit is shorter than that of an earlier call, and
// only if no reply came before. A part has one timer, which is still once no call has a limit.
func TestCallsEndAtTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Calls[string]
		began := time.Now()
		begin := func(limit time.Duration) *Call[string] { return table.Begin(3, 7, began.Add(limit)) }
		long, short, answered := begin(time.Hour), begin(time.Second), begin(time.Second)
		unlimited := table.Begin(3, 7, time.Time{})
		table.Finish(answered.Number, "yes", nil)
		for _, want := range []struct {
			call *Call[string]
			err  error
			took time.Duration
		}{{answered, nil, 0}, {short, ErrLimit, time.Second}, {long, ErrLimit, time.Hour}} {
			<-want.call.Done
			if took := time.Since(began); want.call.Err != want.err || took != want.took || want.call.Node() != 7 {
				t.Errorf("%v after %v at %v, want %v after %v", want.call.Err, took, want.call.Node(), want.err, want.took)
			}
			table.Release(want.call)
		}
		synctest.Wait()
		if l := &table.partOf(unlimited.Number).limits; !l.due.IsZero() || !table.Waits(unlimited.Number) {
			t.Errorf("the timer runs until %v", l.due)
		}
		if again := begin(time.Hour + time.Second); again != long || <-again.Done != struct{}{} || again.Err != ErrLimit {
			t.Errorf("a slot that is used again: %v", again.Err)
		}
	})
}

// However close together limits are, the calls are not looked at all the time.
func TestLimitsCostLittleToCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Calls[string]
		const calls = 1000
		began := time.Now()
		var open []*Call[string]
		for i := range calls {
			open = append(open, table.Begin(0, 7, began.Add(time.Duration(i)*time.Microsecond)))
		}
		rests := map[time.Time]bool{}
		for i, c := range open {
			<-c.Done
			late := time.Since(c.until)
			if most := limitRest + calls*limitRestPerCall; late < 0 || late > most {
				t.Fatalf("call %d ended %v after its limit, at most %v is due", i, late, most)
			}
			synctest.Wait()
			part := &table.parts[0]
			part.mu.Lock()
			rests[part.limits.rest] = true
			part.mu.Unlock()
		}
		if len(rests) > 3 {
			t.Errorf("all calls were looked at %d times", len(rests))
		}
	})
}
