package daemon

import (
	"iter"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// The state of a daemon is one LWW-map, so that one read sees all of it: the plan and the
// acknowledgements, whose stamps are their revisions, and the wish.
const (
	// PlanEntry is the key of the plan, WishEntry that of the wish.
	PlanEntry = "plan"
	WishEntry = "wish"
	ackPrefix = "ack/"
)

// AckEntry returns the key of a node's acknowledgement.
func AckEntry(n gossip.NodeID) string {
	return string(wire.AppendU64([]byte(ackPrefix), uint64(n)))
}

// Encode returns the value of PlanEntry.
func (p Plan) Encode() string {
	b := wire.AppendUvarint(appendRev(nil, p.Rev), uint64(p.Workers))
	if p.Running {
		return string(append(b, 1))
	}
	return string(append(b, 0))
}

// Encode returns the value of AckEntry.
func (a Ack) Encode() string {
	return string(wire.AppendU64(appendRev(nil, a.Rev), uint64(a.Since)))
}

// EncodeWish returns the value of WishEntry.
func EncodeWish(workers int) string {
	return string(wire.AppendUvarint(nil, uint64(workers)))
}

// ReadState reads the entries of the map. Those that are none of these, or name more than
// most workers, are left out.
func ReadState(entries iter.Seq2[string, string], most int) State {
	s := State{Acked: map[gossip.NodeID]Ack{}}
	for k, v := range entries { // order-free: each entry stands for itself
		in := wire.NewReader([]byte(v))
		node, isAck := strings.CutPrefix(k, ackPrefix)
		switch {
		case k == PlanEntry:
			rev, n, running := readRev(in), in.Uvarint(), in.Byte() != 0
			if in.Err() == nil && n <= uint64(most) {
				s.Plan = Plan{Rev: rev, Workers: int(n), Running: running}
			}
		case k == WishEntry:
			if n := in.Uvarint(); in.Err() == nil && n <= uint64(most) {
				s.Wish = int(n)
			}
		case isAck && len(node) == 8:
			a := Ack{Rev: readRev(in), Since: gossip.Epoch(in.U64())}
			if in.Err() == nil {
				s.Acked[gossip.NodeID(wire.NewReader([]byte(node)).U64())] = a
			}
		}
	}
	return s
}

func appendRev(b []byte, r Rev) []byte {
	return wire.AppendUvarint(wire.AppendU64(b, uint64(r.Term)), r.Seq)
}

func readRev(in *wire.Reader) Rev {
	return Rev{Term: gossip.Epoch(in.U64()), Seq: in.Uvarint()}
}
