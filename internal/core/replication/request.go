package replication

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// phase is where a request stands.
type phase uint8

const (
	// writing waits for replicas to apply an entry.
	writing phase = iota
	// reading waits for replicas to send their state.
	reading
	// repairing waits for replicas that were found stale to catch up.
	repairing
	// stamping waits for replicas to send the stamps that a write must exceed.
	stamping
)

// request is an Update or Read that waits for other replicas.
//
// Invariant: only answers that were given in this core's view or an earlier one
// count (members.go).
type request struct {
	id       RequestID
	level    replicator.Level
	fence    replicator.Fence
	phase    phase
	done     bool
	deadline clock.Instant
	// excused is set once the deadline has been extended.
	excused bool
	// spreadAt is when it turns to members beyond those it needs; spread is set once it
	// has.
	spreadAt clock.Instant
	spread   bool
	resendAt clock.Instant
	backoff  int
	// leaseAt is when one that waits for the lease alone looks again, 0 while it does
	// not (request.go).
	leaseAt clock.Instant
	// answers holds the nodes that have answered in this phase, with the epochs of their
	// views.
	answers map[gossip.NodeID]gossip.Epoch

	// Of an Update: its ops, the stamps that were asked for, the newest that were
	// answered, and how often its plans have changed the question (stamping.go).
	update bool
	// disk is set if it changes or reads durable keys.
	disk    bool
	ops     []plannedOp
	asks    []stampAsk
	newest  []Newest
	replans int
	// Its entry, and the keys on which it had no effect. Those may stand here alone, so
	// they are read back at the level once the entry is done.
	seq    uint64
	entry  *Entry
	echoes []string
	// fixed are its writes under stamps of the caller's, by key; ahead is the newest
	// refusal of a stamp that is ahead, refused are the nodes that sent one
	// (stamping.go).
	fixed   map[string][]operation.Fixed
	ahead   *replicator.Error
	refused map[gossip.NodeID]bool

	// Of a read: its keys, the nodes that were asked, the fingerprints that they hold,
	// and the values to return.
	keys  []string
	asked []gossip.NodeID
	// round counts how often it began to ask anew: answers to an earlier round do not
	// count.
	round  uint64
	held   map[gossip.NodeID][]uint64
	prints []uint64
	values []crdt.Value
	// repairs are the values sent to stale replicas, but for large ones.
	repairs []Item
	// exchanges and withheld are about large values (readparts.go).
	exchanges []*exchange
	withheld  map[gossip.NodeID]*withheld
}

func (r *request) isRead() bool { return !r.update }

// table holds the open requests and their timers. It admits, counts and ends requests;
// reads and writes stand over it.
type table struct {
	*env
	members *members
	fences  *fences
	barrier *barrier
	disk    *disk

	open map[RequestID]*request
	// writes are the requests that wait for entries, in the order of their numbers. Ended
	// ones are removed when they outnumber the rest.
	writes     []*request
	writesDone int
	timers     timers
	// proceed moves a request on after an answer.
	proceed func(now clock.Instant, r *request)
}

// counts returns whether a node's answer counts now.
func (tb *table) counts(r *request) func(gossip.NodeID) bool {
	return func(id gossip.NodeID) bool {
		if id == tb.cfg.Self {
			return tb.disk.failure == nil || r.entry == nil || tb.disk.storableAll(r.entry.Items)
		}
		epoch, ok := r.answers[id]
		return ok && epoch <= tb.members.epoch
	}
}

// admitRequest refuses a request that cannot be carried out. It precedes the checks of the ops
// (writes.planOps): a replica without room returns that error, also for a faulty request.
func (tb *table) admitRequest(level replicator.Level, f replicator.Fence, keys int) error {
	l := &tb.cfg.Limits
	if !level.Alone() {
		if n := len(tb.members.voters); n == 0 || level.Need(n) > n {
			return &replicator.Error{Code: replicator.ErrTooFewMembers, Level: level, Need: level.Need(n), Got: n}
		}
	}
	switch {
	case keys > l.RequestOps:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "RequestOps", Max: l.RequestOps, Got: keys}
	case len(tb.open) >= l.Pending:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "Pending", Max: l.Pending, Got: len(tb.open)}
	case tb.barrier.fresh && len(tb.barrier.own) >= l.LogEntries:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "LogEntries", Max: l.LogEntries, Got: len(tb.barrier.own)}
	case tb.fences.full(f):
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "FenceGroups", Max: l.FenceGroups, Got: l.FenceGroups}
	case tb.fences.far(f.Term, tb.members.epoch, tb.members.epoch):
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "FenceTerm", Max: int(tb.members.epoch.Generation()) + gossip.GenerationsAhead, Got: int(gossip.Epoch(f.Term).Generation())}
	case len(f.Group) > groupBytesMax:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "fence group bytes", Max: groupBytesMax, Got: len(f.Group)}
	}
	if higher, ok := tb.fences.checkTerm(tb.cfg.Self, tb.members.epoch, f); !ok {
		return &replicator.Error{Code: replicator.ErrFenced, Fence: f, Higher: higher}
	}
	return nil
}

