package replication

import (
	"github.com/peerage-go/peerage/replicator"
)

// A disk that fails
//
// While the disk of durable keys fails, own writes of such keys are refused and change
// nothing. Writes of other members are applied here in memory, and refused in the
// acknowledgement: this replica does not count for them. Nor does it count for own writes
// that were in flight when the disk began to fail: the copy here is in memory alone,
// until the disk works again and all has been stored. Reads, and keys that need no disk,
// are not affected.

// Messages and replies that rest on the disk are marked (Send.Disk, Reply.Disk): those
// which confirm that durable keys stand here, or carry a promise of this replica. The
// shell holds them back until the keys are stored. All other messages go out meanwhile.
//
// No update mixes durable keys with keys in memory: its reply would wait for the disk, and
// fail with it, although part of it needs none.

// disk tells whether durable keys can be stored.
type disk struct {
	*env
	// failure is why durable keys cannot be stored now, nil if they can.
	failure error
	// mended is set when the disk works again, so that writes which did not count this node
	// may end.
	mended bool
}

// checkUnmixed fails if some of ops need the disk and some do not.
func (dk *disk) checkUnmixed(ops []plannedOp) error {
	e := replicator.Error{Code: replicator.ErrMixed}
	for i := range ops {
		if dk.kept(ops[i].Key) {
			e.Key = ops[i].Key
		} else {
			e.OtherKey = ops[i].Key
		}
	}
	if e.Key != "" && e.OtherKey != "" {
		return &e
	}
	return nil
}

// keptAmong reports whether one of n keys is durable.
func (dk *disk) keptAmong(n int, key func(int) string) bool {
	for i := range n {
		if dk.cfg.Keep != nil && dk.kept(key(i)) {
			return true
		}
	}
	return false
}

func (dk *disk) keptItems(items []Item) bool {
	return dk.keptAmong(len(items), func(i int) string { return items[i].Key })
}

// checkStorable fails if the disk is needed for a key, and fails.
func (dk *disk) checkStorable(key string) error {
	if dk.failure == nil || !dk.kept(key) {
		return nil
	}
	return &replicator.Error{Code: replicator.ErrDurable, Node: dk.cfg.Self, Key: key, Cause: dk.failure}
}

// storableAll reports whether all items of an entry can be stored.
func (dk *disk) storableAll(items []Item) bool {
	for i := range items {
		if dk.checkStorable(items[i].Key) != nil {
			return false
		}
	}
	return true
}
