package replication

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// samples has one message of each type, with every field in use.
func samples() []Message {
	v := &crdt.ORSet[string]{}
	v.Add(1, "e")
	items := []Item{{Key: "k", Gen: 2, Kind: crdt.KindORSet, Bytes: v.Append(nil)}, {Key: "m", Gen: 2, Era: 3, Kind: crdt.KindLWWMap, Bytes: []byte{1}}, {Key: "gone", Gen: 9, Bytes: []byte{}}}
	vector := []Seen{{Node: 1, Seen: 4, Top: 9}, {Node: 2, Seen: 5, Top: 5}}
	fences := []replicator.Fence{{Group: "g", Term: 8}}
	drops := []Drop{{Key: "k", Gen: 2}, {Key: "m", Era: 1, Kind: crdt.KindORSet.Of(crdt.ElementInt), Garbage: crdt.Garbage{Digest: 9, Items: 1}},
		{Key: "p", Kind: crdt.KindPNCounterMap, Garbage: crdt.Garbage{Digest: 7, Items: 1}, Writers: []crdt.NodeID{3, 4}}}
	return []Message{
		&Deltas{Epoch: 1 << 33, Floor: 1, From: 3, Entries: []*Entry{{Fence: fences[0], Items: items}, {Items: []Item{}}}},
		&Ack{Epoch: 2, From: 3, To: 4, Seen: 1, Lo: 3, Hi: 4, Refused: []Refusal{{Seq: 3, Higher: 8}, {Seq: 4, Why: whyAhead, Item: 2, Entry: "e", Have: crdt.Stamp{Time: 9, Node: 7, Seq: 5}, Wall: 3}}},
		&ReadRequest{Epoch: 2, ID: 7, Round: 3, Fence: fences[0], Keys: []string{"a", ""}, Prints: []uint64{1, 0}, Large: []int{1}},
		&ReadResult{Epoch: 2, Floor: 9, ID: 7, Round: 3, Prints: []uint64{3}, Items: items, Higher: 4, Lost: 8, Withheld: []int{0}},
		&Repair{ID: 7, Floor: 8, Sweep: 2, Items: items},
		&RepairAck{Epoch: 2, ID: 7},
		&Status{Epoch: 2, Floor: 6, CaughtUp: 1, Root: 77, Keys: 3, Vector: vector, Fences: fences, Reply: true, Sweep: 1 << 40, MinGeneration: 3, MaxForgottenStamp: 1 << 60, Fresh: true, Lost: 7, Dots: 1 << 40, Wall: 1 << 41},
		&Compare{Session: 1, Ask: 2, Start: 3, Sums: []uint64{1, 2}},
		&Differ{Session: 1, Ask: 2, Epoch: 4, Next: 256, Vector: vector, Fences: fences, Keys: []string{"k"}, Prints: []uint64{5}},
		&Fetch{Session: 1, Ask: 2, Credit: 99, Keys: []string{"k"}},
		&Values{Floor: 5, Session: 1, Ask: 2, Answered: 1, Items: items},
		&Part{Transfer: 1, Index: 2, Total: 3000, Data: []byte("data")},
		&partAck{Transfer: 1, Next: 2},
		&Prepare{Epoch: 2, Floor: 3, Sweep: 5, Attempt: 4, Drops: drops, Sweeps: true, Deletions: []uint64{1 << 60, 7}},
		&Prepared{Epoch: 2, Floor: 3, Attempt: 4, Agreed: []bool{true, false}, MaySweep: true, Fences: fences},
		&Commit{Floor: 1, Sweep: 1 << 41, MinGeneration: 2, MaxForgottenStamp: 1 << 60, Drops: drops, Sweeps: true, Agreed: []uint64{8}, Forgotten: []uint64{1 << 60, 7}, Fences: fences},
		&FetchParts{Session: 1, Ask: 2, Key: "k", Gen: 3, Kind: crdt.KindLWWMap.Of(crdt.ElementString, crdt.ElementStruct), Grain: 6, Sums: []uint64{4, 5}},
		&ReadParts{ID: 7, Round: 3, Index: 1, Key: "k", Gen: 3, Kind: crdt.KindORSet, Grain: 6, Sums: []uint64{4, 5}},
		&PartsResult{Floor: 1, Sweep: 2, Epoch: 3, ID: 7, Round: 3, Index: 1, Items: items, Differ: []byte{2}},
		&StampQuery{Epoch: 2, ID: 7, Round: 3, Asks: []stampAsk{{Key: "k", Entries: []string{"a", ""}}, {Key: "gone", Entries: []string{}}}},
		&StampAnswer{Epoch: 2, Floor: 1, Sweep: 5, ID: 7, Round: 3, Wall: 1 << 41, Newest: []Newest{{Gen: 4, Era: 2, Live: true, Times: []uint64{1 << 50, 0}}, {Times: []uint64{}}}},
		&Packed{Of: 99, Raw: 300, Data: []byte("data")},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	names := map[string]bool{}
	for _, m := range samples() {
		got, err := Decode(Append(nil, m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: %v\n%+v\n%+v", m, err, got, m)
		}
		names[Name(m)] = true
	}
	if len(names) != len(samples()) {
		t.Errorf("%d names for %d messages", len(names), len(samples()))
	}
}

func TestTruncatedMessagesAreErrors(t *testing.T) {
	for _, m := range samples() {
		frame := Append(nil, m)
		for i := range frame {
			if got, err := Decode(frame[:i]); err == nil {
				t.Errorf("%T cut to %d of %d bytes decodes to %+v", m, i, len(frame), got)
			}
		}
		later := append(frame[:len(frame):len(frame)], "fields of a later version"...)
		if got, err := Decode(later); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T of a later version decodes to %+v, %v", m, got, err)
		}
	}
}

// FuzzDecode: what decodes encodes to something that decodes to the same, and no
// frame of a member, however odd, breaks a core.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Decode(frame)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, m))
		if err != nil || !bytes.Equal(Append(nil, again), Append(nil, m)) {
			t.Fatalf("%+v becomes %+v, %v", m, again, err)
		}
		c := New(Config{Self: 1, Limits: Limits{FrameBytes: 512}})
		var out Effects
		step := func(ev Event) {
			c.Step(1, ev, &out)
			c.checkInvariants()
			out.Reset()
		}
		step(ViewChanged{View: &gossip.View{Epoch: 1, Members: []gossip.Member{member(1, gossip.Up), member(2, gossip.Up)}}})
		step(Update{ID: 7, Ops: []operation.Op{addTo(1, "k", "e")}, Level: replicator.All, Fence: replicator.Fence{Group: "g", Term: 2}})
		step(Read{ID: 8, Keys: []string{"k"}, Level: replicator.All})
		step(Received{From: 2, Msg: &Status{Epoch: 1, Root: 1}})
		step(Received{From: 2, Msg: m})
		step(Received{From: 2, Msg: m})
		step(Tick{})
	})
}
