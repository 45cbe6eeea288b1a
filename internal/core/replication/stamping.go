package replication

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// Stamps first
//
// The last write wins only if its stamp is above those of all earlier writes, and clocks
// do not ensure that. So an update above level Local that stamps entries of a
// last-write-wins value, or deletes a key, has a phase before its write:
//
//	stamping:  ask as many members as the level needs for the newest stamps of the
//	           entries and the generations of the keys
//	writing:   one write, above all answers and above the local state of that moment
//
// A write that was acknowledged at a majority before this one began stands at a member
// of every quorum that answers, so this one is above it. Two writes whose times overlap
// are concurrent: both are acknowledged and one of them stands.
//
// Answers count as those of reads do: if given in this core's view or an earlier one. The
// core asks anew when kept sets of former voters are dropped (members.go, requests.askAgain).
//
// Generations are part of the answers, since a higher one replaces a lower one whole: a
// deletion must be above all deletions before it, and a write in a generation that was
// deleted meanwhile would be lost without an error.
//
// Rejected: acknowledgements that carry the newest stamp, and a second write above it if
// the first was too low. The second write undoes writes that have seen the first: w2 at Y
// is too low (Z has a newer w1) but reaches Z's reader by a write-back; w3 reads w2,
// overwrites it at X and Z and is acknowledged; w2 is then stamped anew above w1, and
// wins over w3 (TestWriteIsNotStampedAnew).

// StampQuery asks for the newest stamps of entries, and for the generations of keys.
type StampQuery struct {
	Epoch gossip.Epoch
	ID    RequestID
	// Round tells the times apart at which one request asks (askAgain).
	Round uint64
	Asks  []stampAsk
}

// stampAsk names one key. Entries is empty for a key that must be deleted.
type stampAsk struct {
	Key     string
	Entries []string
}

// StampAnswer answers a StampQuery, in its order.
type StampAnswer struct {
	Epoch gossip.Epoch
	Floor uint64
	Sweep uint64
	ID    RequestID
	Round uint64
	// Wall is the sender's wall clock (clocks.go).
	Wall   uint64
	Newest []Newest
}

// Newest is the state of a key at a replica: its generation, whether it has a value, and
// the newest Time of each entry. An entry that does not exist has the Time of the newest
// deletion of an entry that was forgotten.
type Newest struct {
	Gen   uint64
	Era   uint8 // of Times (clocks.go)
	Live  bool
	Times []uint64
}

func (*StampQuery) isMessage()  {}
func (*StampAnswer) isMessage() {}

// mergeNewest merges the state of a key at another replica.
func (n *Newest) mergeNewest(o Newest) {
	switch {
	case n.Live && o.Live && joinsAcross(n.Gen, o.Gen):
		n.Gen = max(n.Gen, o.Gen)
	case o.Gen < n.Gen:
		return
	case o.Gen > n.Gen:
		n.Gen, n.Era, n.Live = o.Gen, o.Era, o.Live
		clear(n.Times)
	}
	n.Live = n.Live || o.Live
	n.joinEra(o)
}

// newestOf returns the state of a key at this replica.
func (vs *values) newestOf(key string, entries []string) Newest {
	out := Newest{Times: make([]uint64, len(entries))}
	it := vs.store.itemOf(key)
	if it != nil {
		out.Gen, out.Era, out.Live = it.gen, it.era, it.value != nil
	}
	for i, e := range entries {
		out.Times[i] = vs.newestTime(it, e)
	}
	return out
}

func (vs *values) newestTime(it *item, entry string) uint64 {
	if it == nil || it.value == nil {
		return vs.barrier.inherited
	}
	inherited, least := vs.barrier.inherited, uint64(0)
	if it.era > 0 {
		least = eraTimes
		if wall := vs.clocks.judgingWall(); tooFar(inherited, wall) { // of an earlier era
			inherited = (wall + millis(aheadMax/2)) << tickBits
		}
	}
	return max(least, newestIn(it.value, entry, inherited))
}

// newestIn returns the time of an entry of v, and for an entry that v lacks the time of
// the newest deletion that was forgotten.
func newestIn(v crdt.Value, entry string, forgotten uint64) uint64 {
	switch v := v.(type) {
	case *crdt.LWWRegister[string]:
		return v.Stamp().Time
	case *entryMap:
		if s, ok := v.Stamp(entry); ok {
			return s.Time
		}
		return max(v.Forgotten().Time, forgotten)
	}
	return 0
}

