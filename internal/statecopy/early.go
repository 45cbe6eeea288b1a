package statecopy

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/standby"
)

// frame is a message of another node's core.
type frame struct {
	from  gossip.NodeID
	msg   standby.Message
	bytes int
}

// earlyFrames hold frames of nodes that are not in this node's view yet. Without them, the
// home of a shard would wait for its next request, and requests come at growing intervals. The
// core needs no event for a held frame: a slow network could have delayed it as much.
type earlyFrames struct {
	frames []frame
	bytes  int
}

// Beyond these bounds the oldest frames are dropped; the home requests them again.
const (
	earlyFramesMax = 1024
	earlyBytesMax  = 4 << 20
)

// holdFrame keeps a frame and returns the number of frames that it dropped for it.
func (e *earlyFrames) holdFrame(f frame) (dropped uint64) {
	e.frames, e.bytes = append(e.frames, f), e.bytes+f.bytes
	for len(e.frames) > earlyFramesMax || e.bytes > earlyBytesMax {
		e.bytes -= e.frames[0].bytes
		e.frames[0] = frame{}
		e.frames = e.frames[1:]
		dropped++
	}
	return dropped
}

// takeMembers removes and returns the frames of the members of a view.
func (e *earlyFrames) takeMembers(v *gossip.View) (members []frame) {
	var left earlyFrames
	for _, f := range e.frames {
		if v.Member(f.from) != nil {
			members = append(members, f)
		} else {
			left.holdFrame(f)
		}
	}
	*e = left
	return members
}
