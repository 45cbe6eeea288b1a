package evict

// wTinyLFU is W-TinyLFU. A new node enters the window, an LRU. If the window is too full,
// its least recently used node is a candidate for the main area. The candidate enters if
// there is room, or if the sketch estimates more uses for it than for the main area's
// victim; otherwise the candidate is evicted.
//
// The best size of the window depends on the load. The climber finds it: it compares the
// rate of hits with the one before, and changes direction if the rate fell.
type wTinyLFU[V any] struct {
	window list[V]
	main   *segmented[V]
	sketch *sketch
	climb  climber

	limit, windowRoom int
}

func newWTinyLFU[V any](limit int) *wTinyLFU[V] {
	t := &wTinyLFU[V]{main: newSegmented[V](limit), sketch: newSketch(limit), climb: newClimber()}
	t.Resize(limit)
	return t
}

func (t *wTinyLFU[V]) Add(n *Node[V]) {
	t.countUse(n, false)
	t.window.pushFront(n)
	t.fillMain()
}

func (t *wTinyLFU[V]) Touch(n *Node[V]) {
	t.countUse(n, true)
	if n.in == &t.window {
		t.window.unlink(n)
		t.window.pushFront(n)
		return
	}
	t.main.Touch(n)
}

func (t *wTinyLFU[V]) countUse(n *Node[V], hit bool) {
	t.sketch.addUse(n.Hash)
	if t.climb.countUse(hit, halveFactor*sketchLimit(t.limit)) {
		t.share()
	}
}

// share divides the room between window and main, and moves nodes accordingly.
func (t *wTinyLFU[V]) share() {
	t.windowRoom = max(int(t.climb.window*float64(t.limit)), 1)
	t.main.Resize(t.limit - t.windowRoom)
	for t.main.Len() > t.limit-t.windowRoom && t.window.len < t.windowRoom {
		t.window.pushBack(t.main.Evict())
	}
	t.fillMain()
}

// fillMain moves candidates to the main area while it has room.
func (t *wTinyLFU[V]) fillMain() {
	for t.window.len > t.windowRoom && t.main.Len() < t.limit-t.windowRoom {
		t.promote()
	}
}

func (t *wTinyLFU[V]) promote() {
	n := t.window.back
	t.window.unlink(n)
	t.main.Add(n)
}

func (t *wTinyLFU[V]) Remove(n *Node[V]) {
	if n.in == &t.window {
		t.window.unlink(n)
		return
	}
	t.main.Remove(n)
}

func (t *wTinyLFU[V]) Evict() *Node[V] {
	candidate, victim := t.window.back, t.main.victim()
	switch {
	case candidate == nil && victim == nil:
		return nil
	case victim == nil, candidate != nil && t.window.len > t.windowRoom &&
		t.sketch.estimate(candidate.Hash) <= t.sketch.estimate(victim.Hash):
		t.window.unlink(candidate)
		return candidate
	}
	t.main.Remove(victim)
	if t.window.len > t.windowRoom {
		t.promote()
	}
	return victim
}

func (t *wTinyLFU[V]) Len() int { return t.window.len + t.main.Len() }

func (t *wTinyLFU[V]) Resize(limit int) {
	t.limit = max(limit, 1)
	if t.sketch.mask != sketchWidth(limit)-1 {
		t.sketch = newSketch(limit)
	}
	t.sketch.halveAt = halveFactor * sketchLimit(t.limit)
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

// countUse counts a use. After every so many uses it sets the window anew, and reports
// whether it has changed.
func (c *climber) countUse(hit bool, every int) bool {
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