// asksOf returns the stamps that must be asked for before ops can be carried out.
func asksOf(ops []plannedOp, plans []operation.Plan) (out []stampAsk) {
	for i := range ops {
		if ops[i].Delete || len(plans[i].Entries) > 0 {
			out = append(out, stampAsk{Key: ops[i].Key, Entries: plans[i].Entries})
		}
	}
	return out
}

// startStamping asks for the stamps that an update must exceed.
func (ws *writes) startStamping(now clock.Instant, r *request, asks []stampAsk) {
	r.phase, r.asks = stamping, asks
	r.newest = make([]Newest, len(asks))
	for i := range asks {
		r.newest[i] = ws.values.newestOf(asks[i].Key, asks[i].Entries)
	}
	ws.table.startPhase(now, r)
	ws.reads.askMembers(r, targets(ws.members.quorumsFor(r.level), ws.table.counts(r), ws.members.isLinked))
	ws.table.proceed(now, r)
}

func (ws *writes) onStampQuery(p *peer, m *StampQuery) {
	out := &StampAnswer{Epoch: ws.members.epoch, Floor: ws.barrier.floor, Sweep: ws.barrier.sweep, ID: m.ID, Round: m.Round, Wall: ws.clocks.ownWall(), Newest: make([]Newest, len(m.Asks))}
	for i, a := range m.Asks {
		out.Newest[i] = ws.values.newestOf(a.Key, a.Entries)
	}
	ws.transfers.sendMessage(p, out)
}

func (ws *writes) onStampAnswer(now clock.Instant, p *peer, m *StampAnswer) {
	ws.receiveClock(p, m.Wall)
	r := ws.table.open[m.ID]
	if r == nil || r.phase != stamping || m.Round != r.round || len(m.Newest) != len(r.asks) {
		return
	}
	for i := range m.Newest {
		if len(m.Newest[i].Times) != len(r.asks[i].Entries) {
			return
		}
	}
	for i := range m.Newest {
		r.newest[i].mergeNewest(m.Newest[i])
	}
	r.answers[p.id] = m.Epoch
	ws.table.proceed(now, r)
}

// writeAbove carries out an update whose stamps have been asked for.
func (ws *writes) writeAbove(now clock.Instant, r *request) {
	if higher, ok := ws.fences.checkTerm(ws.cfg.Self, ws.members.epoch, r.fence); !ok {
		ws.table.finishRequest(r, &replicator.Error{Code: replicator.ErrFenced, Fence: r.fence, Higher: higher})
		return
	}
	for i, a := range r.asks {
		// The key was deleted elsewhere: its value here does not count, and a write in
		// its generation would be lost. A value in an open generation joins that here.
		gen := r.newest[i].Gen
		if it := ws.store.itemOf(a.Key); len(a.Entries) > 0 && gen > 0 && !isOpen(gen) && (it == nil || it.gen < gen) {
			it = ws.store.obtain(a.Key)
			if ws.store.absorb(it, gen, 0, nil) {
				ws.values.reportChange(it)
			}
		}
	}
	plans, err := ws.planOps(r.ops)
	if err != nil {
		ws.table.finishRequest(r, err)
		return
	}
	if asks := asksOf(r.ops, plans); !slices.EqualFunc(asks, r.asks, sameAsk) {
		// The plans have changed with the state: ask for the stamps that they need now.
		ws.askStampsAgain(now, r, asks)
		return
	}
	ws.startWrite(now, r, plans)
}

func sameAsk(a, b stampAsk) bool { return a.Key == b.Key && slices.Equal(a.Entries, b.Entries) }

// replansMax bounds how often an update whose plans change with the state asks again.
const replansMax = 8

func (ws *writes) askStampsAgain(now clock.Instant, r *request, asks []stampAsk) {
	if r.replans++; r.replans > replansMax {
		ws.table.finishRequest(r, fmt.Errorf("%w: its entries changed with every attempt", replicator.ErrContended))
		return
	}
	r.round++
	r.asked = nil
	ws.startStamping(now, r, asks)
}

