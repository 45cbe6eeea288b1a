package invariant

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// rememberedRun is a Remembered with one entity, 7, of shard 1, and nodes 1 and 2.
type rememberedRun struct {
	*Remembered
	t  *testing.T
	in *gossip.View
}

func newRememberedRun(t *testing.T) rememberedRun {
	return rememberedRun{NewRemembered(), t, &gossip.View{Epoch: 5, Cluster: 1}}
}

func allocation(seq uint64) protocol.ShardToken {
	return protocol.ShardToken{Shard: 1, Token: protocol.Token{Term: 1, Seq: seq}}
}

func (r rememberedRun) add(node gossip.NodeID) { r.Acked(r.BeginWrite(node, 1, 7, true), r.in, nil) }
func (r rememberedRun) remove(node gossip.NodeID) {
	r.Acked(r.BeginWrite(node, 1, 7, false), r.in, nil)
}

func (r rememberedRun) read(node gossip.NodeID, ids ...int) *Violation {
	return r.Read(1, node, 1, r.BeginRead(), IDs{ids, r.in, nil}, func(*StoredID) bool { return true })
}

func (r rememberedRun) wantMustRun(must bool) {
	r.t.Helper()
	all := r.MustRun(func(*StoredID) bool { return true })
	if got := slices.Equal(all, []int{7}); got != must {
		r.t.Errorf("must run: %v, want %v", got, must)
	}
}

// An entity must run from the acknowledgement of its id to its end by itself, if what is stored
// survives.
func TestAStoredIDMustRun(t *testing.T) {
	r := newRememberedRun(t)
	r.Began(7)
	w := r.BeginWrite(1, 1, 7, true)
	r.wantMustRun(false)
	r.Acked(w, r.in, []gossip.NodeID{1, 2, 3})
	r.wantMustRun(true)
	if lost := r.MustRun(func(s *StoredID) bool { return len(s.Voters) < 3 }); len(lost) > 0 {
		t.Errorf("what is lost must run: %v", lost)
	}
	r.Began(7) // at another home
	r.wantMustRun(true)
	r.Ended(1, allocation(1), 7)
	r.wantMustRun(false)
	r.Began(7)
	r.wantMustRun(false) // until it is stored again
	r.add(1)
	r.wantMustRun(true)
}

// A write that was acknowledged after the entity has ended, or has begun again, is an old one.
func TestAnOldWriteStoresNothing(t *testing.T) {
	r := newRememberedRun(t)
	r.Began(7)
	w := r.BeginWrite(1, 1, 7, true)
	r.Ended(1, allocation(1), 7)
	r.Began(7)
	r.Acked(w, r.in, nil)
	r.wantMustRun(false)
}

// An id that a home writes may not be stored if a former home removes it meanwhile. A later read
// shows it.
func TestARemovalInFlightLeavesAnIDInDoubt(t *testing.T) {
	r := newRememberedRun(t)
	r.Began(7)
	r.Ended(1, allocation(1), 7)
	removal := r.BeginWrite(1, 1, 7, false)
	r.Began(7)
	r.add(2)
	r.wantMustRun(false)
	want(t, r.read(2, 7), "") // before the removal
	r.wantMustRun(false)
	r.Acked(removal, r.in, nil)
	want(t, r.read(2, 7), "")
	r.wantMustRun(true)
	r.add(2) // what the former home has removed was read
	r.wantMustRun(true)
}

// An id that a majority has removed is in no later read, unless the removal is lost.
func TestARemovedIDIsNotRead(t *testing.T) {
	r := newRememberedRun(t)
	r.Began(7)
	r.add(1)
	r.Ended(1, allocation(1), 7)
	begun := r.BeginRead()
	r.remove(1)
	survives := func(*StoredID) bool { return true }
	want(t, r.Read(1, 2, 1, begun, IDs{[]int{7}, r.in, nil}, survives), "") // it began before
	want(t, r.Read(1, 2, 1, r.BeginRead(), IDs{[]int{7}, r.in, nil}, func(*StoredID) bool { return false }), "")
	want(t, r.read(2, 7), "Remembered")
	r.BeginWrite(2, 1, 7, true) // of a home whose write was in flight
	want(t, r.read(2, 7), "")
}

// A disk may bring back an id that was removed while it was away.
func TestADiskBringsBackARemovedID(t *testing.T) {
	r := newRememberedRun(t)
	r.Disks = true
	r.Began(7)
	r.Ended(1, allocation(1), 7)
	r.remove(1)
	want(t, r.read(1, 7), "")
	want(t, r.Recalled(1, 1, allocation(1), 7, 0, 100), "")
}

// An allocation does not start an entity again that has ended by itself there. Another may, as may
// this one if another node has added the id since.
func TestAnEntityThatHasEndedIsNotRecalled(t *testing.T) {
	r := newRememberedRun(t)
	recall := func(node gossip.NodeID, seq uint64) *Violation {
		return r.Recalled(1, node, allocation(seq), 7, 0, 100)
	}
	want(t, recall(1, 1), "")
	r.Began(7)
	want(t, recall(1, 1), "") // it has crashed
	r.Ended(1, allocation(1), 7)
	want(t, recall(2, 2), "")
	want(t, recall(1, 1), "Remembered")
	r.BeginWrite(2, 1, 7, true)
	want(t, recall(1, 1), "")
}

// Entities start at most so often within a second of their node's clock, and one more.
func TestStartsKeepToTheirPace(t *testing.T) {
	r := newRememberedRun(t)
	start := func(node gossip.NodeID, ms int) *Violation {
		return r.Recalled(1, node, allocation(1), 8, clock.Instant(0).Add(time.Duration(ms)*time.Millisecond), 2)
	}
	want(t, start(1, 0), "")
	want(t, start(1, 0), "")
	want(t, start(2, 0), "")
	want(t, start(1, 500), "")
	want(t, start(1, 1000), "")
	want(t, start(1, 1499), "")
	want(t, start(1, 1499), "Remembered")
}
