package replication

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// writes carries out updates over the table: it plans them, asks for the stamps that they
// must exceed, and offers their entries to members.
type writes struct {
	*env
	members   *members
	clocks    *clocks
	fences    *fences
	transfers *transfers
	barrier   *barrier
	disk      *disk
	values    *values
	store     *store
	stream    *stream
	table     *table
	reads     *reads
}

func (ws *writes) onUpdate(now clock.Instant, u Update) {
	ws.stats.Updates++
	ops := u.plannedOps()
	if err := ws.table.admitRequest(u.Level, u.Fence, len(ops)); err != nil {
		releaseAll(ops)
		ws.table.sendReply(u.ID, nil, err)
		return
	}
	plans, err := ws.planOps(ops)
	if err == nil {
		err = ws.disk.checkUnmixed(ops)
	}
	if err != nil {
		releaseAll(ops)
		ws.table.sendReply(u.ID, nil, err)
		return
	}
	r := &request{id: u.ID, level: u.Level, fence: u.Fence, update: true, ops: ops,
		disk: ws.disk.keptAmong(len(ops), func(i int) string { return ops[i].Key })}
	if !u.Level.Alone() && len(ops) > 0 {
		ws.table.addRequest(now, r, u.Deadline)
		if asks := asksOf(ops, plans); len(asks) > 0 {
			ws.startStamping(now, r, asks)
			return
		}
	}
	ws.startWrite(now, r, plans)
}

// startWrite carries the plans out here and, above level Local, at other members.
func (ws *writes) startWrite(now clock.Instant, r *request, plans []operation.Plan) {
	newest := make([]Newest, len(r.ops))
	for i := range r.ops {
		var err error
		if newest[i], err = ws.aboveAll(r, i, &plans[i]); err != nil {
			ws.table.finishRequest(r, err)
			return
		}
	}
	for i := range r.ops {
		if f := plans[i].Fixed; len(f) > 0 {
			if r.fixed == nil {
				r.fixed = map[string][]operation.Fixed{}
			}
			r.fixed[r.ops[i].Key] = append(r.fixed[r.ops[i].Key], f...)
		}
		if op := &r.ops[i]; op.base != nil && (plans[i].Blind || op.base.unchanged(ws.store.itemOf(op.Key))) {
			op.base.Release() // applied to the value itself
		}
	}
	entry, echoes := ws.applyPlans(r.ops, plans, newest)
	releaseAll(r.ops)
	entry.Fence = r.fence
	r.echoes = echoes
	if len(entry.Items) > 0 {
		r.entry = entry
		r.seq = ws.stream.appendEntry(now, entry)
	}
	if r.level.Alone() || len(r.ops) == 0 {
		ws.onDisk = r.disk
		ws.table.sendReply(r.id, nil, nil)
		ws.onDisk = false
		return
	}
	r.ops, r.asks, r.newest = nil, nil, nil
	if r.entry == nil {
		r.keys = echoes
		ws.reads.startReading(now, r)
		return
	}
	r.phase = writing
	ws.table.startPhase(now, r)
	ws.table.writes = append(ws.table.writes, r)
	ws.offerEntry(now, r, false)
	ws.table.proceed(now, r)
}

// planOps decides all ops before the first is applied.
func (ws *writes) planOps(ops []plannedOp) ([]operation.Plan, error) {
	l := &ws.cfg.Limits
	plans := make([]operation.Plan, len(ops))
	fresh, growth := 0, 0
	var kinds newKinds
	for i := range ops {
		op := &ops[i]
		if len(op.Key) > l.KeyBytes {
			return nil, &replicator.Error{Code: replicator.ErrLimit, Limit: "KeyBytes", Max: l.KeyBytes, Got: len(op.Key)}
		}
		if err := ws.disk.checkStorable(op.Key); err != nil {
			return nil, err
		}
		it := ws.store.itemOf(op.Key)
		if op.Delete {
			continue
		}
		p, size, err := decide(op, it)
		if err == nil && len(ops) > 1 && (it == nil || it.value == nil) {
			err = kinds.noteKind(op)
		}
		if err == nil {
			err = checkPlan(ops[:i], op, &p, it)
		}
		if err == nil {
			err = ws.checkFixed(op, &p, it)
		}
		if err == nil && it != nil && ws.values.dots >= ownDotsMax {
			err = checkOwnDots(ws.cfg.Self, it.value)
		}
		if err != nil {
			return nil, err
		}
		plans[i] = p
		if it == nil {
			fresh++
		}
		if growth += p.Growth; p.Growth > 0 && size+p.Growth > l.ValueBytes {
			return nil, &replicator.Error{Code: replicator.ErrLimit, Limit: "ValueBytes", Max: l.ValueBytes, Got: size + p.Growth}
		}
	}
	switch {
	case fresh > 0 && ws.store.keys+fresh > l.Keys:
		return nil, &replicator.Error{Code: replicator.ErrLimit, Limit: "Keys", Max: l.Keys, Got: ws.store.keys + fresh}
	case growth > l.RequestBytes:
		return nil, &replicator.Error{Code: replicator.ErrLimit, Limit: "RequestBytes", Max: l.RequestBytes, Got: growth}
	case growth > 0 && ws.store.bytes+growth > l.TotalBytes:
		return nil, &replicator.Error{Code: replicator.ErrLimit, Limit: "TotalBytes", Max: l.TotalBytes, Got: ws.store.bytes + growth}
	}
	return plans, nil
}

