package replication

import (
	"fmt"
	"math"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/replicator"
)

// env is shared by all parts of a core: the settings, the time and the effects of the
// step under way, and the counters.
type env struct {
	cfg   Config
	stats figures.Replicator
	// now is the time of the step under way, steps counts the steps.
	now   clock.Instant
	steps uint64
	// remote is set while the step handles a message.
	remote bool
	// out is the effects of the step under way.
	out *Effects
	// onDisk is set while a message or reply that rests on the disk is sent (disk.go).
	onDisk bool
	ids    uint64 // of sessions and transfers
	// blunder is a planted bug; only tests set it.
	blunder blunder
}

// Core is the replicator of one role on one node. Not safe for concurrent use.
//
// It takes events apart and hands them to its parts, each of which has its own state and
// refers to parts above it in this list alone.
type Core struct {
	*env
	store       *store
	members     *members
	marks       *marks
	disk        *disk
	transfers   *transfers
	clocks      *clocks
	fences      *fences
	deletions   *deletions
	values      *values
	stream      *stream
	table       *table
	antiEntropy *antiEntropy
	retention   *retention
	pruner      *pruner
	sessions    *sessions
	reads       *reads
	writes      *writes
	requests    *requests
}

// New returns a core without keys and without a view: until the first
// ViewChanged only level Local can be fulfilled.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	e := &env{cfg: cfg}
	c := &Core{
		env:       e,
		store:     &store{},
		members:   &members{env: e, byID: map[gossip.NodeID]*peer{}},
		marks:     &marks{empty: true},
		disk:      &disk{env: e},
		transfers: &transfers{env: e},
		deletions: &deletions{env: e, of: map[string]*keyDeletions{}},
	}
	c.clocks = &clocks{env: e, members: c.members}
	c.fences = &fences{env: e, members: c.members, max: cfg.Limits.FenceGroups, epochs: cfg.Epochs}
	c.values = &values{env: e, members: c.members, clocks: c.clocks, marks: c.marks, deletions: c.deletions, store: c.store}
	c.stream = &stream{env: e, members: c.members, clocks: c.clocks, fences: c.fences, transfers: c.transfers,
		marks: c.marks, disk: c.disk, values: c.values,
		log: ownLog{first: 1}, tracks: map[gossip.NodeID]*track{}, batchAt: clock.Never}
	c.antiEntropy = &antiEntropy{env: e, members: c.members, clocks: c.clocks, fences: c.fences, transfers: c.transfers,
		marks: c.marks, deletions: c.deletions, values: c.values, store: c.store, stream: c.stream, gossipAt: clock.Never}
	c.table = &table{env: e, members: c.members, fences: c.fences, marks: c.marks, disk: c.disk, open: map[RequestID]*request{}}
	c.addRequests()
	c.addUpkeep()
	return c
}

// addRequests adds the parts that carry out requests over the table.
func (c *Core) addRequests() {
	c.reads = &reads{env: c.env, members: c.members, fences: c.fences, transfers: c.transfers, marks: c.marks,
		disk: c.disk, values: c.values, store: c.store, table: c.table}
	c.writes = &writes{env: c.env, members: c.members, clocks: c.clocks, fences: c.fences, transfers: c.transfers,
		marks: c.marks, deletions: c.deletions, disk: c.disk, values: c.values, store: c.store, stream: c.stream,
		table: c.table, reads: c.reads}
	c.requests = &requests{env: c.env, members: c.members, table: c.table, reads: c.reads, writes: c.writes}
	c.table.proceed = c.requests.advance
}

