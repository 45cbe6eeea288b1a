package evict

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tinyCache is a cache of TinyLFU, of whose room so much is the window.
func tinyCache(limit int, window float64) (*cache, *wTinyLFU[string]) {
	c := newCache("tiny", limit)
	p := c.p.(*wTinyLFU[string])
	p.climb.window = window
	p.share()
	return c, p
}

// names lists who stands in a list, newest first.
func names(l *list[string]) string {
	var out []string
	for n := l.front; n != nil; n = n.next {
		out = append(out, n.Value)
	}
	return strings.Join(out, " ")
}

func useAll(c *cache, keys string) {
	for key := range strings.SplitSeq(keys, " ") {
		c.use(key)
	}
}

// The window holds who is newest, main who has left it, each up to its room.
func TestWhoIsNewStandsInTheWindow(t *testing.T) {
	c, p := tinyCache(10, 0.3)
	useAll(c, "a b")
	if got := names(&p.window); got != "b a" || p.main.Len() != 0 {
		t.Errorf("window %q, %d in main", got, p.main.Len())
	}
	useAll(c, "c d e f g h i j")
	if got := names(&p.window); got != "j i h" || names(&p.main.levels[0]) != "g f e d c b a" {
		t.Errorf("window %q, main %q", got, names(&p.main.levels[0]))
	}
	// Used again, it is as if it were new.
	useAll(c, "h")
	if got := names(&p.window); got != "h j i" {
		t.Errorf("window %q", got)
	}
}

// Who leaves the window enters main only if it was used more often than the one that
// would have to go.
func TestWhoLeavesTheWindowCompetes(t *testing.T) {
	c, p := tinyCache(10, 0.3)
	useAll(c, "a b c d e f g h i j")
	// h was used as often as a: it goes.
	useAll(c, "k")
	if got := strings.Join(c.gone, " "); got != "h" {
		t.Errorf("%q went", got)
	}
	// i was used more often: a goes, and i takes its room.
	useAll(c, "i k j l")
	if got := strings.Join(c.gone, " "); got != "h a" || c.in["i"].in != &p.main.levels[0] {
		t.Errorf("%q went, window %q", got, names(&p.window))
	}
	if p.window.len != 3 || p.main.Len() != 7 {
		t.Errorf("%d in the window, %d in main", p.window.len, p.main.Len())
	}
}

// As long as the window has room, who has to go is of main.
func TestAWindowThatHasRoomLosesNobody(t *testing.T) {
	c, p := tinyCache(10, 0.3)
	useAll(c, "a b c d e f g h i j")
	if n := p.Evict(); n.Value != "a" {
		t.Errorf("%s went", n.Value)
	}
	if got := names(&p.window); got != "j i h" {
		t.Errorf("window %q", got)
	}
	for range 6 {
		p.Evict()
	}
	if n := p.Evict(); n.Value != "h" {
		t.Errorf("%s went, when main was empty", n.Value)
	}
}

// A window that grows takes from main who would have gone next: they do so from there.
func TestAWindowThatGrowsTakesFromMain(t *testing.T) {
	c, p := tinyCache(10, 0.3)
	useAll(c, "a b c d e f g h i j")
	p.climb.window = 0.5
	p.share()
	if got := names(&p.window); got != "j i h a b" || names(&p.main.levels[0]) != "g f e d c" {
		t.Errorf("window %q, main %q", got, names(&p.main.levels[0]))
	}
	p.climb.window = 0.2
	p.share()
	if got := names(&p.window); got != "j i" || names(&p.main.levels[0]) != "h a b g f e d c" {
		t.Errorf("window %q, main %q", got, names(&p.main.levels[0]))
	}
}