// newKinds has the kinds that the ops of a request give to keys without a value.
type newKinds map[string]crdt.Kind

// noteKind fails if an op before this one gives the key another kind: it would be applied first.
func (k *newKinds) noteKind(op *plannedOp) error {
	if have, met := (*k)[op.Key]; met && have != op.Kind {
		return &replicator.Error{Code: replicator.ErrKind, Key: op.Key, HaveKind: have, WantKind: op.Kind}
	}
	if *k == nil {
		*k = newKinds{}
	}
	(*k)[op.Key] = op.Kind
	return nil
}

// decide plans one op on it, which may be nil, and returns the value's size.
func decide(op *plannedOp, it *item) (p operation.Plan, size int, err error) {
	var current crdt.Value
	if it != nil && it.value != nil {
		current, size = it.value, it.bytes
	}
	p, err = planOn(&op.Op, current)
	return p, size, err
}

// applyPlans carries the plans out here and returns their entry, and the keys that did not
// change.
func (ws *writes) applyPlans(ops []plannedOp, plans []operation.Plan, newest []Newest) (entry *Entry, echoes []string) {
	entry = &Entry{}
	for i := range ops {
		op := &ops[i]
		it := ws.store.itemOf(op.Key)
		delta := ws.applyOne(op, plans[i], it, newest[i])
		switch {
		case delta != nil:
			entry.Items = append(entry.Items, *delta)
		case !slices.Contains(echoes, op.Key):
			echoes = append(echoes, op.Key)
		}
	}
	return entry, echoes
}

func (ws *writes) applyOne(op *plannedOp, p operation.Plan, it *item, above Newest) *Item {
	if op.Delete {
		if it == nil || it.value == nil && it.gen <= above.Gen {
			if !above.Live {
				return nil
			}
			it = ws.store.obtain(op.Key)
		}
		if it.value == nil && it.gen > above.Gen {
			return nil // by an op before this one
		}
		ws.store.absorb(it, deletedFrom(max(it.gen, above.Gen)), 0, nil)
		it.written = it.version
		ws.values.reportChange(it)
		return &Item{Key: it.key, Gen: it.gen}
	}
	if p.Apply == nil && p.Stamped == nil {
		return nil
	}
	var v crdt.Value
	era, raised := above.Era, false
	if it != nil && it.value != nil {
		raised = it.raiseEra(era)
		it.copyIfPinned()
		v, era = it.value, it.era
	} else {
		// The kind has been tried by decide.
		v, _ = crdt.New(op.Kind)
	}
	d := ws.applyTo(v, era, op, &p, above)
	if d == nil {
		if raised {
			ws.noteLifted(it)
		}
		return nil
	}
	if p.Stamped != nil || len(p.Fixed) > 0 {
		ws.clocks.unjudged = ws.clocks.unjudged || !ws.clocks.peersReported && ws.cfg.Wall != nil
	}
	fresh := it == nil
	it = ws.store.obtain(op.Key)
	if fresh && ws.kept(op.Key) {
		it.gen = createdAbove(ws.barrier.minGeneration)
	}
	if isOpen(above.Gen) && it.gen < above.Gen {
		it.gen = above.Gen // the value of another replica, which joins this one
	}
	it.value, it.era = v, era
	ws.values.noteOwnDots(d)
	ws.store.updateSums(it)
	it.written = it.version
	ws.values.reportChange(it)
	return &Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: op.Kind, Bytes: d.Append(make([]byte, 0, d.Size()))}
}

