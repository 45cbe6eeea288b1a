package replication

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Core is the replicator of one role on one node. Not safe for concurrent use.
//
// It takes events apart and hands them to its parts, each of which has its own state and
// refers to parts above it in this list alone.
type Core struct {
	*env
	store       *store
	members     *members
	barrier     *barrier
	disk        *disk
	transfers   *transfers
	clocks      *clocks
	fences      *fences
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
		store:     &store{kept: e.kept},
		members:   &members{env: e, byID: map[gossip.NodeID]*peer{}},
		barrier:   &barrier{empty: true},
		disk:      &disk{env: e},
		transfers: &transfers{env: e},
	}
	c.clocks = &clocks{env: e, members: c.members}
	c.fences = &fences{env: e, members: c.members, max: cfg.Limits.FenceGroups, epochs: cfg.Epochs}
	c.values = &values{env: e, members: c.members, clocks: c.clocks, barrier: c.barrier, store: c.store}
	c.stream = &stream{env: e, members: c.members, clocks: c.clocks, fences: c.fences, transfers: c.transfers,
		barrier: c.barrier, disk: c.disk, values: c.values,
		log: ownLog{first: 1}, tracks: map[gossip.NodeID]*track{}, batchAt: clock.Never}
	c.antiEntropy = &antiEntropy{env: e, members: c.members, clocks: c.clocks, fences: c.fences, transfers: c.transfers,
		barrier: c.barrier, values: c.values, store: c.store, stream: c.stream, gossipAt: clock.Never}
	c.table = &table{env: e, members: c.members, fences: c.fences, barrier: c.barrier, disk: c.disk, open: map[RequestID]*request{}}
	c.addRequests()
	c.addUpkeep()
	return c
}

// addRequests adds the parts that carry out requests over the table.
func (c *Core) addRequests() {
	c.reads = &reads{env: c.env, members: c.members, fences: c.fences, transfers: c.transfers, barrier: c.barrier,
		disk: c.disk, values: c.values, store: c.store, table: c.table}
	c.writes = &writes{env: c.env, members: c.members, clocks: c.clocks, fences: c.fences, transfers: c.transfers,
		barrier: c.barrier, disk: c.disk, values: c.values, store: c.store, stream: c.stream,
		table: c.table, reads: c.reads}
	c.requests = &requests{env: c.env, members: c.members, table: c.table, reads: c.reads, writes: c.writes}
	c.table.proceed = c.requests.advanceRequest
}

// addUpkeep adds the parts that pull missing state and forget old state.
func (c *Core) addUpkeep() {
	c.retention = &retention{env: c.env, members: c.members, clocks: c.clocks, barrier: c.barrier, values: c.values,
		store: c.store, stream: c.stream, table: c.table, agreed: map[uint64]uint64{}, onSetAside: c.requests.askAfterRemoval}
	c.pruner = &pruner{env: c.env, members: c.members, fences: c.fences, transfers: c.transfers, barrier: c.barrier,
		values: c.values, store: c.store, stream: c.stream, table: c.table,
		antiEntropy: c.antiEntropy, retention: c.retention, pruneAt: clock.Never}
	c.sessions = &sessions{env: c.env, members: c.members, fences: c.fences, transfers: c.transfers, barrier: c.barrier,
		values: c.values, store: c.store, stream: c.stream, antiEntropy: c.antiEntropy}
	c.sessions.onSynced = func(now clock.Instant, s *session) {
		c.noteSynced(now, c.members.byID[s.peer], s.epoch, s.caughtUp, s.sweep, s.vector)
	}
}

// Step handles one event. Between calls now must not go back.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.out, c.stream.shared, c.now = out, nil, now
	c.steps++
	if c.retention.sweptAt == 0 {
		c.retention.sweptAt = now
	}
	switch ev := ev.(type) {
	case Tick:
	case Update:
		c.writes.onUpdate(now, ev)
	case Read:
		c.reads.onRead(now, ev)
	case Cancel:
		c.table.removeRequest(c.table.open[ev.ID])
	case Received:
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
			c.stream.flushPeer(now, p)
		}
	}
	for _, p := range c.members.peers {
		if !now.Before(p.resendAt) {
			c.stream.resendEntries(now, p)
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
	d := clock.Min(c.stream.batchAt, clock.Min(c.antiEntropy.gossipAt, c.pruner.pruneAt))
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
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
			c.stream.onDeltas(p, m)
		}
	case *Ack:
		c.writes.onAck(now, p, m)
	case *ReadRequest:
		c.reads.onReadRequest(p, m)
	case *ReadResult:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
			c.reads.onReadResult(now, p, m)
		}
	case *ReadParts:
		c.reads.onReadParts(p, m)
	case *PartsResult:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
			c.reads.onPartsResult(now, p, m)
		}
	case *StampQuery:
		c.writes.onStampQuery(p, m)
	case *StampAnswer:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
			c.writes.onStampAnswer(now, p, m)
		}
	case *Repair:
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
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
		if c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
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