// addUpkeep adds the parts that pull missing state and forget old state.
func (c *Core) addUpkeep() {
	c.retention = &retention{env: c.env, members: c.members, clocks: c.clocks, marks: c.marks, deletions: c.deletions,
		values: c.values, store: c.store, stream: c.stream, found: math.MaxUint64, onSetAside: c.requests.askAfterRemoval}
	c.pruner = &pruner{env: c.env, members: c.members, fences: c.fences, transfers: c.transfers, marks: c.marks,
		deletions: c.deletions, values: c.values, store: c.store, stream: c.stream, table: c.table,
		antiEntropy: c.antiEntropy, retention: c.retention, pruneAt: clock.Never, expiryAt: clock.Never}
	c.sessions = &sessions{env: c.env, members: c.members, fences: c.fences, transfers: c.transfers, marks: c.marks,
		values: c.values, store: c.store, stream: c.stream, antiEntropy: c.antiEntropy}
	c.sessions.onSynced = func(now clock.Instant, s *session) {
		c.noteSynced(now, c.members.byID[s.peer], s.epoch, s.caughtUp, s.vector)
	}
}

// Step handles one event. Between calls now must not go back.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.out, c.stream.shared, c.now = out, nil, now
	c.remote = false
	c.steps++
	if c.deletions.born == 0 {
		c.deletions.born = now
	}
	switch ev := ev.(type) {
	case Tick:
	case Update:
		c.writes.onUpdate(now, ev)
	case Read:
		c.reads.onRead(now, ev)
	case Cancel:
		c.table.forget(c.table.open[ev.ID])
	case Received:
		c.remote = true
		c.onReceived(now, ev.From, ev.Msg)
	case ViewChanged:
		c.onView(now, ev.View)
	case PeerLost:
		c.onPeerLost(now, ev.ID)
	case PeerUp:
		c.onPeerUp(now, ev.ID)
	case LeaseRegained:
		c.table.onLease(now)
	default:
		panic(fmt.Sprintf("replicator: unknown event %T", ev))
	}
	if c.disk.mended {
		c.onDiskMended(now)
	}
	c.onTime(now)
	c.out = nil
}

// onTime does all that is due. It runs in every step, so a late Tick only delays.
func (c *Core) onTime(now clock.Instant) {
	if !now.Before(c.stream.batchAt) {
		c.stream.batchAt = clock.Never
		for _, p := range c.members.peers {
			c.stream.flush(now, p)
		}
	}
	for _, p := range c.members.peers {
		if !now.Before(p.resendAt) {
			c.stream.resend(now, p)
		}
		c.transfers.resendParts(now, p)
	}
	for len(c.table.timers) > 0 && !now.Before(c.table.timers[0].at) {
		if r := c.table.open[c.table.timers.pop().id]; r != nil {
			c.requests.onRequestTime(now, r)
		}
	}
	c.sessions.retryLate(now)
	if !now.Before(c.antiEntropy.gossipAt) {
		c.antiEntropy.startRound(now)
	}
	if c.pruner.planExpiry(); !now.Before(c.pruner.expiryAt) {
		c.pruner.markExpired()
		c.pruner.planExpiry()
	}
	if c.pruner.planPrune(now); !now.Before(c.pruner.pruneAt) {
		c.pruner.startRound(now)
		c.pruner.planPrune(now)
	}
}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant {
	if c.disk.mended {
		return c.now
	}
	d := clock.Min(clock.Min(c.stream.batchAt, c.pruner.expiryAt), clock.Min(c.antiEntropy.gossipAt, c.pruner.pruneAt))
	for _, p := range c.members.peers {
		d = clock.Min(d, clock.Min(p.resendAt, p.out.resendAt()))
	}
	if len(c.table.timers) > 0 {
		d = clock.Min(d, c.table.timers[0].at)
	}
	return clock.Min(d, c.sessions.nextDue())
}

func (c *Core) onReceived(now clock.Instant, from gossip.NodeID, m Message) {
	p := c.members.byID[from]
	if p == nil {
		// Don't handle messages of non-members: the sender was removed, or our view is
		// stale. A member retransmits.
		c.stats.ForeignFrames++
		return
	}
	if p.down {
		c.onPeerUp(now, from)
	}
	if k, ok := m.(*Packed); ok {
		m = c.transfers.unpack(p, k)
	}
	c.onMessage(now, p, m)
}

