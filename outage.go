package peerage

import (
	"slices"
	"sync"
)

// outage is the reason why a node stands in no view, and which of its files were set aside
// meanwhile. Its methods are safe for concurrent use.
type outage struct {
	mu sync.Mutex
	// reason is why the last incarnation ended, "" before any has.
	reason string
	// final: no incarnation follows.
	final bool
	// copies are the files that were set aside, the oldest first.
	copies []string
}

// copiesMax bounds the copies that a node names: a disk that fails may add some with every
// incarnation.
const copiesMax = 64

// addCopy notes that a file was set aside.
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

// endIncarnation notes why an incarnation has ended, and whether none follows.
func (o *outage) endIncarnation(reason string, final bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reason, o.final = reason, final
}

// inWords returns the reason why the node stands in no view.
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

// explainEnd returns why the incarnation has ended. changed is what became of its files if
// they are of another cluster.
func (s *stack) explainEnd(changed error) string {
	switch u := s.unfit.Load(); {
	case u != nil && changed != nil:
		return u.inWords() + ", and cannot be set aside: " + changed.Error()
	case u != nil:
		return u.inWords()
	case s.heir.Load() != nil:
		return "its cluster has yielded to another one of its name"
	}
	return s.removed.Reason
}