// addRequest registers a request. Its first phase sets when it turns to all members.
func (tb *table) addRequest(now clock.Instant, r *request, deadline clock.Instant) {
	if deadline == 0 {
		deadline = now.Add(tb.cfg.Timeout)
	}
	r.deadline = deadline
	r.resendAt = now.Add(tb.cfg.ResendAfter)
	r.answers = map[gossip.NodeID]gossip.Epoch{}
	tb.open[r.id] = r
	tb.timers.pushTimer(deadline, r.id)
	tb.timers.pushTimer(r.resendAt, r.id)
}

// startPhase begins a phase in which other members are asked.
func (tb *table) startPhase(now clock.Instant, r *request) {
	clear(r.answers)
	r.spread = false
	r.spreadAt = now.Add(min(tb.cfg.SpreadMax, r.deadline.Sub(now)/5))
	tb.timers.pushTimer(r.spreadAt, r.id)
}

// finishRequest answers a request.
func (tb *table) finishRequest(r *request, err error) {
	tb.removeRequest(r)
	values := r.values
	if err != nil || !r.isRead() {
		values = nil
	}
	tb.onDisk = r.disk
	tb.sendReply(r.id, values, err)
	tb.onDisk = false
}

func (tb *table) sendReply(id RequestID, values []crdt.Value, err error) {
	switch {
	case errors.Is(err, replicator.ErrLimit):
		tb.stats.LimitErrors++
	case errors.Is(err, replicator.ErrOutcomeUnknown):
		tb.stats.QuorumErrors++
		if errors.Is(err, replicator.ErrNoLease) {
			tb.stats.LeaseErrors++
		}
	}
	tb.out.Reply = append(tb.out.Reply, Reply{ID: id, Err: err, Values: values, Disk: tb.onDisk && err == nil})
}

// removeRequest ends a request without an answer.
func (tb *table) removeRequest(r *request) {
	if r == nil {
		return
	}
	r.done = true
	delete(tb.open, r.id)
	releaseAll(r.ops)
	if r.entry == nil {
		return
	}
	if tb.writesDone++; tb.writesDone > 32 && tb.writesDone*2 > len(tb.writes) {
		tb.writes = slices.DeleteFunc(tb.writes, func(r *request) bool { return r.done })
		tb.writesDone = 0
	}
}

// Leases
//
// A removed node continues in its last view until it learns of its removal. Several
// removed nodes can be a majority of that view: all members of a role that was cut off as
// a whole, three of four when exactly half continued with the most senior, or the members
// that an emergency takeover left out. So a request at a level other than Local succeeds
// only while its asker holds a valid lease: one look at a clock at the end, and no round
// trip. Until then it waits, whichever replicas have answered.
//
// The asker's lease is enough, and replicas need none when they answer, since no node
// outside the newest view holds a valid lease. So when a request is counted over the view
// e, its asker a is in e and in every view from there to the newest one, n, and its
// answers came from a majority Q of e, itself included, in e or earlier. Every request
// that ends in n meets Q:
//
//   - before n is settled, it needs a majority of the voters of e, or all that are left.
//     A majority meets Q; if fewer are left, then a is one of them.
//   - n is settled by replicas that took over the state of as many members of e, in
//     exchanges in which both sides were in n. One member of Q is among those. It was in
//     n then, and had answered a in e before.
//
// So every request that ends later sees a write that has ended, and a read sees all
// writes that ended before it began. For removed nodes neither holds; they have no lease.
//
// To(n) and All need the lease too. To(n) guarantees nothing across requests, but
// promises that a value stands at n members, and values at removed nodes are lost when
// those join again. To(1) is Local.
//
// Rejected: to refuse such requests immediately. A lease lapses for a moment when a
// leader dies, and is back before most deadlines. Rejected: leases of the answering
// replicas, since they prove nothing that the asker's does not.

// hasLease reports whether requests may succeed now. A lease can arrive before the view
// that makes this node a voter. A request counted over the former view would then rest on
// a majority without it, an empty one where the other members of the role have left.
func (tb *table) hasLease() bool {
	return tb.cfg.LeaseValid == nil || tb.isVoter() && tb.cfg.LeaseValid()
}

// isVoter reports whether this node is a voter of the role in its view. Before it is, no answers
// are read off: the proof above needs a majority with the asker in it. A node that was joining read
// off the values of a voter in a view that had passed, without knowing, and returned them once it
// was a voter (seed 2501782 of internal/sim: S4).
func (tb *table) isVoter() bool {
	return tb.cfg.LeaseValid == nil || slices.Contains(tb.members.voters, tb.cfg.Self)
}

