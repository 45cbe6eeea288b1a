package network

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
)

// corruptor damages frames on the way. A frame whose bits have flipped fails its checksum, and
// the receiver ends the connection (internal/transport): what was in flight behind it is lost,
// and what is behind it in the sender's queue as well.
type corruptor struct{ run *run.Run }

// corruptOne of so many frames is damaged.
const corruptOne = 300

// damages reports whether a frame arrives damaged, and is found to be.
func (k corruptor) damages(f *Frame, from gossip.NodeID, to string) bool {
	r := k.run
	if !r.Config.Corrupt || r.Calm || r.Rand.Trouble.IntN(corruptOne) > 0 {
		return false
	}
	r.Hit(coverage.Corrupted)
	r.Event(to, "frame damaged", uint64(from), nil)
	return true
}