func (c *Core) onMessage(now clock.Instant, p *peer, m Message) {
	if c.clocks.isMuted() && !carriesClock(m) {
		return // the peer retransmits it
	}
	switch m := m.(type) {
	case *Deltas:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
			c.stream.onDeltas(p, m)
		}
	case *Ack:
		c.writes.onAck(now, p, m)
	case *ReadRequest:
		c.reads.onReadRequest(p, m)
	case *ReadResult:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
			c.reads.onReadResult(now, p, m)
		}
	case *ReadParts:
		c.reads.onReadParts(p, m)
	case *PartsResult:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
			c.reads.onPartsResult(now, p, m)
		}
	case *StampQuery:
		c.writes.onStampQuery(p, m)
	case *StampAnswer:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
			c.writes.onStampAnswer(now, p, m)
		}
	case *Repair:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
			c.reads.onRepair(p, m)
		}
	case *RepairAck:
		c.reads.onRepairAck(now, p, m)
	case *Status:
		c.onStatus(now, p, m)
	case *Compare:
		c.sessions.onCompare(p, m)
	case *Differ:
		c.sessions.onDiffer(now, p, m)
	case *Fetch:
		c.sessions.onFetch(p, m)
	case *FetchParts:
		c.sessions.onFetchParts(p, m)
	case *Values:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
			c.sessions.onValues(now, p, m)
		} else {
			c.sessions.dismissUnlevel(now, p, m)
		}
	case *Part:
		if whole := c.transfers.onPart(now, p, m); whole != nil {
			c.onReceived(now, p.id, whole)
		}
	case *partAck:
		c.transfers.onPartAck(now, p, m)
	case *Prepare:
		c.pruner.onPrepare(p, m)
	case *Prepared:
		c.pruner.onPrepared(now, p, m)
	case *Commit:
		c.pruner.onCommit(now, p, m)
	}
}

func (ev *env) trace(e TraceEvent) { ev.out.Trace = append(ev.out.Trace, e) }

// noteChange notes a change: delta was joined with the value; it is nil if the value was
// deleted.
func (vs *values) noteChange(it *item, delta crdt.Value) {
	vs.deletions.noteDeletions(it, delta)
	vs.reportChange(it)
}

// reportChange reports a key as changed, once per step.
func (vs *values) reportChange(it *item) {
	if vs.out == nil {
		return // in Restore: no caller has seen an earlier state
	}
	if vs.blunder != blunderOwnIdleness || !vs.remote {
		it.changedAt = vs.now
	}
	if it.marked != vs.steps {
		it.marked = vs.steps
		vs.out.Changed = append(vs.out.Changed, it.key)
	}
}

// take merges items that another replica sent. It returns false if one of them was
// refused: then this replica must not confirm them.
func (vs *values) take(p *peer, items []Item) (ok bool) {
	return vs.takeNoting(p, items, func(Refusal) {})
}

// takeNoting is take; it calls note with each refusal that the writer of an item must
// receive.
func (vs *values) takeNoting(p *peer, items []Item, note func(Refusal)) (ok bool) {
	ok = true
	vs.marks.empty = vs.marks.empty && len(items) == 0
	for i := range items {
		err := vs.takeItem(p, &items[i], func(r Refusal) {
			r.Item = i
			note(r)
		})
		if err == nil {
			continue
		}
		ok = false
		e := TraceEvent{Kind: TraceRefused, Peer: p.id, Key: items[i].Key, Bytes: len(items[i].Bytes), Detail: err.Error()}
		if ahead, is := err.(*replicator.AheadError); is {
			e.Kind = TraceAhead
			vs.stats.Ahead++
			note(Refusal{Why: whyAhead, Item: i, Have: crdt.Stamp{Time: ahead.Stamp << tickBits}, Wall: ahead.Wall})
		} else {
			vs.stats.Refused++
		}
		vs.trace(e)
	}
	return ok
}

