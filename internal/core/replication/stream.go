package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// windowEntries bounds how far the stream to a peer runs ahead of its
// acknowledgements; entries that a request waits for go past it.
const windowEntries = 4096

// stream sends the own log to all peers, and applies theirs.
type stream struct {
	*env
	members   *members
	clocks    *clocks
	fences    *fences
	transfers *transfers
	barrier   *barrier
	disk      *disk
	values    *values

	log ownLog
	// tracks holds, for every node's stream but the own one, the entries that were applied.
	tracks map[gossip.NodeID]*track
	// batchAt is when entries go to the members that no request waits for.
	batchAt clock.Instant
	// shared is the newest run of entries made for sending: peers at the same position get
	// the same message.
	shared *Deltas
}

// appendEntry appends an entry to the log and schedules its delivery to all peers.
func (st *stream) appendEntry(now clock.Instant, e *Entry) uint64 {
	seq := st.log.appendEntry(e)
	if st.barrier.fresh {
		st.barrier.own = append(st.barrier.own, e.Items...)
	}
	if len(st.members.peers) > 0 {
		st.batchAt = clock.Min(st.batchAt, now.Add(st.cfg.BatchEvery))
	}
	st.trimLog()
	return seq
}

// trimLog drops entries that every peer has, and the oldest ones when there are too many:
// peers that lack those get their effect by anti-entropy.
func (st *stream) trimLog() {
	all := st.log.last()
	for _, p := range st.members.peers {
		all = min(all, p.acked)
	}
	st.log.dropTo(all)
	cut := st.log.cutToFit(st.cfg.Limits.LogEntries, st.cfg.Limits.LogBytes)
	if cut == 0 {
		return
	}
	st.log.dropTo(cut)
	for _, p := range st.members.peers {
		if p.acked < cut {
			st.traceEvent(TraceEvent{Kind: TraceLogCut, Peer: p.id})
			p.acked, p.next = cut, max(p.next, cut+1)
		}
	}
}

// flushPeer pushes, unless the peer's link is down: then it schedules a rare attempt.
func (st *stream) flushPeer(now clock.Instant, p *peer) {
	switch {
	case !p.down:
		st.pushEntries(now, p)
	case p.resendAt == clock.Never:
		p.resendAt = now.Add(st.wait(backoffMax))
	}
}

// pushEntries sends the unsent entries to a peer, as far as the window allows.
func (st *stream) pushEntries(now clock.Instant, p *peer) {
	if st.cfg.NoStream || st.clocks.isMuted() {
		return
	}
	for p.next <= st.log.last() && p.next-p.acked <= windowEntries {
		m := st.nextRun(p.next)
		st.transfers.sendMessage(p, m)
		p.next += uint64(len(m.Entries))
		st.stats.DeltasSent += uint64(len(m.Entries))
		if p.resendAt == clock.Never {
			p.resendAt = now.Add(st.wait(p.backoff))
		}
	}
}

// nextRun returns a message of entries from seq on, up to about a frame.
func (st *stream) nextRun(seq uint64) *Deltas {
	if s := st.shared; s != nil && s.From == seq && s.From+uint64(len(s.Entries))-1 == st.log.last() {
		return s
	}
	m := &Deltas{Epoch: st.members.epoch, Floor: st.barrier.floor, Sweep: st.barrier.sweep, From: seq}
	for size := 0; ; seq++ {
		e := st.log.entryAt(seq)
		if e == nil || size > 0 && size+e.encodedSize() > st.cfg.Limits.FrameBytes {
			break
		}
		size += e.encodedSize()
		m.Entries = append(m.Entries, e)
	}
	st.shared = m
	return m
}

// resendEntries retransmits the entries after the last one that a peer has acknowledged.
func (st *stream) resendEntries(now clock.Instant, p *peer) {
	p.resendAt = clock.Never
	if p.acked+1 >= p.next {
		// No entry is in flight: the link of this peer was down.
		st.pushEntries(now, p)
		return
	}
	if p.out.busy() {
		// The entries are still in flight, in parts.
		p.resendAt = now.Add(st.wait(p.backoff))
		return
	}
	st.stats.DeltasResent += p.next - p.acked - 1
	st.traceEvent(TraceEvent{Kind: TraceResent, Peer: p.id})
	st.rewindPeer(p)
	p.backoff = min(p.backoff+1, backoffMax)
	st.pushEntries(now, p)
}

