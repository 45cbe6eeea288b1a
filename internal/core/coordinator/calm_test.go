package coordinator_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// runCalm plans joins and drains, loses and delays control messages, and kills
// nothing: no message may be lost then (G9), and every move ends.
func runCalm(seed uint64, p plan, loud bool) *world {
	p.keep, p.slowStop = true, 0
	p.nodes, p.shards = max(p.nodes, 2), p.shards+4
	p.traffic = time.Millisecond
	w := newWorld(seed, p)
	w.loud = loud
	r := rand.New(rand.NewPCG(seed, 3))
	w.run(100 * time.Millisecond)
	for range 3 {
		switch r.IntN(3) {
		case 0, 1:
			w.join(true)
		case 2:
			if n := w.anyNode(); n.lease && n.coord != nil && !n.draining && w.places() > 1 {
				w.logf("%d drains", n.id)
				n.drain()
			}
		}
		w.run(time.Duration(r.IntN(300)) * time.Millisecond)
	}
	w.plan.drop, w.plan.double, w.plan.slow = 0, 0, 0
	w.run(1500 * time.Millisecond)
	w.calm = true
	w.run(500 * time.Millisecond)
	if w.check.err == nil {
		w.check.live()
	}
	if w.check.err == nil && w.check.done != w.check.sent {
		w.check.fail("G9: %d messages were sent, %d handled", w.check.sent, w.check.done)
	}
	return w
}

// places counts the nodes that can host and have not been asked to drain.
func (w *world) places() int {
	places := 0
	for _, n := range w.nodes {
		if n.alive && n.coord != nil && n.lease && !n.draining {
			places++
		}
	}
	return places
}

func TestCalm(t *testing.T) {
	if *replay != 0 {
		w := runCalm(*replay, draw(*replay), true)
		fmt.Println(w.tail(100000))
		if w.check.err != nil {
			t.Fatal(w.check.err)
		}
		return
	}
	bad, moves, sent := 0, 0, 0
	for seed := range uint64(seedsNow() / 3) {
		w := runCalm(seed+1, draw(seed+1), false)
		moves, sent = moves+w.check.marks["move begun"], sent+w.check.sent
		if w.check.err != nil {
			t.Errorf("seed %d: %v\nreplay: go test ./internal/core/coordinator -run TestCalm -replay %d", seed+1, w.check.err, seed+1)
			if bad++; bad > 5 {
				t.FailNow()
			}
		}
	}
	t.Logf("%d seeds, %d moves, %d messages, none lost", seedsNow()/3, moves, sent)
}
