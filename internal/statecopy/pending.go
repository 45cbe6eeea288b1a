package statecopy

import "time"

// heldRepliesMax bounds the held replies of one entity; then the entity waits.
const heldRepliesMax = 1024

// heldReply is a reply that waits until a version of its entity is replicated.
type heldReply struct {
	version uint64
	until   time.Time
	// done is called once, with nil or the reason why the version was not replicated.
	done func(error)
}

// heldReplies are those of one entity, in the order of their versions.
type heldReplies []heldReply

// releaseUpTo removes and returns the replies for versions up to version.
func (h *heldReplies) releaseUpTo(version uint64) heldReplies {
	n := 0
	for n < len(*h) && (*h)[n].version <= version {
		n++
	}
	released := (*h)[:n:n]
	*h = (*h)[n:]
	if len(*h) == 0 {
		*h = nil
	}
	return released
}

// expireAt removes and returns the replies whose deadline is not after now.
func (h *heldReplies) expireAt(now time.Time) (late heldReplies) {
	left := (*h)[:0]
	for _, r := range *h {
		if now.Before(r.until) {
			left = append(left, r)
		} else {
			late = append(late, r)
		}
	}
	*h = left
	return late
}

// finishAll calls the functions of all replies.
func (h heldReplies) finishAll(err error) {
	for _, r := range h {
		r.done(err)
	}
}