func (st *stream) rewindPeer(p *peer) { p.next = max(p.acked+1, st.log.first) }

// onDeltas applies a piece of a peer's stream. A refused entry is applied too: the
// lattice orders it below its successor's writes, anti-entropy would bring it anyway, and
// readers could miss it if it came by one way and not by the other. Only the confirmation
// is refused.
func (st *stream) onDeltas(p *peer, m *Deltas) {
	t := st.tracks[p.id]
	if t == nil {
		t = &track{}
		st.tracks[p.id] = t
	}
	to := m.From + uint64(len(m.Entries)) - 1
	ack := &Ack{Epoch: st.members.epoch, From: m.From, To: to}
	kept := false
	for i, e := range m.Entries {
		kept = kept || st.disk.keptItems(e.Items)
		seq := m.From + uint64(i)
		higher, ok := st.fences.checkTerm(p.id, m.Epoch, e.Fence)
		if assert.Enabled && ok {
			st.fences.assertPasses(e.Fence)
		}
		took := st.values.mergeNoting(p, e.Items, func(r Refusal) {
			r.Seq = seq
			ack.Refused = append(ack.Refused, r)
		})
		// An entry that cannot be applied is refused without a term.
		if !took || !ok || !st.disk.storableAll(e.Items) {
			ack.Refused = append(ack.Refused, Refusal{Seq: seq, Higher: higher})
		}
	}
	st.stats.DeltasReceived += uint64(len(m.Entries))
	if len(m.Entries) > 0 && t.addRange(m.From, to) {
		st.stats.Gaps++
	}
	ack.Seen, ack.Lo, ack.Hi = t.seen, t.lo, t.hi
	st.transfers.sendStored(p, ack, kept)
}

// noteProgress notes which entries of the own stream a peer has applied.
func (st *stream) noteProgress(now clock.Instant, p *peer, seen, lo, hi uint64) {
	upTo := seen
	if lo != 0 && lo <= max(p.acked, seen)+1 {
		upTo = max(upTo, hi)
	}
	upTo = min(upTo, st.log.last())
	if upTo <= p.acked {
		return
	}
	p.acked, p.next, p.backoff = upTo, max(p.next, upTo+1), 0
	p.resendAt = clock.Never
	if p.acked+1 < p.next {
		p.resendAt = now.Add(st.wait(0))
	}
	st.trimLog()
	st.flushPeer(now, p)
}

// seenOf returns the applied entries of a node's stream.
func (st *stream) seenOf(id gossip.NodeID) Seen {
	if id == st.cfg.Self {
		return Seen{Node: id, Seen: st.log.last(), Top: st.log.last()}
	}
	if t := st.tracks[id]; t != nil {
		return Seen{Node: id, Seen: t.seen, Top: t.top()}
	}
	return Seen{Node: id}
}

// Item is the state, or a delta of the state, of one key on the wire. The bytes
// are never changed once an Item exists.
type Item struct {
	Key string
	// Gen is the key's generation, and Era that of the stamps in it (clocks.go). Kind and Era
	// are 0, and Bytes is empty, for a deleted key.
	Gen   uint64
	Era   uint8
	Kind  crdt.Kind
	Bytes []byte
}

func (it *Item) encodedSize() int { return len(it.Key) + len(it.Bytes) + 12 }

// Entry holds the changes of one request: a unit of the stream, applied whole at each
// replica. Immutable.
type Entry struct {
	Fence replicator.Fence
	Items []Item
}

func (e *Entry) encodedSize() int {
	n := len(e.Fence.Group) + 12
	for i := range e.Items {
		n += e.Items[i].encodedSize()
	}
	return n
}

// ownLog holds the newest own entries, numbered from 1 without holes.
//
// Invariant: entries[i] has number first+i; bytes is the sum of their sizes.
type ownLog struct {
	first   uint64
	entries []*Entry
	bytes   int
}

