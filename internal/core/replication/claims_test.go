package replication

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// claim returns the encoding of a set without elements that has seen the dots 1..to of
// a writer.
func claim(node gossip.NodeID, to uint64) []byte {
	dots := binary.AppendUvarint([]byte{1, 0}, to-1)
	b := append([]byte{0x95, byte(crdt.KindORSet), 0x91, byte(node), 0xc4, byte(len(dots))}, dots...)
	return append(b, 0xc4, 1, 0, 0x90)
}

// strike sends a frame of node 3 that claims dots of a writer, on each of the ways that
// state takes.
func strike(w *world, way string, to, writer gossip.NodeID, dots uint64) {
	c := w.nodes[to].core
	items := []Item{{Key: "s", Kind: crdt.KindORSet, Bytes: claim(writer, dots)}}
	switch way {
	case "stream":
		w.step(to, Received{From: 3, Msg: &Deltas{Epoch: c.members.epoch, From: 1, Entries: []*Entry{{Items: items}}}})
	case "repair":
		w.step(to, Received{From: 3, Msg: &Repair{ID: 7, Items: items}})
	default:
		w.step(to, Received{From: 3, Msg: &Values{Session: 9, Ask: 1, Answered: 1, Items: items}})
	}
}

const wireDotsMax = 1<<43 - 1

// One frame that claims all dots of a living writer made every later delta of that
// writer malformed for all others, for ever.
func TestFalseClaimsOfDotsAreRefused(t *testing.T) {
	for _, way := range []string{"stream", "repair", "values"} {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t, 1, 3, nil)
			w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "s", "before")))
			w.settle(5 * time.Second)
			strike(w, way, 1, 1, wireDotsMax)
			strike(w, way, 2, 1, wireDotsMax)
			if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "s", "after"))); r.Err != nil {
				t.Fatalf("a write after the claim: %v", r.Err)
			}
			w.settle(5 * time.Second)
			for _, id := range w.order {
				if got := elements(w.nodes[id].core.Value("s")); !slices.Equal(got, []string{"after", "before"}) {
					t.Errorf("node %v holds %v", id, got)
				}
			}
			if s := w.nodes[1].core.Stats(); s.FalseClaims != 1 || s.Refused != 1 {
				t.Errorf("%d false claims counted at their writer, %d refused items", s.FalseClaims, s.Refused)
			}
		})
	}
}

// A claim within the reserve is taken, by the writer too, which goes on above it: all
// replicas end equal, and later writes stand.
func TestClaimsWithinTheReserveAreTakenByAll(t *testing.T) {
	w := newWorld(t, 2, 3, nil)
	w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "s", "before")))
	strike(w, "repair", 2, 1, 1000)
	w.run(5 * time.Second)
	w.settle(5 * time.Second)
	if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "s", "after"))); r.Err != nil {
		t.Fatalf("a write after the claim: %v", r.Err)
	}
	w.settle(5 * time.Second)
	for _, id := range w.order {
		if got := elements(w.nodes[id].core.Value("s")); !slices.Contains(got, "after") {
			t.Errorf("node %v holds %v", id, got)
		}
	}
	if n := w.nodes[1].core.Stats().FalseClaims; n == 0 {
		t.Error("the writer has not counted the claim of dots that it never used")
	}
}

// What a writer says of itself bounds what others may say of it: a member that comes
// later takes the state of one that has used many dots from anybody.
func TestNewcomerTakesOverManyDots(t *testing.T) {
	const many = claimReserve * 4
	w := newWorld(t, 3, 3, nil)
	w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "s", "x")))
	for _, id := range []gossip.NodeID{1, 2} { // node 3 has used so many
		strike(w, "stream", id, 3, many)
	}
	strike(w, "repair", 2, 1, claimReserve*2)
	c := w.nodes[3].core
	used, err := crdt.Decode(crdt.KindORSet, claim(3, many))
	if err == nil {
		_, err = c.store.itemOf("s").value.Join(used)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.store.updateSums(c.store.itemOf("s"))
	c.values.dots = many
	w.settle(5 * time.Second)
	w.start(4)
	w.setView(w.next(add(gossip.Up, 4)))
	w.settle(20 * time.Second)
	if got := elements(w.nodes[4].core.Value("s")); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the newcomer holds %v", got)
	}
	if r := w.reply(3, w.update(3, replicator.All, replicator.Fence{}, addTo(3, "s", "y"))); r.Err != nil {
		t.Errorf("a write above the many dots: %v", r.Err)
	}
	if n := w.nodes[2].core.Stats().FalseClaims; n != 1 {
		t.Errorf("%d claims beyond the reserve counted, want that of node 1's dots", n)
	}
}

// joinAfterClaim has node 4 join three nodes, two of which took a claim of its dots before
// they could know it.
func joinAfterClaim(t *testing.T, dots uint64) *world {
	w := newWorld(t, 5, 3, nil)
	w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "s", "before")))
	strike(w, "stream", 1, 4, dots)
	strike(w, "repair", 2, 4, dots)
	w.settle(5 * time.Second)
	w.start(4)
	w.setView(w.next(add(gossip.Up, 4)))
	w.settle(20 * time.Second)
	return w
}

// TestAttackClaimsAboutAFutureMember: claims of the dots of a node that is not in the view
// yet took that node's changes away in silence, once it had joined.
func TestAttackClaimsAboutAFutureMember(t *testing.T) {
	for _, c := range []struct {
		name    string
		dots    uint64
		refused bool // at the replicas that met the claim
		full    bool // the newcomer has no number left under this key
	}{
		{"far", 1 << 41, false, false},
		{"near the ceiling", ownDotsMax, false, true},
		{"at the ceiling", dotsMax, false, true},
		{"above the ceiling", dotsMax + 1, true, false},
		{"all", wireDotsMax, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := joinAfterClaim(t, c.dots)
			if n := w.nodes[1].core.Stats().FalseClaims; n > 0 != c.refused {
				t.Errorf("%d false claims counted, refused should be %v", n, c.refused)
			}
			want := []string{"after", "before"}
			r := w.reply(4, w.update(4, replicator.All, replicator.Fence{}, addTo(4, "s", "after")))
			if c.full {
				want = want[1:]
				var limit *replicator.Error
				if s := w.nodes[4].core.Stats(); !errors.As(r.Err, &limit) || limit.Code != replicator.ErrLimit || limit.Limit != "Dots" || s.LimitErrors != 1 {
					t.Errorf("a write without a number for it: %v, %d counted", r.Err, s.LimitErrors)
				}
				r = w.reply(4, w.update(4, replicator.All, replicator.Fence{}, addTo(4, "other", "after")))
			}
			if r.Err != nil {
				t.Fatalf("a write of the newcomer: %v", r.Err)
			}
			w.settle(5 * time.Second)
			for _, id := range w.order {
				if got := elements(w.nodes[id].core.Value("s")); !slices.Equal(got, want) {
					t.Errorf("node %v holds %v", id, got)
				}
			}
		})
	}
}

// TestAttackClaimsOfAMembersOwnDots: a member that claims more of its own dots than the
// ceiling allows is refused too: its state would not be taken by those that come later.
func TestAttackClaimsOfAMembersOwnDots(t *testing.T) {
	w := newWorld(t, 6, 3, nil)
	strike(w, "repair", 1, 3, wireDotsMax)
	if s := w.nodes[1].core.Stats(); s.FalseClaims != 1 || s.Refused != 1 || w.nodes[1].core.Value("s") != nil {
		t.Errorf("%d false claims, %d refused items", s.FalseClaims, s.Refused)
	}
}