// completeRequest ends a request whose level is fulfilled, or has it wait for the lease.
func (tb *table) completeRequest(now clock.Instant, r *request) {
	if tb.hasLease() {
		if assert.Enabled {
			tb.assertFulfilled(r)
		}
		tb.finishRequest(r, nil)
		return
	}
	if r.leaseAt == 0 {
		// The shell reports when the lease is back, but not after a gap so short that
		// only this request has met it.
		r.leaseAt = now.Add(tb.cfg.ResendAfter)
		tb.timers.pushTimer(r.leaseAt, r.id)
	}
}

// retryLease tries again to end a request that waited for the lease alone.
func (tb *table) retryLease(now clock.Instant, r *request) {
	if r.leaseAt == 0 || now.Before(min(r.leaseAt, r.deadline)) {
		return
	}
	r.leaseAt = 0
	tb.proceed(now, r)
}

// onLease ends the requests that waited for the lease alone. All remaining ones have gone as far as
// their answers allow.
func (tb *table) onLease(now clock.Instant) {
	for _, id := range slices.Sorted(maps.Keys(tb.open)) {
		tb.proceed(now, tb.open[id])
	}
}

// giveUp ends a request at its deadline.
func (tb *table) giveUp(r *request) {
	err := shortfall(r.level, tb.members.quorumsFor(r.level), tb.counts(r))
	if !tb.hasLease() {
		err.Code = replicator.ErrNoLease
	}
	err.Unchanged = r.phase == stamping
	switch {
	case r.ahead != nil && err.Code != replicator.ErrNoLease:
		tb.finishRequest(r, r.ahead)
		return
	case !tb.counts(r)(tb.cfg.Self):
		tb.finishRequest(r, fmt.Errorf("%w; %w: this node has it in memory alone: %w", err, replicator.ErrDurable, tb.disk.failure))
		return
	}
	tb.finishRequest(r, err)
}

// requests drives each request through its phases, by answers, time and views.
type requests struct {
	*env
	members *members
	table   *table
	reads   *reads
	writes  *writes
}

// onRequestTime does what is due for a request.
func (rq *requests) onRequestTime(now clock.Instant, r *request) {
	if rq.table.retryLease(now, r); r.done {
		return
	}
	if !now.Before(r.deadline) {
		if rq.extendDeadline(now, r) {
			return
		}
		rq.table.giveUp(r)
		return
	}
	if !r.spread && !now.Before(r.spreadAt) {
		rq.askAll(now, r)
	}
	if !now.Before(r.resendAt) {
		r.backoff = min(r.backoff+1, backoffMax)
		r.resendAt = now.Add(rq.wait(r.backoff))
		rq.table.timers.pushTimer(r.resendAt, r.id)
		rq.retransmit(now, r)
	}
}

// extendDeadline gives a request more time, once, when its deadline has passed while this
// process did not run (it was stopped, or starved of CPU): its answers may be here
// already and only wait to be read.
func (rq *requests) extendDeadline(now clock.Instant, r *request) bool {
	if r.excused || now.Sub(r.deadline) <= rq.cfg.ResendAfter {
		return false
	}
	r.excused = true
	r.deadline = now.Add(rq.wait(excuseBackoff))
	rq.table.timers.pushTimer(r.deadline, r.id)
	if r.spread {
		rq.retransmit(now, r)
	} else {
		rq.askAll(now, r)
	}
	return true
}

// excuseBackoff makes the extension four times ResendAfter.
const excuseBackoff = 2

// askAll turns to every member that counts.
func (rq *requests) askAll(now clock.Instant, r *request) {
	r.spread = true
	if r.phase == writing {
		rq.writes.offerEntry(now, r, true)
		return
	}
	rq.reads.askMembers(r, rq.table.missingAnswers(r))
}

// retransmit retransmits the unanswered messages of a request.
func (rq *requests) retransmit(now clock.Instant, r *request) {
	switch r.phase {
	case writing:
		rq.writes.offerEntry(now, r, r.spread)
	case reading, stamping:
		again := slices.DeleteFunc(rq.table.missingAnswers(r), func(id gossip.NodeID) bool { return !slices.Contains(r.asked, id) })
		rq.reads.askMembers(r, again)
	case repairing:
		for _, id := range rq.table.missingAnswers(r) {
			if r.held[id] != nil {
				rq.reads.sendRepair(r, rq.members.byID[id])
			}
		}
	}
}