// noteLifted notes that an op has begun an era of a key and changed nothing else. Its value is no
// change of this replica's: a fresh one may have it from a file that is then set aside. Members
// learn of the era when they compare.
func (ws *writes) noteLifted(it *item) {
	ws.store.updateSums(it)
	ws.values.reportChange(it)
}

// isNil reports whether d is nil, or a nil of a concrete type, which an Apply easily
// returns.
func isNil(d crdt.Value) bool { return d == nil || reflect.ValueOf(d).IsZero() }

// offerEntry sends a request's entry to the members that it still needs, or to all that can
// count. A muted replica sends none: receiveClock offers all entries later.
func (ws *writes) offerEntry(now clock.Instant, r *request, all bool) {
	if ws.clocks.isMuted() {
		return
	}
	var to []gossip.NodeID
	if all {
		to = ws.table.missingAnswers(r)
	} else {
		to = targets(ws.members.quorumsFor(r.level), ws.table.counts(r), ws.members.isLinked)
	}
	for _, id := range to {
		p := ws.members.byID[id]
		switch {
		case p == nil:
		case r.seq > p.acked && r.seq >= p.next:
			ws.stream.pushEntries(now, p)
			if r.seq >= p.next {
				// The stream to it is full: this entry goes past.
				ws.transfers.sendMessage(p, &Deltas{Epoch: ws.members.epoch, Floor: ws.barrier.floor, Sweep: ws.barrier.sweep, From: r.seq, Entries: []*Entry{r.entry}})
			}
		case r.seq <= p.acked:
			// It may have the entry, but its answer was lost, or it joined after the
			// entry was logged.
			ws.transfers.sendMessage(p, &Deltas{Epoch: ws.members.epoch, Floor: ws.barrier.floor, Sweep: ws.barrier.sweep, From: r.seq, Entries: []*Entry{r.entry}})
		}
	}
}

// Snapshots
//
// The function of an update runs outside the core, on a snapshot of each of its keys. The
// shell passes the plans to the core together with the snapshots, and the core compares:
//
//	nothing has changed       the plan is applied
//	only merges have come     the plan is applied to the snapshot and the delta joined:
//	                          the same as if the merges had come a moment later
//	changed here, or deleted  ErrContended: the shell runs the function anew
//
// A plan that does not depend on the value (Plan.Blind) is always applied.
//
// A snapshot is the very value that the core holds, and costs nothing. The core makes a
// copy before it changes a value that is still held by a snapshot.

// Snapshot is the state of one key, for readers outside the core. Value is nil if the key
// does not exist; it must not be changed, and is safe for concurrent readers until the
// snapshot is released.
type Snapshot struct {
	Key   string
	Value crdt.Value

	era              uint8
	version, written uint64
	pins             *pins
	released         bool
}

// pins counts the snapshots that hold a value.
type pins struct{ n int }

// Release ends a snapshot. Idempotent.
func (s *Snapshot) Release() {
	if s != nil && !s.released && s.pins != nil {
		s.pins.n--
	}
	if s != nil {
		s.released = true
	}
}

// plannedOp is an op with the snapshot on which its plan was decided, nil if the plan decides
// within the step.
type plannedOp struct {
	operation.Op
	base *Snapshot
}

// plannedOps pairs the ops of an update with their snapshots.
func (u *Update) plannedOps() []plannedOp {
	out := make([]plannedOp, len(u.Ops))
	for i := range u.Ops {
		out[i].Op = u.Ops[i]
		if i < len(u.Bases) {
			out[i].base = u.Bases[i]
		}
	}
	return out
}

func releaseAll(ops []plannedOp) {
	for i := range ops {
		ops[i].base.Release()
	}
}

// copyIfPinned ensures that no snapshot holds the value, so that it may be changed.
func (it *item) copyIfPinned() {
	if it.pins != nil && it.pins.n > 0 && it.value != nil {
		it.value = it.value.Clone()
	}
	it.pins = nil
}

// replaceValue gives the item another value.
func (it *item) replaceValue(v crdt.Value) { it.value, it.pins = v, nil }

// unchanged reports whether the key is in the state of the snapshot.
func (s *Snapshot) unchanged(it *item) bool {
	if it == nil {
		return s.version == 0
	}
	return it.version == s.version
}

// onlyMerged reports whether the key has only merged changes of peers since the snapshot.
func (s *Snapshot) onlyMerged(it *item) bool {
	return it != nil && s.Value != nil && it.value != nil && it.written == s.written && it.value.Kind() == s.Value.Kind()
}

