package sharding

import "github.com/peerage-go/peerage/gossip/view"

// earlyFrames came from nodes that our view does not show yet. Without them a home
// would wait until it asks again, which it does later and later. They are no later
// than a slow network might have made them, so the core need not know.
type earlyFrames struct {
	frames []standbyFrame
	bytes  int
}

// What was too much is lost, the oldest first, and asked again.
const (
	earlyFramesMax = 1024
	earlyBytesMax  = 4 << 20
)

// add keeps a frame and returns how many others had to go for it.
func (e *earlyFrames) add(f standbyFrame) (lost uint64) {
	e.frames, e.bytes = append(e.frames, f), e.bytes+f.bytes
	for len(e.frames) > earlyFramesMax || e.bytes > earlyBytesMax {
		e.bytes -= e.frames[0].bytes
		e.frames[0] = standbyFrame{}
		e.frames = e.frames[1:]
		lost++
	}
	return lost
}

// of takes out what the members of a view have sent.
func (e *earlyFrames) of(v *view.View) (now []standbyFrame) {
	var later earlyFrames
	for _, f := range e.frames {
		if v.Member(f.from) != nil {
			now = append(now, f)
		} else {
			later.add(f)
		}
	}
	*e = later
	return now
}