// aboveAll returns the state that op i must exceed, and fails if no write can exceed it.
func (ws *writes) aboveAll(r *request, i int, p *operation.Plan) (Newest, error) {
	op := &r.ops[i]
	if !op.Delete && len(p.Entries) == 0 {
		return Newest{}, nil
	}
	n := ws.values.newestOf(op.Key, p.Entries)
	for j, a := range r.asks {
		if sameAsk(a, stampAsk{Key: op.Key, Entries: p.Entries}) {
			n.mergeNewest(r.newest[j])
		}
	}
	if deletedFrom(n.Gen) >= timeMax {
		return n, fmt.Errorf("%w: key %q: generation %d", replicator.ErrStamp, op.Key, n.Gen)
	}
	wall := ws.clocks.judgingWall()
	// eraClock is never behind wall: without a time far ahead of wall there is no new era.
	far := slices.ContainsFunc(n.Times, func(t uint64) bool { return tooFar(t+1, wall) })
	// Without a view, or before another clock was received, the own clock may be the
	// wrong one.
	if far && ws.members.view != nil && !ws.clocks.isMuted() {
		if bound := eraClock(ws.clocks.ownWall(), ws.members.peers, ws.clocks.readings()); n.beginEra(bound) {
			ws.stats.Eras++
			ws.traceEvent(TraceEvent{Kind: TraceEra, Key: op.Key, Detail: fmt.Sprintf("stamps ahead of %s: era %d of %d", clock.ShowMillis(bound), n.Era, eraMax)})
		}
	}
	for _, t := range n.Times {
		switch {
		case t+1 >= timeMax:
			return n, fmt.Errorf("%w: key %q: stamp %d", replicator.ErrStamp, op.Key, t)
		case tooFar(t+1, wall):
			return n, fmt.Errorf("%w: key %q: it is of %s, and the clocks show %s", replicator.ErrStamp, op.Key, clock.ShowMillis(t>>tickBits), clock.ShowMillis(wall))
		}
	}
	return n, nil
}

// Stamps of the caller's
//
// A write under a stamp of its caller's wins or loses by that stamp. If a newer one
// stands here, the update changes nothing and fails with ErrStale. If a newer one
// stands at a replica that the write reaches, the acknowledgement carries it, and the
// update fails too: the value stands here until the newer one arrives. A majority write
// meets every value that was acknowledged at a majority before, so a nil error there
// means that it won over all of them.

// entryState returns the stamp and the value of an entry of v, and whether it is deleted.
func entryState(v crdt.Value, entry string) (s crdt.Stamp, val string, deleted bool) {
	switch v := v.(type) {
	case *crdt.LWWRegister[string]:
		val, _ = v.Value()
		return v.Stamp(), val, false
	case *entryMap:
		s, _ = v.Stamp(entry)
		val, live := v.Get(entry)
		return s, val, !live
	}
	return s, "", false
}

// checkFixed fails if a write under a stamp of its caller's must not be made, or loses.
func (ws *writes) checkFixed(op *plannedOp, p *operation.Plan, it *item) error {
	raw := rawStampTime(op, p, it)
	if len(p.Fixed) == 0 && raw == 0 {
		return nil
	}
	wall := ws.clocks.judgingWall()
	if wall > 0 {
		wall = min(wall, lowerMedian(ws.clocks.readings()))
	}
	check := func(t uint64) error {
		switch {
		case t >= timeMax:
			return fmt.Errorf("%w: key %q: time %d is malformed", replicator.ErrAhead, op.Key, t)
		case tooFar(t, wall):
			return &replicator.Error{Code: replicator.ErrAhead, Key: op.Key, Stamp: crdt.Stamp{Time: t}, Wall: wall, Node: ws.cfg.Self, Unchanged: true}
		}
		return nil
	}
	if err := check(raw); err != nil {
		return err
	}
	for i := range p.Fixed {
		f := &p.Fixed[i]
		if err := check(f.Stamp.Time); err != nil {
			return err
		}
		if f.Yield || it == nil || it.value == nil {
			continue
		}
		have, val, deleted := entryState(it.value, f.Entry)
		if order := f.Stamp.Compare(have); order < 0 || order == 0 && (val != f.Value || deleted != f.Delete) {
			return &replicator.Error{Code: replicator.ErrStale, Key: op.Key, Entry: f.Entry, Stamp: have, Node: ws.cfg.Self}
		}
	}
	return nil
}

// rawStampTime tries a change that stamps entries without declaring them in Fixed, on a
// copy, and returns its newest time. For all other changes it returns 0.
func rawStampTime(op *plannedOp, p *operation.Plan, it *item) uint64 {
	if p.Apply == nil || p.Stamped != nil || len(p.Fixed) > 0 {
		return 0
	}
	// The kind has been tried by decide.
	v, _ := crdt.New(op.Kind)
	if _, stamped := v.(stampedValue); !stamped {
		return 0
	}
	if it != nil && it.value != nil {
		v = it.value.Clone()
	}
	d := p.Apply(v)
	if isNil(d) {
		return 0
	}
	t, _ := newestStamp(d)
	return t
}

