package replication

import (
	"errors"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// A write of a durable key that is under way when the disk of its own node begins to fail:
// that node's copy is in memory alone, and does not count. The write waits for a majority
// of others, whose disks have it, or ends with an unknown outcome. When the disk works
// again it is stored, and counts.
func TestAWriteUnderWayWhenTheDiskFailsDoesNotCountItsNode(t *testing.T) {
	for name, tc := range map[string]struct {
		away    []gossip.NodeID // cannot be reached while the disk fails
		mends   bool
		unknown bool
	}{
		"one other has it":                    {ids(3), false, true},
		"one other has it, and then the disk": {ids(3), true, false},
		"two others have it":                  {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3, func(c *Config) { c.Keep = func(string) bool { return true } })
			w.run(time.Second)
			w.cut = func(a, b gossip.NodeID) bool { return true }
			write := w.update(1, majority, replicator.Fence{}, addTo(1, "k", "x"))
			w.run(20 * time.Millisecond)
			w.nodes[1].core.DiskFails(errors.New("full"))
			w.cut = func(a, b gossip.NodeID) bool {
				for _, id := range tc.away {
					if a == id || b == id {
						return true
					}
				}
				return false
			}
			w.run(500 * time.Millisecond)
			if tc.mends {
				w.nodes[1].core.DiskFails(nil)
			}
			r := w.reply(1, write)
			if unknown := errors.Is(r.Err, replicator.ErrOutcomeUnknown) && errors.Is(r.Err, replicator.ErrDurable); unknown != tc.unknown || !unknown && r.Err != nil {
				t.Errorf("the write ended with %v", r.Err)
			}
		})
	}
}
