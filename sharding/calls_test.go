package sharding

import (
	"errors"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// An answer is for the call that it was given for, once: what comes again, late, or out
// of the blue reaches nobody, and least of all who waits in the same slot now.
func TestAnswersReachTheirOwnCallOnce(t *testing.T) {
	var table calls[string]
	first := table.begin(3, 7)
	number := first.number
	for _, other := range []uint64{0, number + callParts, number + 1<<32, number ^ 1} {
		if table.finish(other, "out of the blue", nil) || table.waits(other) || table.move(other, 1) {
			t.Errorf("%x finds the call of %x", other, number)
		}
	}
	if !table.waits(number) || !table.finish(number, "yes", nil) {
		t.Fatal("the call is not there")
	}
	if table.waits(number) || table.move(number, 9) || table.finish(number, "twice", nil) {
		t.Error("a call that has its answer takes another")
	}
	if _, cancelled := table.cancel(first); cancelled {
		t.Error("a call that has its answer is cancelled")
	}
	if <-first.done; first.resp != "yes" || first.err != nil {
		t.Errorf("%q, %v", first.resp, first.err)
	}
	table.release(first)
	next := table.begin(3, 7)
	if next != first || next.number == number {
		t.Fatalf("the slot is used again, under another number: %x after %x", next.number, number)
	}
	if table.finish(number, "late", nil) || !table.waits(next.number) {
		t.Error("a late answer reaches who waits in the slot now")
	}
	if at, cancelled := table.cancel(next); at != 7 || !cancelled || table.finish(next.number, "too late", nil) {
		t.Errorf("cancelled %v, at %v", cancelled, at)
	}
	table.release(next)
	if n := table.count(); n != 0 {
		t.Errorf("%d calls wait", n)
	}
}

// The loss of a node ends the calls that are there, of all nodes those that are
// anywhere. What waits in a buffer here goes on.
func TestALostNodeEndsItsCalls(t *testing.T) {
	gone := errors.New("gone")
	var table calls[string]
	open := map[gossip.NodeID]*call[string]{}
	for _, at := range []gossip.NodeID{0, 1, 2} {
		open[at] = table.begin(ShardID(at), 9)
		if !table.move(open[at].number, at) {
			t.Fatal("the call is not there")
		}
	}
	for i, want := range []struct {
		lost gossip.NodeID
		ends []gossip.NodeID
	}{{1, []gossip.NodeID{1}}, {1, nil}, {0, []gossip.NodeID{2}}, {0, nil}} {
		if n := table.failNode(want.lost, gone); n != len(want.ends) {
			t.Errorf("loss %d, of node %v, ends %d calls, want those at %v", i+1, want.lost, n, want.ends)
		}
		for _, at := range want.ends {
			if <-open[at].done; open[at].err != gone {
				t.Errorf("at %v: %v", at, open[at].err)
			}
		}
	}
	if !table.waits(open[0].number) || !table.finish(open[0].number, "home", nil) {
		t.Error("what waited in a buffer has ended")
	}
}
