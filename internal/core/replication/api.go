package replication

import (
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// RequestID names a request between the core and its shell. Zero is not valid.
type RequestID uint64

// Event is one input of a Core. Its implementations are the structs below.
type Event interface{ isEvent() }

// Tick marks the passage of time: the shell sends it at Core.Deadline or later.
type Tick struct{}

// Update changes the keys of Ops, all or none, here in the same step and then at as many
// replicas as Level asks for. One Reply answers it.
type Update struct {
	ID  RequestID
	Ops []operation.Op
	// Bases are the snapshots on which the plans of Ops were decided outside the core, in the
	// order of Ops. Bases is nil, or an element is, if a plan decides within the step. The
	// core releases them.
	Bases []*Snapshot
	Level replicator.Level
	// Deadline is when an unfulfilled level is given up: the outcome is then
	// unknown. Zero means Config.Timeout from now.
	Deadline clock.Instant
	// Fence makes replicas that have seen a higher term of the group refuse.
	Fence replicator.Fence
}

// Read requests the values of Keys as of Level. One Reply answers it, with Values in the
// order of Keys, nil for a key that does not exist.
type Read struct {
	ID       RequestID
	Keys     []string
	Level    replicator.Level
	Deadline clock.Instant
	// Fence raises the group's term at every replica that answers.
	Fence replicator.Fence
}

// Cancel ends a request without a Reply. Its writes stay.
type Cancel struct{ ID RequestID }

// Received is a message from a peer. Msg is not changed.
type Received struct {
	From gossip.NodeID
	Msg  Message
}

// ViewChanged hands over a newer view. Older ones are ignored.
type ViewChanged struct{ View *gossip.View }

// PeerLost reports that the connection to a peer broke: requests stop waiting for it
// first and turn to other members in the same step.
type PeerLost struct{ ID gossip.NodeID }

// PeerUp reports that a peer's connection stands.
type PeerUp struct{ ID gossip.NodeID }

// LeaseRegained reports that Config.LeaseValid is true again: requests that waited for it
// alone end in the same step.
type LeaseRegained struct{}

func (Tick) isEvent()          {}
func (Update) isEvent()        {}
func (Read) isEvent()          {}
func (Cancel) isEvent()        {}
func (Received) isEvent()      {}
func (ViewChanged) isEvent()   {}
func (PeerLost) isEvent()      {}
func (PeerUp) isEvent()        {}
func (LeaseRegained) isEvent() {}

// Mutate returns an Op that needs no decision.
func Mutate(key string, kind crdt.Kind, growth int, apply func(crdt.Value) crdt.Value) operation.Op {
	return operation.Op{Key: key, Kind: kind, Plan: func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: growth, Blind: true, Apply: apply}, nil
	}}
}

// Effects are the orders of one step to the shell. The shell empties them between steps.
// It carries out Send before Reply, though nothing depends on that order: a reply rests
// only on confirmations that other replicas have already sent.
type Effects struct {
	Send  []Send
	Reply []Reply
	// Changed names the keys whose value changed, without repetitions per step.
	Changed []string
	// Forgotten names durable keys of which a deletion was forgotten: the key's own, or
	// those of its entries.
	Forgotten []string
	// SetAside is set when the keys that came from a file were taken out (retain.go). The
	// shell must put the file aside and write a new one.
	SetAside bool
	Trace    []TraceEvent
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Send)
	clear(e.Reply)
	*e = Effects{Send: e.Send[:0], Reply: e.Reply[:0], Changed: e.Changed[:0], Forgotten: e.Forgotten[:0], Trace: e.Trace[:0]}
}

// Send is a message to a peer. Delivery is not promised. Sends that share one
// message share the pointer, so a shell may encode it once.
type Send struct {
	To gossip.NodeID
	// Bulk messages go on the connection for transfers, all remaining messages on the
	// control one.
	Bulk bool
	Msg  Message
	// Disk is set on a message that confirms that durable keys are stored here. It must
	// wait until they are.
	Disk bool
}

// Reply answers a request.
type Reply struct {
	ID RequestID
	// Err is nil, or one of the errors of this package.
	Err error
	// Values of a Read are copies that belong to the receiver.
	Values []crdt.Value
	// Disk is set on a reply that counts this replica for durable keys. It must wait
	// until they are stored.
	Disk bool
}

// TraceEvent is one line for logs, metrics and simulator output.
type TraceEvent struct {
	Kind   TraceKind
	Peer   gossip.NodeID
	Key    string
	Bytes  int
	Detail string
}

// TraceKind is the kind of a TraceEvent.
type TraceKind string

// The trace kinds of this package.
const (
	TraceFenceRaised  TraceKind = "fence raised"
	TraceFenceRefused TraceKind = "fence refused"
	TraceFenceFar     TraceKind = "fence far beyond the view"
	TraceResent       TraceKind = "deltas resent"
	TraceLogCut       TraceKind = "log cut"
	TraceDescend      TraceKind = "digests differ"
	TraceSynced       TraceKind = "synced"
	TraceSettled      TraceKind = "settled"
	TraceRefused      TraceKind = "refused"
	TraceAhead        TraceKind = "stamp ahead"
	TraceEra          TraceKind = "era"
	TraceRestamped    TraceKind = "restamped"
	TraceRepair       TraceKind = "read repair"
	TraceTransfer     TraceKind = "transfer"
	TracePruned       TraceKind = "pruned"
	TraceExpired      TraceKind = "expired"
	TraceDropped      TraceKind = "dropped"
	TraceSetAside     TraceKind = "set aside"
	TraceLateFile     TraceKind = "late file"
)

