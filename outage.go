package peerage

import (
	"slices"
	"sync"
)

// outage holds the reason why a node is in no view, and the files that it has set aside. Its
// methods are safe for concurrent use.
type outage struct {
	mu sync.Mutex
	// reason is why the last incarnation ended, "" before any has.
	reason string
	// final is set if no incarnation follows.
	final bool
	// copies are the files that were set aside, the oldest first.
	copies []string
}

// copiesMax bounds the copies that a node names: a disk that fails may add some with every
// incarnation.
const copiesMax = 64

// addCopy records a file that was set aside.
func (o *outage) addCopy(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copies = append(o.copies[max(0, len(o.copies)-copiesMax+1):], path)
}

// listCopies returns the files that were set aside.
func (o *outage) listCopies() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.copies)
}

// endIncarnation records why an incarnation has ended, and whether none follows.
func (o *outage) endIncarnation(reason string, final bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reason, o.final = reason, final
}

// inWords returns the reason why the node is in no view.
func (o *outage) inWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.reason == "":
		return "in no cluster yet"
	case o.final:
		return "out of the cluster until the process is started again (RejoinAfter is negative): its incarnation ended: " + o.reason
	}
	return "in no cluster: it joins again as a new incarnation; the last one ended: " + o.reason
}

// explainEnd returns why the incarnation has ended. changed is the error of setting aside
// the files of another cluster, nil if there is none.
func (s *stack) explainEnd(changed error) string {
	switch c := s.fileConflict.Load(); {
	case c != nil && changed != nil:
		return c.inWords() + ", and cannot be set aside: " + changed.Error()
	case c != nil:
		return c.inWords()
	case s.heir.Load() != nil:
		return "its cluster has yielded to another one of its name"
	}
	return s.removed.Reason
}

// fileConflict is the reason why an incarnation leaves the cluster that has just admitted it.
type fileConflict struct {
	// origin is the cluster's origin if it differs from that of this node's files, else 0.
	origin uint64
	// higher is set if this node's file names a higher generation than the cluster has.
	higher bool
}

func (c *fileConflict) inWords() string {
	if c.higher {
		return "its generation file is ahead of the cluster, which opens a generation above it"
	}
	return "its files of durable keys are of another cluster of this name: they are set aside, and it joins without them"
}