// takeItem merges one item that a peer sent, or one of the own file if from is nil. It
// calls note with refusals that the writer of the item must receive.
func (vs *values) takeItem(from *peer, in *Item, note func(Refusal)) error {
	if err := vs.checkRoom(in); err != nil {
		return err
	}
	var v crdt.Value
	if in.Kind != 0 {
		var err error
		if v, err = crdt.Decode(in.Kind, in.Bytes); err != nil {
			return err
		}
	}
	if err := vs.checkClaims(from, v); err != nil {
		return err
	}
	if err := malformed(in, v); err != nil {
		return err
	}
	v, ahead := vs.clocks.admitStamps(from, in.Key, v)
	if ahead != nil && emptied(v) {
		return ahead
	}
	it := vs.store.obtain(in.Key)
	if v != nil && it.gen == in.Gen {
		staleIn(it, v, in.Era, note)
	}
	if vs.blunder == blunderEraReplaces && in.Era != it.era && in.Gen == it.gen {
		if in.Era < it.era {
			return nil
		}
		it.value = nil
	}
	if vs.store.absorb(it, in.Gen, in.Era, v) {
		vs.noteChange(it, v)
	}
	if ahead != nil {
		return ahead
	}
	return nil
}

// checkRoom checks an item of another replica against twice the limits.
func (vs *values) checkRoom(in *Item) error {
	l := &vs.cfg.Limits
	it := vs.store.get(in.Key)
	switch {
	case len(in.Key) > l.KeyBytes*2:
		return &replicator.LimitError{What: "KeyBytes", Limit: 2 * l.KeyBytes, Had: len(in.Key)}
	case it == nil && vs.store.keys >= 2*l.Keys:
		return &replicator.LimitError{What: "Keys", Limit: 2 * l.Keys, Had: vs.store.keys}
	case len(in.Bytes) > 2*l.ValueBytes || it != nil && it.bytes > 2*l.ValueBytes:
		return &replicator.LimitError{What: "ValueBytes", Limit: 2 * l.ValueBytes, Had: len(in.Bytes)}
	case vs.store.bytes+len(in.Bytes) > 2*l.TotalBytes:
		return &replicator.LimitError{What: "TotalBytes", Limit: 2 * l.TotalBytes, Had: vs.store.bytes}
	}
	return nil
}

// Restore merges items that an earlier incarnation has stored, before the first Step.
// Anti-entropy spreads them.
func (c *Core) Restore(items []Item) error {
	for i := range items {
		if err := c.values.takeItem(nil, &items[i], func(Refusal) {}); err != nil {
			return fmt.Errorf("key %q: %w", items[i].Key, err)
		}
	}
	return nil
}

// State returns the whole state of a key for storing it; ok is false if there is
// none.
func (c *Core) State(key string) (in Item, ok bool) {
	it := c.store.get(key)
	if it == nil {
		return Item{}, false
	}
	return full(it), true
}

// full returns the whole state of a key for the wire.
func full(it *item) Item {
	out := Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind()}
	if it.value != nil {
		out.Bytes = it.value.Append(make([]byte, 0, it.bytes))
	}
	return out
}

// Value returns the local value of key, nil if there is none. It belongs to the
// core: it must not be changed, nor be kept beyond the next step.
func (c *Core) Value(key string) crdt.Value { return c.store.value(key) }

// Keys returns the names of all keys that begin with prefix, sorted.
func (c *Core) Keys(prefix string) []string { return c.store.names(prefix) }

// Digest returns a hash of the whole data: replicas with equal digests hold equal data.
func (c *Core) Digest() uint64 { return c.store.root }

// Term returns the highest term that the replica has seen of a fence's group.
func (c *Core) Term(group string) uint64 { return c.fences.terms[group] }

// Stats returns a snapshot.
func (c *Core) Stats() figures.Replicator {
	s := c.stats
	s.Keys, s.Bytes, s.Pending = c.store.keys, c.store.bytes, len(c.table.open)
	s.Peers, s.Settled = len(c.members.peers), c.members.view != nil && len(c.members.former) == 0
	s.Tombstones, s.Floor, s.Retained = c.store.tombs, c.marks.floor, c.deletions.n
	s.LogEntries, s.LogBytes = len(c.stream.log.entries), c.stream.log.bytes
	for _, p := range c.members.peers {
		s.LagMax = max(s.LagMax, c.stream.log.last()-p.acked)
	}
	return s
}
