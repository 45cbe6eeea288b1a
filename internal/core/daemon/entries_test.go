package daemon

import (
	"maps"
	"reflect"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// TestEntriesAreReadAsWritten: what a node writes into the map is what another one reads.
func TestEntriesAreReadAsWritten(t *testing.T) {
	want := State{
		Plan: Plan{Rev: Rev{Term: 1 << 40, Seq: 300}, Workers: 5, Running: true}, Wish: 7,
		Acked: map[gossip.NodeID]Ack{1: {}, 1 << 63: {Rev: Rev{Term: 9, Seq: 2}, Since: 1 << 50}},
	}
	entries := map[string]string{PlanEntry: want.Plan.Encode(), WishEntry: EncodeWish(want.Wish)}
	for n, a := range want.Acked {
		entries[AckEntry(n)] = a.Encode()
	}
	if got := ReadState(maps.All(entries), 7); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	want.Plan.Running = false
	entries[PlanEntry] = want.Plan.Encode()
	if got := ReadState(maps.All(entries), 7); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

// TestMalformedEntriesAreLeftOut: another writer of the role's data may have put anything there.
func TestMalformedEntriesAreLeftOut(t *testing.T) {
	none := State{Acked: map[gossip.NodeID]Ack{}}
	plan, ack := Plan{Rev: Rev{Term: 1, Seq: 1}, Workers: 5, Running: true}, Ack{Rev: Rev{Term: 1, Seq: 1}, Since: 1}
	for name, entry := range map[string][2]string{
		"another key":               {"plans", plan.Encode()},
		"a plan that ends early":    {PlanEntry, plan.Encode()[:10]},
		"a plan of too many":        {PlanEntry, Plan{Workers: 8}.Encode()},
		"an empty plan":             {PlanEntry, ""},
		"a wish of too many":        {WishEntry, EncodeWish(8)},
		"an empty wish":             {WishEntry, ""},
		"an ack that ends early":    {AckEntry(1), ack.Encode()[:12]},
		"an ack of a shorter key":   {AckEntry(1)[:len(ackPrefix)+7], ack.Encode()},
		"an ack of a longer key":    {AckEntry(1) + "x", ack.Encode()},
		"an ack of another prefix":  {"ack:" + AckEntry(1)[len(ackPrefix):], ack.Encode()},
		"an ack with an empty name": {ackPrefix, ack.Encode()},
	} {
		if got := ReadState(maps.All(map[string]string{entry[0]: entry[1]}), 7); !reflect.DeepEqual(got, none) {
			t.Errorf("%s: read %+v", name, got)
		}
	}
}