// After every operation window and main hold together at most the limit.
func TestTheRoomIsDivided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, p := tinyCache(rapid.IntRange(1, 20).Draw(t, "limit"), 0.3)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := string(rune('a' + rapid.IntRange(0, 25).Draw(t, "key")))
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				if n := c.in[key]; n != nil {
					c.p.Remove(n)
					delete(c.in, key)
				}
			case 1:
				p.climb.window = rapid.Float64Range(windowMin, windowMax).Draw(t, "window")
				p.share()
			case 2:
				before := p.window.len
				c.limit = rapid.IntRange(1, 20).Draw(t, "new limit")
				c.p.Resize(c.limit)
				if p.window.len > max(before, p.windowRoom) {
					t.Fatalf("%d in the window after a change of the limit, room for %d, %d before", p.window.len, p.windowRoom, before)
				}
				for c.p.Len() > c.limit {
					delete(c.in, c.p.Evict().Value)
				}
			default:
				if !c.use(key) && p.window.len > p.windowRoom {
					t.Fatalf("%d in the window, room for %d", p.window.len, p.windowRoom)
				}
			}
			if room := max(int(p.climb.window*float64(c.limit)), 1); p.windowRoom != room || p.main.Len() > c.limit-room {
				t.Fatalf("limit %d: %d in main, room for %d in the window, want %d", c.limit, p.main.Len(), p.windowRoom, room)
			}
			for i, share := range levelShares {
				if p.main.room[i] != int(float64(c.limit-p.windowRoom)*share) {
					t.Fatalf("room %v in main, of %d", p.main.room, c.limit-p.windowRoom)
				}
			}
		}
	})
}

// The window's room follows the climb as it goes.
func TestTheRoomFollowsTheClimb(t *testing.T) {
	c, p := tinyCache(100, windowMin)
	for i := range 20_000 {
		c.use(string(rune(i/60*20 + i%20)))
		if room := max(int(p.climb.window*100), 1); p.windowRoom != room {
			t.Fatalf("after %d uses the window has room for %d, want %d", i, p.windowRoom, room)
		}
	}
	if p.windowRoom < 5 {
		t.Errorf("room for %d", p.windowRoom)
	}
}

// A limit that changes a little forgets nothing of who was used how often; one that
// changes much has a sketch of its own size. Forgetting goes with the limit.
func TestTheSketchGoesWithTheLimit(t *testing.T) {
	c, p := tinyCache(10, 0.3)
	useAll(c, "a a a a a")
	width := p.sketch.mask
	p.Resize(12)
	if e := p.sketch.estimate(c.in["a"].Hash); e != 5 || p.sketch.halveAt != 120 {
		t.Errorf("estimates %d, halved after %d uses", e, p.sketch.halveAt)
	}
	if p.Resize(1000); p.sketch.mask <= width || p.sketch.halveAt != 10_000 {
		t.Errorf("%d counters, %d before, halved after %d uses", p.sketch.mask+1, width+1, p.sketch.halveAt)
	}
	if p.Resize(-1); p.limit != 1 || p.windowRoom != 1 || p.sketch.halveAt != 10 {
		t.Errorf("limit %d, window %d, halved after %d uses", p.limit, p.windowRoom, p.sketch.halveAt)
	}
}

// The window climbs while the rate of hits does not fall, by large steps after a large
// change and by ever smaller ones else; when it falls, the climb turns round.
func TestTheClimb(t *testing.T) {
	const every = 100
	c := newClimber()
	look := func(rate float64) (changed bool) {
		t.Helper()
		hits := int(rate * every)
		for i := range every {
			if changed && i > 0 {
				t.Fatalf("looks at it after %d uses", i)
			}
			changed = c.countUse(i < hits, every)
		}
		return changed
	}
	for i, step := range []struct {
		rate, window float64
		changed      bool
	}{
		{0.5, 0.0725, true},    // better: up
		{0.5, 0.13375, true},   // the same: on, a little less
		{0.3, 0.07125, true},   // worse: down
		{0.5, windowMin, true}, // better: on, as far as it goes
		{0.52, windowMin, false},
		{0.3, 0.0725, true}, // worse: up
		{0.28, 0.01125, true},
	} {
		if changed := look(step.rate); changed != step.changed || math.Abs(c.window-step.window) > 1e-9 {
			t.Fatalf("look %d: window %v, changed %v, want %+v", i, c.window, changed, step)
		}
	}
	for range 200 {
		look(0.9)
	}
	if c = newClimber(); c.window != windowMin {
		t.Fatal("a climb begins at the bottom")
	}
	for range 100 {
		look(0.9)
	}
	if changed := look(0.9); changed || c.window != windowMax {
		t.Errorf("window %v, changed %v", c.window, changed)
	}
}