// Decide runs the op's plan on a snapshot of its key.
func Decide(op *operation.Op, s *Snapshot) (operation.Plan, error) {
	return planOn(op, s.Value)
}

// planOn runs the op's plan on a value, which may be nil.
func planOn(op *operation.Op, current crdt.Value) (p operation.Plan, err error) {
	if current == nil {
		if current, err = crdt.New(op.Kind); err != nil {
			return p, fmt.Errorf("%w: key %q: %w", replicator.ErrPlan, op.Key, err)
		}
	} else if current.Kind() != op.Kind {
		return p, &replicator.Error{Code: replicator.ErrKind, Key: op.Key, HaveKind: current.Kind(), WantKind: op.Kind}
	}
	if op.Plan == nil {
		return p, nil
	}
	if p, err = op.Plan(current); err != nil {
		return p, fmt.Errorf("%w: key %q: %w", replicator.ErrPlan, op.Key, err)
	}
	return p, nil
}

// checkPlan fails if a plan must be decided anew. An op whose key is among those before it is
// not applied to its snapshot: both would make the same dots.
func checkPlan(before []plannedOp, op *plannedOp, p *operation.Plan, it *item) error {
	b := op.base
	if b == nil || p.Blind || b.unchanged(it) {
		return nil
	}
	twice := slices.ContainsFunc(before, func(o plannedOp) bool { return o.Key == op.Key })
	if twice || !b.onlyMerged(it) {
		return fmt.Errorf("%w: key %q has changed", replicator.ErrContended, op.Key)
	}
	return nil
}

// applyTo carries a plan out on v, a value in an era, or on its base if that is still needed,
// and returns the delta.
func (ws *writes) applyTo(v crdt.Value, era uint8, op *plannedOp, p *operation.Plan, above Newest) crdt.Value {
	target := v
	if b := op.base; b != nil && !b.released && b.Value != nil {
		target = lifted(b.Value.Clone(), b.era, era)
		b.Release()
	}
	var d crdt.Value
	if p.Stamped != nil {
		d = p.Stamped(target, above.Times, ws.clocks.stampWall())
	} else if p.Apply != nil {
		d = p.Apply(target)
	}
	if isNil(d) {
		return nil
	}
	if target != v {
		// Both are of one kind (onlyMerged), so the join cannot fail.
		_, _ = v.Join(d)
	}
	return d
}

func (ws *writes) onAck(now clock.Instant, p *peer, m *Ack) {
	ws.stream.noteProgress(now, p, m.Seen, m.Lo, m.Hi)
	// If the log was cut above Seen, the peer's ranges may omit the entries that it acknowledges.
	ws.stream.noteProgress(now, p, m.Seen, m.From, m.To)
	refused := make(map[uint64][]*Refusal, len(m.Refused))
	for i := range m.Refused {
		r := &m.Refused[i]
		refused[r.Seq] = append(refused[r.Seq], r)
	}
	// Only the entries From..To count for their writers: the acknowledgement lists all
	// refused ones among them, but not among those up to Seen.
	from, to := m.From, m.To
	for i := ws.table.findWrite(from); i < len(ws.table.writes) && ws.table.writes[i].seq <= to; i++ {
		r := ws.table.writes[i]
		if r.done || r.phase != writing {
			continue
		}
		if ws.countsAnswer(p, r, refused[r.seq]) {
			r.answers[p.id] = m.Epoch
			ws.table.proceed(now, r)
		}
	}
}

// countsAnswer reports whether a peer's answer counts for a request, and ends the request
// if the answer refuses its entry with an error.
func (ws *writes) countsAnswer(p *peer, r *request, said []*Refusal) (counts bool) {
	counts = true
	for _, ref := range said {
		switch {
		case r.done:
			return false
		case ref.Why == whyStale:
			if err := r.overtakenError(ref, p.id); err != nil {
				ws.table.finishRequest(r, err)
			}
			continue
		case ref.Why == whyAhead:
			ws.refusedAhead(r, ref, p.id)
		case ref.Higher > 0 && !ws.fences.refuseTerm(p.id, r.fence.Group, ref.Higher, 0):
			ws.fences.raise(replicator.Fence{Group: r.fence.Group, Term: ref.Higher})
			ws.table.finishRequest(r, &replicator.Error{Code: replicator.ErrFenced, Fence: r.fence, Higher: ref.Higher})
		}
		counts = false
	}
	return counts && !r.done
}
