package standby

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func rough(replicas int) plan {
	return plan{
		nodes: 5, shards: 3, replicas: replicas, mode: Quorum,
		drop: 0.1, double: 0.1, delay: 2 * time.Millisecond,
	}
}

// victims draws so many nodes of the view.
func (w *world) victims(n int) []gossip.NodeID {
	var ids []gossip.NodeID
	for _, i := range w.rng.Perm(len(w.cur.Members))[:n] {
		ids = append(ids, w.cur.Members[i].ID)
	}
	return ids
}

// storm is one run: crashes, removals of living owners, moves, joins; one loss at a
// time with time to heal unless wild.
func storm(seed uint64, p plan, wild bool) *world {
	w := newWorld(seed, p)
	w.settle(5 * time.Second)
	for range 8 {
		if w.err != nil {
			break
		}
		switch k := w.rng.IntN(4); {
		case k == 0:
			w.move(protocol.ShardID(w.rng.IntN(p.shards)))
		case k == 1 && len(w.cur.Members) < 7:
			w.join()
		case len(w.cur.Members) > 3:
			n := 1
			if wild {
				n += w.rng.IntN(2)
			}
			w.remove(w.rng.IntN(3) > 0, w.victims(n)...)
			if w.rng.IntN(2) == 0 {
				w.join()
			}
		default:
			w.join()
		}
		if wild {
			w.run(w.jitter(60 * time.Millisecond))
			continue
		}
		w.run(w.jitter(20 * time.Millisecond))
		w.settle(10 * time.Second)
	}
	w.settle(10 * time.Second)
	return w
}

const seeds = 300

// TestStorms: nothing that was kept is lost while fewer holders than a quorum are
// lost together, and every run comes to rest.
func TestStorms(t *testing.T) {
	acks, readies, shorts := 0, 0, 0
	for seed := range uint64(seeds) {
		wild := seed%2 == 1
		w := storm(seed, rough([]int{3, 5, 2, ReplicasAll}[seed/2%4]), wild)
		if w.err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, w.err, w.tail())
		}
		if w.replicas >= 3 && !wild && (w.losses > 0 || w.shorts > 0) {
			t.Fatalf("seed %d: %d losses, %d shorts without more than one node lost together\n%s", seed, w.losses, w.shorts, w.tail())
		}
		acks, readies, shorts = acks+w.acks, readies+w.readies, shorts+w.shorts
	}
	t.Logf("%d changes kept, %d starts, %d of them short", acks, readies, shorts)
	if acks < 10*seeds || readies < 5*seeds || shorts == 0 {
		t.Error("the storms are too calm to prove anything")
	}
}