// Peers returns the other members with the role, the most senior first.
func (c *Core) Peers() []figures.Replica {
	out := make([]figures.Replica, 0, len(c.members.peers))
	for _, p := range c.members.peers {
		out = append(out, figures.Replica{ID: p.id, Down: p.down, Lag: c.stream.log.last() - p.acked, CaughtUp: p.caughtUp >= c.members.epoch})
	}
	return out
}

// keyStats describes one key. The zero keyStats describes a key that never existed.
type keyStats struct {
	// Kind is 0 for a key that has been deleted.
	Kind crdt.Kind
	// Generation counts the key's deletions.
	Generation uint64
	// Bytes is about the encoded size of the value.
	Bytes int
	// Print is equal at replicas that hold the same state.
	Print uint64
}

// Key describes a key.
func (c *Core) Key(key string) keyStats {
	it := c.store.itemOf(key)
	if it == nil {
		return keyStats{}
	}
	return keyStats{Kind: it.kind(), Generation: it.gen, Bytes: it.bytes, Print: it.print}
}

// Agreed returns the agreed deletions for the file, sorted. They change with Memory.Sweep
// alone.
func (c *Core) Agreed() []AgreedDeletion { return c.retention.listAgreed() }

// Recall sets the header and the agreed deletions of a file, after Restore and before the
// first Step.
func (c *Core) Recall(now clock.Instant, m Memory) { c.retention.loadFile(now, m) }

// Memory returns the header for the file, without the agreed deletions.
func (c *Core) Memory(now clock.Instant) Memory { return c.retention.fileHeader(now) }

// KeptKeys returns the durable keys, deleted ones too, sorted.
func (c *Core) KeptKeys() []string { return c.retention.keptKeys() }

// DiskFails sets why durable keys cannot be stored now. It is nil if they can, and all
// changes made meanwhile have been stored, or will be before messages that rest on the
// disk go out (Reply.Disk).
func (c *Core) DiskFails(why error) {
	c.disk.mended = c.disk.failure != nil && why == nil
	c.disk.failure = why
}

// Snapshot returns the state of a key. The caller must release it: with the Update in
// which it is one of Bases, or by Release.
func (c *Core) Snapshot(key string) *Snapshot {
	s := &Snapshot{Key: key}
	it := c.store.itemOf(key)
	if it == nil {
		return s
	}
	s.Value, s.era, s.version, s.written = it.value, it.era, it.version, it.written
	if it.value == nil {
		return s
	}
	if it.pins == nil {
		it.pins = &pins{}
		// Build the index of values that do so when they are first read: readers outside
		// must not, all at the same time.
		switch m := it.value.(type) {
		case *crdt.ORMap[string, string]:
			m.Len()
		case *crdt.ORMultiMap[string, string]:
			m.Keys()
		case *crdt.PNCounterMap[string]:
			m.Len()
		}
	}
	it.pins.n++
	s.pins = it.pins
	return s
}

// Restore merges items that an earlier incarnation has stored, before the first Step.
// Anti-entropy spreads them.
func (c *Core) Restore(items []Item) error {
	for i := range items {
		if err := c.values.mergeItem(nil, &items[i], func(Refusal) {}); err != nil {
			return fmt.Errorf("key %q: %w", items[i].Key, err)
		}
	}
	return nil
}

// State returns the whole state of a key for storing it; ok is false if there is
// none.
func (c *Core) State(key string) (in Item, ok bool) {
	it := c.store.itemOf(key)
	if it == nil {
		return Item{}, false
	}
	return full(it), true
}

// Value returns the local value of key, nil if there is none. It belongs to the
// core: it must not be changed, nor be kept beyond the next step.
func (c *Core) Value(key string) crdt.Value { return c.store.value(key) }

// Keys returns the names of all keys that begin with prefix, sorted.
func (c *Core) Keys(prefix string) []string { return c.store.liveNames(prefix) }

// Digest returns a hash of the whole data: replicas with equal digests hold equal data.
func (c *Core) Digest() uint64 { return c.store.root }

// Term returns the highest term that the replica has seen of a fence's group.
func (c *Core) Term(group string) uint64 { return c.fences.terms[group] }

// Lost returns the newest view before which confirmed values may be gone from all members: a
// majority of the voters of a former view that had not settled was absent from it. 0 if there is none.
// A replica that joins later has it from its peers, with their Status and their answers to its reads.
func (c *Core) Lost() gossip.Epoch { return c.members.lost }

// Stats returns a snapshot.
func (c *Core) Stats() figures.Replicator {
	s := c.stats
	s.Keys, s.Bytes, s.Pending = c.store.keys, c.store.bytes, len(c.table.open)
	s.Peers, s.Settled = len(c.members.peers), c.members.view != nil && len(c.members.former) == 0
	s.Tombstones, s.Floor, s.Retained = c.store.tombs, c.barrier.floor, c.store.deletions
	s.LogEntries, s.LogBytes = len(c.stream.log.entries), c.stream.log.bytes
	for _, p := range c.members.peers {
		s.LagMax = max(s.LagMax, c.stream.log.last()-p.acked)
	}
	return s
}