// missingAnswers returns the members of the request's quorums that have not
// answered in this phase.
func (tb *table) missingAnswers(r *request) []gossip.NodeID {
	var out []gossip.NodeID
	for _, q := range tb.members.quorumsFor(r.level) {
		for _, id := range q.members {
			if _, ok := r.answers[id]; !ok && id != tb.cfg.Self && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// advanceRequest moves a request on if enough have answered.
func (rq *requests) advanceRequest(now clock.Instant, r *request) {
	if r.done || !allMet(rq.members.quorumsFor(r.level), rq.table.counts(r)) {
		return
	}
	if (r.phase == reading || r.phase == stamping) && !rq.table.isVoter() {
		return
	}
	switch {
	case r.phase == writing && len(r.echoes) == 0, r.phase == repairing:
		rq.table.completeRequest(now, r)
	case r.phase == writing:
		r.keys = r.echoes
		rq.reads.startReading(now, r)
	case r.phase == stamping:
		rq.writes.writeAbove(now, r)
	default:
		rq.reads.startRepairing(now, r)
	}
}

// recountAll re-evaluates every request after a change of the view, and turns to
// the members that count now.
func (rq *requests) recountAll(now clock.Instant) {
	ids := make([]RequestID, 0, len(rq.table.open))
	for id := range rq.table.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if r := rq.table.open[id]; r != nil {
			rq.advanceRequest(now, r)
		}
		if r := rq.table.open[id]; r != nil {
			rq.askMissing(now, r)
		}
	}
}

// askMissing turns to as many members as the request still needs.
func (rq *requests) askMissing(now clock.Instant, r *request) {
	if r.phase == writing {
		rq.writes.offerEntry(now, r, r.spread)
		return
	}
	asked := func(id gossip.NodeID) bool {
		return slices.Contains(r.asked, id) && rq.members.isLinked(id) || rq.table.counts(r)(id)
	}
	rq.reads.askMembers(r, targets(rq.members.quorumsFor(r.level), asked, rq.members.isLinked))
}

// askAgain discards the answers to majority reads and to stamp queries, and asks anew.
// Kept sets were dropped since enough voters have caught up. But a voter may have
// answered before it had, and such an answer counted only together with those of the kept
// sets. A read was once answered by two of three voters which had both not caught up when
// they answered, and missed a write that stood at the third (internal/sim, seed 4443 of
// its time: S4).
func (rq *requests) askAgain(now clock.Instant) {
	for _, id := range slices.Sorted(maps.Keys(rq.table.open)) {
		r := rq.table.open[id]
		if (r.phase == reading || r.phase == stamping) && r.level.Joint() {
			rq.askAnew(now, r)
		}
	}
}

// askAfterRemoval asks anew for all open reads and stamps: answers so far are relative to
// the keys that were set aside.
func (rq *requests) askAfterRemoval(now clock.Instant) {
	for _, id := range slices.Sorted(maps.Keys(rq.table.open)) {
		if r := rq.table.open[id]; r.phase == reading || r.phase == stamping {
			rq.askAnew(now, r)
		}
	}
}

func (rq *requests) askAnew(now clock.Instant, r *request) {
	r.round++
	r.asked = nil
	if r.phase == stamping {
		rq.writes.startStamping(now, r, r.asks)
		return
	}
	rq.reads.startReading(now, r)
}

const backoffMax = 4

// timer is a time at which a request must be handled. Timers of ended requests do
// nothing.
type timer struct {
	at clock.Instant
	id RequestID
}

// timers is a heap, the earliest first; ties go by id.
type timers []timer

func (t timers) dueBefore(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].id < t[j].id
}

func (t *timers) pushTimer(at clock.Instant, id RequestID) {
	*t = append(*t, timer{at, id})
	s := *t
	for i := len(s) - 1; i > 0 && s.dueBefore(i, (i-1)/2); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
}

func (t *timers) pop() timer {
	s := *t
	top, n := s[0], len(s)-1
	s[0] = s[n]
	s = s[:n]
	for i := 0; 2*i+1 < n; {
		least := 2*i + 1
		if least+1 < n && s.dueBefore(least+1, least) {
			least++
		}
		if !s.dueBefore(least, i) {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*t = s
	return top
}

func (tb *table) findWrite(seq uint64) int {
	return sort.Search(len(tb.writes), func(i int) bool { return tb.writes[i].seq >= seq })
}

// assertFulfilled asserts that the answers meet the quorums of the request's level, and that
// this node has its lease.
func (tb *table) assertFulfilled(r *request) {
	if !allMet(tb.members.quorumsFor(r.level), tb.counts(r)) {
		assert.Broken("S4", "request %d ends at %v with the answers %v", r.id, r.level, r.answers)
	}
	if tb.cfg.LeaseValid != nil && !tb.cfg.LeaseValid() {
		assert.Broken("G7", "request %d ends at %v without a lease", r.id, r.level)
	}
}
