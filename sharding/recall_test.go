package sharding

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkStore compares what the store keeps with who lives, and where.
func (d *dreams) checkStore(t *testing.T) {
	t.Helper()
	live, kept := map[string]bool{}, map[string]bool{}
	for i, r := range d.regions {
		if d.nodes[len(d.nodes)-len(d.regions)+i].dead.Load() {
			continue
		}
		for _, s := range r.Local() {
			for _, id := range s.Entities {
				live[id] = true
			}
		}
	}
	d.diary.mu.Lock()
	defer d.diary.mu.Unlock()
	for shard, ids := range d.diary.ids {
		for id := range ids {
			kept[id] = true
			if at := d.regions[0].ShardOf(id); at != shard {
				t.Errorf("%s is kept under shard %d, and is of %d", id, shard, at)
			}
		}
	}
	if !maps.Equal(live, kept) {
		t.Errorf("%d live, %d are kept", len(live), len(kept))
	}
}

// A shard moves while its former home still writes what began and ended there: a moment
// later its new home runs who is remembered, and remembers who runs.
func TestWritesUnderWayDuringAMoveAreNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 0)
		old, fresh := someIDs(40)[:20], someIDs(40)[20:]
		d.ask(t, old, "hello")
		pass(2 * time.Second)
		d.diary.mu.Lock()
		d.diary.slowWrites = 300 * time.Millisecond
		d.diary.mu.Unlock()
		d.ask(t, fresh, "hello")
		d.ask(t, old, "sleep")
		if err := d.nodes[0].s.Drain(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		pass(recallAgain + 5*time.Second)
		if n := d.alive(d.regions[1]); n < len(fresh) {
			t.Errorf("%d live, and %d began", n, len(fresh))
		}
		d.checkStore(t)
	})
}

// What is known of the entities of shards that have moved away takes no memory.
func TestMemoriesOfShardsThatLeftAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 0)
		d.ask(t, someIDs(40), "hello")
		pass(2 * time.Second)
		m := d.regions[0].p.memories
		m.mu.Lock()
		known := len(m.known)
		m.mu.Unlock()
		if known == 0 {
			t.Fatal("nothing is known to begin with")
		}
		if err := d.nodes[0].s.Drain(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		pass(2 * rememberEvery)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.known) != 0 {
			t.Errorf("%d shards are known", len(m.known))
		}
	})
}

// Those that messages have started meanwhile take no turn, and are not counted.
func TestRecallPassesOverWhoLives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 1, 1) // one per second
		ids := someIDs(30)
		d.ask(t, ids, "hello")
		pass(2 * time.Second)
		d.kill(d.nodes[0])
		d.install(d.join(t))
		d.regions = d.regions[1:]
		d.ask(t, ids[:25], "hello")
		pass(20 * time.Second)
		if st := d.regions[0].Stats(); st.Entities != 30 || st.Remembered.Recalled > 7 {
			t.Errorf("%d live, %d were recalled", st.Entities, st.Remembered.Recalled)
		}
	})
}

// The parts of a shard are alike whatever the number of shards.
func TestAShardsIDsAreSplitOverAllParts(t *testing.T) {
	for _, shards := range []uint32{1, 5, 100, 256, 1000} {
		e := extractor{shards: shards}
		var parts [rememberedParts]int
		for i, n := 0, 0; n < 500; i++ {
			if id := fmt.Sprint("entity-", i); e.of(id) == ShardID(shards/2) {
				parts[rememberedPart(id)]++
				n++
			}
		}
		if slices.Min(parts[:]) < 60 || slices.Max(parts[:]) > 140 {
			t.Errorf("of %d shards, 500 ids of one: %v", shards, parts)
		}
	}
}

// A store that cannot remember is said to be one.
func TestAStoreThatDoesNotRememberIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var out bytes.Buffer
		n := c.add("n")
		n.log = slog.New(slog.NewTextHandler(&out, nil))
		if _, err := Register(n.reg, Type[string, string]{
			Name: "sleeper", Remember: true, New: func(string) Entity[string, string] { return &sleeper{} },
		}); err != nil {
			t.Fatal(err)
		}
		n.start()
		if !strings.Contains(out.String(), "no Rememberer") {
			t.Errorf("%q", out.String())
		}
	})
}
