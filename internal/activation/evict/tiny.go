package evict

// tiny is W-TinyLFU. Who is new enters the window, an LRU. When the window is too
// full its least recently used one is a candidate for the main area: it enters if
// there is room, or if the sketch has seen it more often than the one that would
// have to go; else it goes itself.
//
// How large the window should be depends on the load: it climbs. Now and then the
// rate of hits is compared with the one before; if it fell, the climb turns round.
type tiny[V any] struct {
	window list[V]
	main   *segmented[V]
	sketch *sketch
	climb  climber

	limit, windowRoom int
}

func newTiny[V any](limit int) *tiny[V] {
	t := &tiny[V]{main: newSegmented[V](limit), sketch: newSketch(limit), climb: newClimber()}
	t.Resize(limit)
	return t
}

func (t *tiny[V]) Add(n *Node[V]) {
	t.used(n, false)
	t.window.pushFront(n)
	t.settle()
}

func (t *tiny[V]) Touch(n *Node[V]) {
	t.used(n, true)
	if n.in == &t.window {
		t.window.remove(n)
		t.window.pushFront(n)
		return
	}
	t.main.Touch(n)
}

func (t *tiny[V]) used(n *Node[V], hit bool) {
	t.sketch.add(n.Hash)
	if t.climb.used(hit, halveFactor*places(t.limit)) {
		t.share()
	}
}

// share divides the room between window and main, and moves what stands wrong.
func (t *tiny[V]) share() {
	t.windowRoom = max(int(t.climb.window*float64(t.limit)), 1)
	t.main.Resize(t.limit - t.windowRoom)
	for t.main.Len() > t.limit-t.windowRoom && t.window.len < t.windowRoom {
		t.window.pushBack(t.main.Evict())
	}
	t.settle()
}

// settle moves candidates to the main area while it has room.
func (t *tiny[V]) settle() {
	for t.window.len > t.windowRoom && t.main.Len() < t.limit-t.windowRoom {
		t.promote()
	}
}

func (t *tiny[V]) promote() {
	n := t.window.back
	t.window.remove(n)
	t.main.Add(n)
}

func (t *tiny[V]) Remove(n *Node[V]) {
	if n.in == &t.window {
		t.window.remove(n)
		return
	}
	t.main.Remove(n)
}

func (t *tiny[V]) Evict() *Node[V] {
	candidate, victim := t.window.back, t.main.victim()
	switch {
	case candidate == nil && victim == nil:
		return nil
	case victim == nil, candidate != nil && t.window.len > t.windowRoom &&
		t.sketch.estimate(candidate.Hash) <= t.sketch.estimate(victim.Hash):
		t.window.remove(candidate)
		return candidate
	}
	t.main.Remove(victim)
	if t.window.len > t.windowRoom {
		t.promote()
	}
	return victim
}

func (t *tiny[V]) Len() int { return t.window.len + t.main.Len() }

func (t *tiny[V]) Resize(limit int) {
	t.limit = max(limit, 1)
	if t.sketch.mask != sketchWidth(limit)-1 {
		t.sketch = newSketch(limit)
	}
	t.sketch.halveAt = halveFactor * places(t.limit)
	t.share()
}

// climber finds the window's share of the room by climbing hills.
type climber struct {
	window float64
	step   float64
	rate   float64

	hits, uses int
}

// The numbers are Pekko's.
const (
	windowMin  = 0.01
	windowMax  = 1.0
	climbStep  = 0.0625
	climbDecay = 0.98
	climbAnew  = 0.05
)

func newClimber() climber { return climber{window: windowMin, step: climbStep} }

// used counts a use, and reports whether the window has changed; it looks at it
// every so many uses.
func (c *climber) used(hit bool, every int) bool {
	c.uses++
	if hit {
		c.hits++
	}
	if c.uses < every {
		return false
	}
	rate := float64(c.hits) / float64(c.uses)
	c.hits, c.uses = 0, 0
	change := rate - c.rate
	c.rate = rate
	sign := 1.0
	if (c.step < 0) != (change < 0) {
		// Down and getting better, or up and getting worse.
		sign = -1
	}
	size := climbStep
	if change < climbAnew && change > -climbAnew {
		size = climbDecay * max(c.step, -c.step)
	}
	c.step = sign * size
	before := c.window
	c.window = min(max(c.window+c.step, windowMin), windowMax)
	return c.window != before
}
