package crdt

// Changes collects the visible changes of joins: an element that lost one dot and kept
// another is not included. Callers forward, notify and count these and nothing else. The
// zero Changes is ready to use. Several joins may be collected in one Changes, in their
// order.
type Changes[K any] struct {
	// Added are the keys or elements that were not there before.
	Added []K
	// Updated are the keys that were there and whose value is another now.
	Updated []K
	// Removed are the keys or elements that are gone.
	Removed []K
}

// Empty reports whether nothing was collected.
func (c *Changes[K]) Empty() bool { return len(c.Added)+len(c.Updated)+len(c.Removed) == 0 }

// Reset empties c and keeps its memory.
func (c *Changes[K]) Reset() {
	c.Added, c.Updated, c.Removed = c.Added[:0], c.Updated[:0], c.Removed[:0]
}

func (c *Changes[K]) recordAdded(k K) {
	if c != nil {
		c.Added = append(c.Added, k)
	}
}

func (c *Changes[K]) recordUpdated(k K) {
	if c != nil {
		c.Updated = append(c.Updated, k)
	}
}

func (c *Changes[K]) recordRemoved(k K) {
	if c != nil {
		c.Removed = append(c.Removed, k)
	}
}

// tracker finds out what happened to keys of which only parts are reported.
type tracker[K comparable] struct {
	has  func(K) bool // whether the key is there now
	seen map[K]bool   // whether it was there at first
	keys []K
}

// before notes a key that is about to change.
func (t *tracker[K]) before(k K) {
	if _, ok := t.seen[k]; ok {
		return
	}
	if t.seen == nil {
		t.seen = make(map[K]bool)
	}
	t.seen[k] = t.has(k)
	t.keys = append(t.keys, k)
}

func (t *tracker[K]) reportChanges(ch *Changes[K]) {
	if ch == nil {
		return
	}
	for _, k := range t.keys {
		switch was, is := t.seen[k], t.has(k); {
		case !was && is:
			ch.recordAdded(k)
		case was && !is:
			ch.recordRemoved(k)
		case was && is:
			ch.recordUpdated(k)
		}
	}
}
