package replication

import (
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// A disk that fails
//
// While the disk of durable keys fails, own writes of such keys are refused and change
// nothing. What others write is applied here in memory, and refused in the
// acknowledgement: this replica does not count for them. Nor does it for own writes that
// were under way when the disk began to fail: the copy here is in memory alone, until the
// disk works again and all has been stored. Reads, and keys that need no disk, go on.

// Messages and replies that rest on the disk are marked (Send.Disk, Reply.Disk): those which
// confirm that durable keys stand here, or tell what this replica has agreed to. The shell
// holds them back until the disk has what they speak of. All else goes out meanwhile.
//
// An update does not mix durable keys with others: its reply would wait for the disk, and
// fail with it, although part of it needs none.

// unmixed fails if some of ops need the disk and others do not.
func (c *Core) unmixed(ops []plannedOp) error {
	var e replicator.MixedError
	for i := range ops {
		if c.kept(ops[i].Key) {
			e.Durable = ops[i].Key
		} else {
			e.Memory = ops[i].Key
		}
	}
	if e.Durable != "" && e.Memory != "" {
		return &e
	}
	return nil
}

// keptAmong reports whether one of n keys is durable.
func (c *Core) keptAmong(n int, key func(int) string) bool {
	for i := range n {
		if c.cfg.Keep != nil && c.kept(key(i)) {
			return true
		}
	}
	return false
}

func (c *Core) keptItems(items []Item) bool {
	return c.keptAmong(len(items), func(i int) string { return items[i].Key })
}

// sendStored sends what rests on the disk if kept is true.
func (c *Core) sendStored(p *peer, m Message, kept bool) {
	c.onDisk = kept
	c.send(p, m)
	c.onDisk = false
}

// DiskFails tells the core why durable keys cannot be stored now, nil if they can and all
// that was changed meanwhile has been stored, or will be before what rests on the disk is
// said (Reply.Disk).
func (c *Core) DiskFails(why error) {
	c.diskMended = c.diskFails != nil && why == nil
	c.diskFails = why
}

// onDiskMended ends the writes that waited for this node's copy alone.
func (c *Core) onDiskMended(now clock.Instant) {
	c.diskMended = false
	for _, r := range slices.Clone(c.writes) {
		c.advance(now, r)
	}
}

// storable fails if the disk is needed for a key, and fails.
func (c *Core) storable(key string) error {
	if c.diskFails == nil || !c.kept(key) {
		return nil
	}
	return &replicator.DiskError{Node: c.cfg.Self, Key: key, Cause: c.diskFails}
}

// storableAll reports whether all items of an entry can be stored.
func (c *Core) storableAll(items []Item) bool {
	for i := range items {
		if c.storable(items[i].Key) != nil {
			return false
		}
	}
	return true
}
