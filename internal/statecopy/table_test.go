package statecopy

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/failure"
)

var (
	token    = protocol.Token{Term: 1, Seq: 1}
	oldToken = protocol.Token{Term: 1}
	settings = Settings{Mode: standby.Quorum, Timeout: time.Minute, StateBytes: 100, NodeBytes: 1000}
)

// startTable returns a table that hosts shard 3.
func startTable(set Settings) *table {
	t := newTable(set, true, func() {})
	t.beginShard(standby.Ready{Shard: 3, Token: token})
	return t
}

// replies collects the results of held replies.
type replies []error

func (r *replies) reply(until time.Time) heldReply {
	return heldReply{until: until, done: func(err error) { *r = append(*r, err) }}
}

func (r *replies) put(t *testing.T, tab *table, id, state string) {
	t.Helper()
	res, err := tab.putState(3, token, id, []byte(state), r.reply(time.Time{}))
	if err != nil || !res.hosted || !res.held {
		t.Fatalf("%+v, %v", res, err)
	}
}

// Each reply waits for the version that it shows; the core gets the newest state once.
func TestRepliesWaitForTheirVersion(t *testing.T) {
	var got replies
	tab := startTable(settings)
	got.put(t, tab, "a", "1")
	got.put(t, tab, "a", "2")
	got.put(t, tab, "a", "2")
	changes := tab.takeChanges()
	if len(changes) != 1 || string(changes[0].State) != "2" || changes[0].Version != 2 || len(tab.takeChanges()) != 0 {
		t.Fatalf("changes %+v", changes)
	}
	for version, want := range []int{0, 1, 2} {
		released, _, ok := tab.setReplicated(standby.Kept{Shard: 3, Token: token, ID: "a", Version: uint64(version)})
		if ok != (version > 0) || len(released) != want {
			t.Errorf("version %d: %d replies, %v", version, len(released), ok)
		}
	}
	if res, err := tab.putState(3, token, "a", []byte("2"), got.reply(time.Time{})); res.held || err != nil {
		t.Errorf("a reply to an unchanged state waits: %+v, %v", res, err)
	}
	if tab.needsExpire() {
		t.Error("replies are held")
	}
}

func TestAsyncHoldsNoReply(t *testing.T) {
	set := settings
	set.Mode = standby.Async
	tab := startTable(set)
	if res, err := tab.putState(3, token, "a", []byte("1"), heldReply{}); res.held || err != nil || len(tab.takeChanges()) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestStatesBeyondTheBoundsAreNotTaken(t *testing.T) {
	tab := startTable(settings)
	if _, err := tab.putState(3, token, "a", make([]byte, 101), heldReply{}); err == nil {
		t.Error("takes a state above StateBytes")
	}
	tab.setHeldBytes(950)
	if _, err := tab.putState(3, token, "a", make([]byte, 51), heldReply{}); !errors.Is(err, errNodeFull) {
		t.Errorf("above NodeBytes: %v", err)
	}
	if state, hosted := tab.loadState(3, token, "a"); state != nil || !hosted || len(tab.takeChanges()) != 0 {
		t.Errorf("a rejected state is stored: %v", state)
	}
	if _, err := tab.putState(3, token, "a", make([]byte, 50), heldReply{}); err != nil {
		t.Error(err)
	}
}

func TestAnotherAllocationHasNoStates(t *testing.T) {
	var got replies
	tab := startTable(settings)
	got.put(t, tab, "a", "1")
	if _, hosted := tab.loadState(3, oldToken, "a"); hosted {
		t.Error("loads under another token")
	}
	if res, _ := tab.putState(3, oldToken, "a", nil, heldReply{}); res.hosted {
		t.Error("takes a state under another token")
	}
	if failed, _ := tab.endShard(3, oldToken); failed != nil {
		t.Error("ends the shard under another token")
	}
	tab.beginShard(standby.Ready{Shard: 3, Token: protocol.Token{Term: 2}}).finishAll(failure.NotKept)
	if !slices.Equal(got, replies{failure.NotKept}) {
		t.Errorf("replies of the older allocation: %v", got)
	}
	if _, _, ok := tab.setReplicated(standby.Kept{Shard: 3, Token: token, ID: "a", Version: 1}); ok {
		t.Error("an acknowledgement of the older allocation counts")
	}
}

func TestRepliesExpireAndShardsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got replies
		tab := startTable(settings)
		if _, err := tab.putState(3, token, "a", []byte("1"), got.reply(time.Now().Add(time.Second))); err != nil {
			t.Fatal(err)
		}
		got.put(t, tab, "b", "1")
		if late, _ := tab.takeExpired(time.Now().Add(time.Second)); len(late) != 1 {
			t.Errorf("%d replies expire", len(late))
		}
		if tab.leaveShard(3, oldToken, 0, nil) || !tab.leaveShard(3, token, 2*time.Second, func() {}) {
			t.Error("leaves under the wrong token, or not under the right one")
		}
		if _, left := tab.takeExpired(time.Now().Add(time.Second)); left != nil {
			t.Error("leaves although states are not replicated")
		}
		late, left := tab.takeExpired(time.Now().Add(2 * time.Second))
		if len(late) != 1 || len(left) != 1 || left[0].behind != 2 {
			t.Errorf("at the deadline: %d replies, %+v", len(late), left)
		}
	})
}

// An entity waits while too many of its replies are held.
func TestAnEntityWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got replies
		tab := startTable(settings)
		for range heldRepliesMax {
			got.put(t, tab, "a", "1")
		}
		done := false
		go func() {
			_, _ = tab.putState(3, token, "a", []byte("2"), got.reply(time.Time{}))
			done = true
		}()
		if synctest.Wait(); done {
			t.Fatal("does not wait")
		}
		tab.setReplicated(standby.Kept{Shard: 3, Token: token, ID: "a", Version: 1})
		if synctest.Wait(); !done {
			t.Error("still waits although there is room")
		}
	})
}

func TestAClosedTableTakesNoStates(t *testing.T) {
	tab := startTable(settings)
	tab.rejectAll()
	if res, err := tab.putState(3, token, "a", []byte("1"), heldReply{}); res.hosted || err != nil {
		t.Errorf("%+v, %v", res, err)
	}
}