// staleIn notes the entries of v, of some era, that are older than those which stand in it.
func staleIn(it *item, v crdt.Value, era uint8, note func(Refusal)) {
	if it == nil || it.value == nil || it.value.Kind() != v.Kind() || era > it.era {
		return
	}
	look := func(entry string) {
		mine, _, _ := entryState(v, entry)
		have, _, _ := entryState(it.value, entry)
		if have = lower(have, it.era-era); mine.Compare(have) < 0 {
			note(Refusal{Why: whyStale, Entry: entry, Have: have})
		}
	}
	switch v := v.(type) {
	case *crdt.LWWRegister[string]:
		look("")
	case *entryMap:
		if v.Len()+v.Tombstones() > staleMax {
			return // an update of so many entries must read back the newest state
		}
		for k := range v.All() { // order-free: each entry by itself
			look(k)
		}
		for k := range v.Deleted() { // order-free: each entry by itself
			look(k)
		}
	}
}

// staleMax bounds the entries of a change that are compared one by one.
const staleMax = 4096

// overtakenError returns the error of a request one of whose writes lost, nil if none has.
func (r *request) overtakenError(ref *Refusal, at gossip.NodeID) error {
	if r.entry == nil || ref.Item >= len(r.entry.Items) {
		return nil
	}
	key := r.entry.Items[ref.Item].Key
	for _, f := range r.fixed[key] {
		if f.Entry == ref.Entry && !f.Yield && f.Stamp.Compare(ref.Have) < 0 {
			return &replicator.Error{Code: replicator.ErrStale, Key: key, Entry: f.Entry, Stamp: ref.Have, Node: at}
		}
	}
	return nil
}

// refusedAhead notes that a replica has refused entries of a request, and ends the
// request if no replica is left that might accept them.
func (ws *writes) refusedAhead(r *request, ref *Refusal, at gossip.NodeID) {
	if r.entry == nil || ref.Item >= len(r.entry.Items) {
		return
	}
	if r.refused == nil {
		r.refused = map[gossip.NodeID]bool{}
	}
	r.refused[at] = true
	r.ahead = &replicator.Error{Code: replicator.ErrAhead, Key: r.entry.Items[ref.Item].Key, Stamp: ref.Have, Wall: ref.Wall, Node: at}
	for _, id := range ws.table.missingAnswers(r) {
		if !r.refused[id] {
			return
		}
	}
	ws.table.finishRequest(r, r.ahead)
}

// receiveClock notes the clock of a member. The first clock ends being muted: own entries that are
// ahead get other stamps, and all own entries are sent in this step.
func (ws *writes) receiveClock(p *peer, wall uint64) {
	if ws.clocks.noteClock(p, wall) {
		ws.judgeOwn()
		ws.stream.batchAt = ws.now
	}
}

// judgeOwn restamps entries that were written before another clock was received, and are
// ahead of the clocks, with the present.
func (ws *writes) judgeOwn() {
	wall := lowerMedian(ws.clocks.readings())
	if wall == 0 {
		return
	}
	present := wall << tickBits
	// Other files may have deletions up to the newest forgotten stamp of the own one.
	if bound := max(present, ws.barrier.filed); tooFar(ws.barrier.maxForgottenStamp, wall) {
		ws.barrier.maxForgottenStamp, ws.barrier.inherited = min(ws.barrier.maxForgottenStamp, bound), min(ws.barrier.inherited, bound)
	}
	for i := range ws.store.buckets {
		for _, it := range ws.store.buckets[i].sortedItems() {
			ws.judgeItem(it, wall, present)
		}
	}
}

func (ws *writes) judgeItem(it *item, wall, present uint64) {
	if newest, ok := newestStamp(it.value); !ok || !tooFar(newest, wall) {
		return
	}
	self, n := crdt.NodeID(ws.cfg.Self), uint64(0)
	v := restamped(it.value, func(s crdt.Stamp) (crdt.Stamp, bool) {
		if s.Node == self && tooFar(s.Time, wall) {
			s.Time = present
			n++
		}
		return s, true
	})
	if n == 0 {
		return // all entries that are ahead came from the file
	}
	it.replaceValue(v)
	ws.store.updateSums(it)
	it.written = it.version
	ws.values.reportChange(it)
	ws.stats.Restamped += n
	ws.traceEvent(TraceEvent{Kind: TraceRestamped, Key: it.key, Detail: fmt.Sprintf("%d entries were ahead of %s", n, clock.ShowMillis(wall))})
	ws.stream.voidLogged(it.key)
	ws.stream.appendEntry(ws.now, &Entry{Items: []Item{full(it)}})
}
