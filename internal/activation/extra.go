package activation

import (
	"time"

	"github.com/peerage-go/peerage/internal/activation/evict"
)

// extra is what an instance has beyond a mailbox: timers, a stash, the memory of
// its panics. It is made when first needed, so that those who need none of it do
// not pay. It belongs to the shard's mutex.
type extra[C, Req, Resp any] struct {
	timers map[string]*timer
	// stash holds what Context.Stash put aside, oldest first.
	stash []Message[Req]
	// heard is when the last message was handled, kept while flagListens is set.
	heard time.Time
	// panics counts those in a row; nothing is handled before until. rested is the
	// end of the last pause.
	panics uint32
	until  time.Time
	rested time.Time
	hold   *time.Timer
	// place is that in the shard's order; its Value is nil while it has none. leaving:
	// it had to go, and ends when its mail is worked off.
	place   evict.Node[*instance[C, Req, Resp]]
	leaving bool
	// dismissed: it is to end before its next batch.
	dismissed bool
}

// more returns the instance's extra; called with the mutex.
func (in *instance[C, Req, Resp]) more() *extra[C, Req, Resp] {
	if in.extra == nil {
		in.extra = &extra[C, Req, Resp]{}
	}
	return in.extra
}

// bare ends what belongs to an activation, not to the mailbox: its timers, and
// its stash, which is returned; called with the mutex.
func (in *instance[C, Req, Resp]) bare() (stash []Message[Req]) {
	x := in.extra
	if x == nil {
		return nil
	}
	in.stopTimers()
	stash, x.stash = x.stash, nil
	return stash
}

// unload is called with the mutex when an activation has ended. What it had put
// aside is for the next one, which gets it first; a shard that stops has no next
// one, and the askers are told that it moved.
func (s *Shard[C, Req, Resp]) unload(in *instance[C, Req, Resp]) {
	stash := in.bare()
	switch {
	case len(stash) == 0:
	case s.stopping != nil:
		s.host.work.Go(func() { s.fail(stash, ErrNotHosted) })
	default:
		if in.box == nil {
			in.box = s.takeBox()
		}
		in.box.insert(in.box.control, stash)
	}
}
