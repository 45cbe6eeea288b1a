package sharding

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// Strangers cannot fill a node's memory: the oldest of what they sent goes first, and
// what a member has sent comes out in order, once.
func TestEarlyFramesAreBounded(t *testing.T) {
	var e earlyFrames
	for i := range 2 * earlyFramesMax {
		e.add(standbyFrame{from: gossip.NodeID(i%2 + 1), bytes: i})
	}
	if len(e.frames) > earlyFramesMax || e.bytes > earlyBytesMax {
		t.Fatalf("%d frames, %d bytes", len(e.frames), e.bytes)
	}
	e.add(standbyFrame{from: 1, bytes: earlyBytesMax - 1})
	if len(e.frames) != 1 {
		t.Fatalf("%d frames beside a large one", len(e.frames))
	}
	e.add(standbyFrame{from: 2, bytes: 1})
	e.add(standbyFrame{from: 9, bytes: 3})
	e.add(standbyFrame{from: 2, bytes: 2})
	v := &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 2}}}}
	if got := e.of(v); len(got) != 2 || got[0].bytes != 1 || got[1].bytes != 2 {
		t.Errorf("%+v", got)
	}
	if len(e.of(v)) != 0 || len(e.frames) != 1 || e.bytes != 3 {
		t.Errorf("left: %+v", e)
	}
}

// What had to go is counted: whoever wonders why states come late sees it.
func TestEarlyFramesThatGoAreCounted(t *testing.T) {
	s := &service{}
	k := newStateKeeper(s, "account", Replicated{})
	k.view.Store(&gossip.View{})
	for range earlyFramesMax + 3 {
		k.handle(standbyFrame{from: 2})
	}
	if lost := s.Frames().Overrun; lost != 3 {
		t.Errorf("%d of 3 are counted", lost)
	}
}