// last returns the number of the newest entry ever appended, 0 before the first.
func (l *ownLog) last() uint64 { return l.first + uint64(len(l.entries)) - 1 }

func (l *ownLog) appendEntry(e *Entry) uint64 {
	l.entries = append(l.entries, e)
	l.bytes += e.encodedSize()
	return l.last()
}

// entryAt returns entry seq, or nil if the log does not hold it.
func (l *ownLog) entryAt(seq uint64) *Entry {
	if seq < l.first || seq > l.last() {
		return nil
	}
	return l.entries[seq-l.first]
}

// dropTo drops entries up to seq.
func (l *ownLog) dropTo(seq uint64) {
	for len(l.entries) > 0 && l.first <= seq {
		l.bytes -= l.entries[0].encodedSize()
		l.entries[0] = nil
		l.entries = l.entries[1:]
		l.first++
	}
}

// cutToFit returns the entry up to which the log must be cut to keep within the limits.
func (l *ownLog) cutToFit(entries, bytes int) (cut uint64) {
	over, held := len(l.entries)-entries, l.bytes
	for i := 0; i < len(l.entries)-1 && (i < over || held > bytes); i++ {
		held -= l.entries[i].encodedSize()
		cut = l.first + uint64(i)
	}
	return cut
}

// track holds the applied entries of another node's stream: all up to seen, and those
// from lo to hi beyond it. To forget an applied entry is harmless, since it is
// retransmitted; to claim one that was not applied is an error.
//
// Invariant: lo == 0 (nothing beyond seen) or seen+1 < lo <= hi.
type track struct{ seen, lo, hi uint64 }

// addRange notes that the entries from..to have been applied. It reports whether they
// left a hole before them.
func (t *track) addRange(from, to uint64) (gap bool) {
	switch {
	case to <= t.seen:
		return false
	case from <= t.seen+1:
		t.reach(to)
		return false
	case t.lo != 0 && from <= t.hi+1 && to+1 >= t.lo:
		t.lo, t.hi = min(t.lo, from), max(t.hi, to)
	case to > t.hi:
		t.lo, t.hi = from, to
	}
	return true
}

// reach notes that all entries up to seq have been applied.
func (t *track) reach(seq uint64) {
	t.seen = max(t.seen, seq)
	if t.lo != 0 && t.lo <= t.seen+1 {
		t.seen = max(t.seen, t.hi)
		t.lo, t.hi = 0, 0
	}
}

// top returns the highest entry applied.
func (t *track) top() uint64 { return max(t.seen, t.hi) }

// voidLogged removes a key from the own entries that have been logged. None has been
// sent.
func (st *stream) voidLogged(key string) {
	of := func(in Item) bool { return in.Key == key }
	for i, e := range st.log.entries {
		if !slices.ContainsFunc(e.Items, of) {
			continue
		}
		st.log.bytes -= e.encodedSize()
		e = &Entry{Fence: e.Fence, Items: slices.DeleteFunc(slices.Clone(e.Items), of)}
		st.log.bytes += e.encodedSize()
		st.log.entries[i] = e
	}
	st.barrier.own = slices.DeleteFunc(st.barrier.own, of)
}

// seenVector returns the applied entries of every stream, sorted by node.
func (st *stream) seenVector() []Seen {
	out := make([]Seen, 0, len(st.tracks)+1)
	if st.log.last() > 0 {
		out = append(out, st.seenOf(st.cfg.Self))
	}
	for id := range st.tracks {
		out = append(out, st.seenOf(id))
	}
	slices.SortFunc(out, func(a, b Seen) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return out
}

// lacksStream reports whether a vector lacks a running stream of which this replica has
// applied entries: the first entries are still in flight to the vector's sender.
func (st *stream) lacksStream(vector []Seen) bool {
	return slices.ContainsFunc(st.seenVector(), func(mine Seen) bool {
		known := func(s Seen) bool { return s.Node == mine.Node }
		return mine.Top > 0 && st.members.isPresent(mine.Node) && !slices.ContainsFunc(vector, known)
	})
}
