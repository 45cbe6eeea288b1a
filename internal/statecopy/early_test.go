package statecopy

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// Non-members cannot fill a node's memory: the oldest of their frames are dropped first. The
// frames of a node that becomes a member are taken in order, once.
func TestEarlyFramesAreBounded(t *testing.T) {
	var e earlyFrames
	for i := range 2 * earlyFramesMax {
		e.holdFrame(frame{from: gossip.NodeID(i%2 + 1), bytes: i})
	}
	if len(e.frames) > earlyFramesMax || e.bytes > earlyBytesMax {
		t.Fatalf("%d frames, %d bytes", len(e.frames), e.bytes)
	}
	e.holdFrame(frame{from: 1, bytes: earlyBytesMax - 1})
	if len(e.frames) != 1 {
		t.Fatalf("%d frames beside a large one", len(e.frames))
	}
	e.holdFrame(frame{from: 2, bytes: 1})
	e.holdFrame(frame{from: 9, bytes: 3})
	e.holdFrame(frame{from: 2, bytes: 2})
	v := &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 2}}}}
	if got := e.takeMembers(v); len(got) != 2 || got[0].bytes != 1 || got[1].bytes != 2 {
		t.Errorf("%+v", got)
	}
	if len(e.takeMembers(v)) != 0 || len(e.frames) != 1 || e.bytes != 3 {
		t.Errorf("left: %+v", e)
	}
}

func TestDroppedEarlyFramesAreCounted(t *testing.T) {
	var dropped uint64
	r := newReplicator(&Config{FramesDropped: func(n uint64) { dropped += n }}, "account", Settings{})
	r.view = &gossip.View{}
	for range earlyFramesMax + 3 {
		r.handleEvent(frame{from: 2})
	}
	if dropped != 3 {
		t.Errorf("%d of 3 are counted", dropped)
	}
}