func (c *Core) onView(now clock.Instant, v *gossip.View) {
	if v == nil || c.members.view != nil && v.Epoch <= c.members.epoch {
		return
	}
	old, oldVoters := c.members.view, c.members.voters
	c.members.view, c.members.epoch = v, v.Epoch
	c.members.voters = nil
	for _, m := range v.WithRole(c.cfg.Role) {
		c.members.voters = append(c.members.voters, m.ID)
	}
	c.members.keepFormer(old, oldVoters)
	c.members.enlist(v, c.stream.log.last())
	c.members.noteLost()
	c.sessions.dropGoneSources(now)
	c.pruner.pruneRound, c.pruner.idleRounds = pruning{}, 0
	c.store.suspectAll()
	if len(c.members.peers) == 0 {
		c.members.former, c.members.behind = nil, false
	}
	c.retention.endFreshAlone()
	c.catchUp(now)
	c.requests.recountAll(now)
	for _, r := range c.reads.held.takeReads() {
		c.onReceived(now, r.From, r.Msg)
	}
	for _, p := range c.members.peers {
		c.antiEntropy.sendStatus(p, true)
	}
	c.antiEntropy.gossipAt = now.Add(c.antiEntropy.roundWait())
}

// catchUp re-evaluates whether this replica has caught up with the view and
// whether the view is settled.
func (c *Core) catchUp(now clock.Instant) {
	if c.members.view == nil {
		return
	}
	if c.members.caughtUp < c.members.epoch && c.members.hasCaughtUp() {
		c.members.caughtUp, c.members.behind = c.members.epoch, false
		for _, p := range c.members.peers {
			c.antiEntropy.sendStatus(p, false)
		}
	}
	if len(c.members.former) == 0 || !c.members.isSettled() {
		return
	}
	c.members.former = nil
	c.traceEvent(TraceEvent{Kind: TraceSettled})
	c.requests.askAgain(now)
	c.requests.recountAll(now)
}

func (c *Core) onStatus(now clock.Instant, p *peer, m *Status) {
	c.fences.raiseAll(p.id, m.Epoch, m.Fences)
	c.writes.receiveClock(p, m.Wall)
	p.caughtUp = max(p.caughtUp, m.CaughtUp)
	c.members.inheritLost(m.Lost)
	p.keys, p.dots = m.Keys, max(p.dots, m.Dots)
	if i := slices.IndexFunc(m.Vector, func(s Seen) bool { return s.Node == c.cfg.Self }); i >= 0 {
		c.stream.noteProgress(now, p, m.Vector[i].Seen, 0, 0)
	}
	c.retention.onStanding(p, m)
	if c.barrier.fresh {
		if m.Reply {
			c.antiEntropy.sendStatus(p, false)
		}
		return
	}
	if !c.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
		// Don't compare roots: they differ because of that.
		if m.Reply {
			c.antiEntropy.sendStatus(p, false)
		}
		return
	}
	if m.Root == c.store.root {
		p.differed = 0
		clear(c.antiEntropy.lags)
		c.noteSynced(now, p, min(m.Epoch, c.members.epoch), m.CaughtUp, m.Sweep, m.Vector)
	} else {
		p.differed++
		if c.sessions.current.peer == 0 && c.antiEntropy.mustPull(now, m, p) {
			if p.id == c.sessions.avoidPeer {
				c.sessions.avoidPeer = 0 // skip it once: the Status of another peer may arrive first
			} else {
				c.sessions.startSession(now, p)
			}
		}
		c.catchUp(now)
	}
	if m.Reply {
		c.antiEntropy.sendStatus(p, false)
	}
}

// noteSynced notes that this replica holds the whole state that a peer held when it sent
// vector, at a sweep.
func (c *Core) noteSynced(now clock.Instant, p *peer, epoch, caughtUp gossip.Epoch, sweep uint64, vector []Seen) {
	p.swept = max(p.swept, sweep)
	for _, s := range vector {
		if s.Node == c.cfg.Self {
			continue
		}
		t := c.stream.tracks[s.Node]
		if t == nil {
			if !c.members.isPresent(s.Node) && c.members.allCaughtUp() {
				continue
			}
			t = &track{}
			c.stream.tracks[s.Node] = t
		}
		t.reach(s.Seen)
	}
	p.synced, p.joined = max(p.synced, epoch), max(p.joined, min(epoch, caughtUp))
	c.catchUp(now)
	if c.members.allCaughtUp() {
		for id := range c.stream.tracks { // order-free: deletes only
			if !c.members.isPresent(id) {
				delete(c.stream.tracks, id)
			}
		}
	}
}

func (c *Core) onPeerLost(now clock.Instant, id gossip.NodeID) {
	p := c.members.byID[id]
	if p == nil || p.down {
		return
	}
	p.down = true
	c.sessions.sourceLost(now, id)
	ids := make([]RequestID, 0, len(c.table.open))
	for rid, r := range c.table.open {
		if _, answered := r.answers[id]; !answered {
			ids = append(ids, rid)
		}
	}
	slices.Sort(ids)
	for _, rid := range ids {
		if r := c.table.open[rid]; r != nil && !r.spread {
			c.requests.askAll(now, r)
		}
	}
}

func (c *Core) onPeerUp(now clock.Instant, id gossip.NodeID) {
	p := c.members.byID[id]
	if p == nil {
		return
	}
	p.down, p.backoff = false, 0
	// Frames in flight on the former connection may be lost.
	c.stream.rewindPeer(p)
	c.stream.pushEntries(now, p)
}

// onDiskMended ends the writes that waited for this node's copy alone.
func (c *Core) onDiskMended(now clock.Instant) {
	c.disk.mended = false
	for _, r := range slices.Clone(c.table.writes) {
		c.requests.advanceRequest(now, r)
	}
}
