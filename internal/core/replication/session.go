package replication

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// Sessions
//
// A session pulls the state that one peer, its *primary* source, holds beyond this
// replica. The primary alone names the keys; the values may come from any source with the
// same state:
//
//	primary      Compare, Differ     which keys differ, and their fingerprints there
//	any source   Fetch, Values       the values; those of a helper count only if they
//	                                 have the fingerprint that the primary sent
//	primary      Fetch, Values       values that no helper had in that state
//	primary      FetchParts, Values  of large values, the parts that differ (readparts.go)
//
// So the claim of a completed session (this replica holds all state that the primary
// held) rests on the primary's fingerprints alone. Up to sourcesMax peers serve, each
// with at most sourceAsksMax questions open. Every question bounds the bytes of its
// answer, its *credit*; their sum, at most Limits.RoundBytes, bounds the bytes in flight
// to this replica. A helper that is late, gone, or mostly in another state is dismissed,
// and its keys are asked of the remaining sources. A silent primary ends the session, and
// the next round finds another one.
//
// A replica runs one session at a time. If it has caught up with its view, it also ends
// the session after RoundBytes: the next round finds the remaining differences.
//
// Rejected: a session for each source, over a part of the buckets. The vector of one
// session would then have to refer to the state of the other buckets.

const (
	// sourcesMax bounds the peers that serve a session, sourceAsksMax the questions open
	// at each.
	sourcesMax    = 4
	sourceAsksMax = 2
	// fetchKeysMax bounds the keys of one Fetch, fetchKeysMin prevents one question per
	// value.
	fetchKeysMax = 1024
	fetchKeysMin = 16
	// wantMax bounds the keys to fetch: above it a session sends no further Compare.
	wantMax = 8192
	// silenceMax, times ResendAfter, is how long the primary may be silent.
	silenceMax = 20
)

// session is one pull. The zero session is none.
type session struct {
	id   uint64
	peer gossip.NodeID // the primary source
	// epoch is the older one of the two sides' views at its beginning; vector and fences
	// are the primary's of that time.
	epoch  gossip.Epoch
	vector []Seen
	// caughtUp is the newest view with which the primary had caught up at its beginning.
	caughtUp gossip.Epoch
	// sweep is that of both sides at its beginning (retain.go).
	sweep  uint64
	fences []replicator.Fence
	begun  bool
	// next is the bucket to compare next.
	next int
	// want are keys to fetch from any source, own those to fetch from the primary.
	want, own []wanted
	// chunk bounds the keys of one question.
	chunk int
	bytes int
	// asks are the open questions, asked counts all so far. credit is the sum of their
	// credits.
	asks    []ask
	asked   uint64
	credit  int
	sources []source
	// dismissed are peers that do not become sources again.
	dismissed []gossip.NodeID
}

// wanted is a key that differs here from the primary, which holds it with print.
type wanted struct {
	key   string
	print uint64
}

// source is a peer that serves a session; the first one is the primary.
type source struct {
	peer gossip.NodeID
	// answeredAt is when its newest answer arrived, or when the session began to use it.
	answeredAt clock.Instant
	// took is about how long its slower answers to a Fetch took, 0 before the first.
	took time.Duration
	// late is set on a primary that is no longer asked for keys which helpers could send.
	late bool
}

// ask is an open question: a Fetch of keys, or a Compare if there are none.
type ask struct {
	id     uint64
	peer   gossip.NodeID
	keys   []wanted
	own    bool
	credit int
	at     clock.Instant
	tries  int
}

// sessions pulls the state of one peer at a time, and serves the sessions of peers.
type sessions struct {
	*env
	members     *members
	fences      *fences
	transfers   *transfers
	barrier     *barrier
	values      *values
	store       *store
	stream      *stream
	antiEntropy *antiEntropy

	current session
	// avoidPeer is the primary source of the last session, if that failed.
	avoidPeer gossip.NodeID
	// onSynced is called with each session that has pulled the whole state of its primary.
	onSynced func(now clock.Instant, s *session)
}

// startSession begins a session whose primary source is p.
func (ss *sessions) startSession(now clock.Instant, p *peer) {
	ss.ids++
	ss.stats.Descents++
	ss.traceEvent(TraceEvent{Kind: TraceDescend, Peer: p.id})
	p.differed = 0
	ss.avoidPeer = 0
	ss.current = session{id: ss.ids, peer: p.id, epoch: ss.members.epoch, caughtUp: p.caughtUp, sweep: ss.barrier.sweep, chunk: ss.cfg.FetchKeys, sources: []source{{peer: p.id, answeredAt: now}}}
	ss.requestMore(now)
}

// abandonSession ends the session; the next one uses another primary if possible.
func (ss *sessions) abandonSession() {
	ss.avoidPeer = ss.current.peer
	ss.current = session{}
}

// requestMore sends as many questions as credit allows, and ends the session if none is
// left to ask.
func (ss *sessions) requestMore(now clock.Instant) {
	s := &ss.current
	if s.peer == 0 {
		return
	}
	if s.next < bucketCount && len(s.want)+len(s.own) <= wantMax && !s.comparing() {
		ss.openQuestion(now, ask{peer: s.peer})
	}
	ss.addSources(now)
	for again := true; again; {
		again = false
		for i := range s.sources {
			again = ss.fetchFrom(now, &s.sources[i]) || again
		}
	}
	switch {
	case len(s.asks) > 0:
	case s.next < bucketCount || len(s.want)+len(s.own) > 0:
		// Enough for this round.
		ss.current = session{}
	default:
		done := *s
		ss.current = session{}
		ss.traceEvent(TraceEvent{Kind: TraceSynced, Peer: done.peer, Bytes: done.bytes})
		ss.fences.raiseAll(done.peer, 0, done.fences)
		ss.onSynced(now, &done)
	}
}

func (s *session) comparing() bool {
	return slices.ContainsFunc(s.asks, func(a ask) bool { return len(a.keys) == 0 })
}

// addSources adds helpers when one question cannot cover the keys to fetch.
func (ss *sessions) addSources(now clock.Instant) {
	s := &ss.current
	for i := range ss.members.peers {
		if len(s.want) <= s.chunk || len(s.sources) >= sourcesMax {
			return
		}
		p := ss.members.peers[(i+int(ss.cfg.Seed%uint64(len(ss.members.peers))))%len(ss.members.peers)]
		isLane := func(l source) bool { return l.peer == p.id }
		if p.down || p.floor != ss.barrier.floor || 2*p.keys < ss.members.byID[s.peer].keys || slices.ContainsFunc(s.sources, isLane) || slices.Contains(s.dismissed, p.id) {
			continue
		}
		s.sources = append(s.sources, source{peer: p.id, answeredAt: now})
	}
}

// fetchFrom sends one more question to a source if its limits allow.
func (ss *sessions) fetchFrom(now clock.Instant, l *source) bool {
	s := &ss.current
	open := 0
	for i := range s.asks {
		if s.asks[i].peer == l.peer && len(s.asks[i].keys) > 0 {
			open++
		}
	}
	from, own := &s.want, l.peer == s.peer && len(s.own) > 0
	if own {
		from = &s.own
	}
	credit := min(ss.cfg.Limits.FrameBytes, ss.cfg.Limits.RoundBytes)
	if open >= sourceAsksMax || len(*from) == 0 || l.late && !own || !ss.hasCredit(credit) {
		return false
	}
	n := min(len(*from), s.chunk)
	if own {
		n = ss.countOwn(n)
	}
	ss.openQuestion(now, ask{peer: l.peer, keys: (*from)[:n:n], own: own, credit: credit})
	*from = (*from)[n:]
	return true
}

// countOwn returns how many of the first n own keys go into one question. A key that is
// fetched in parts goes alone.
func (ss *sessions) countOwn(n int) int {
	for i, w := range ss.current.own[:n] {
		if _, v := ss.values.partialValue(w.key); v != nil {
			return max(i, 1)
		}
	}
	return n
}

// hasCredit reports whether credit more bytes may be in flight.
func (ss *sessions) hasCredit(credit int) bool {
	s := &ss.current
	used := s.credit
	if ss.members.caughtUp >= ss.members.epoch {
		used += s.bytes
	}
	return used == 0 || used+credit <= ss.cfg.Limits.RoundBytes
}

// openQuestion numbers a question, notes it as open and sends it.
func (ss *sessions) openQuestion(now clock.Instant, a ask) {
	s := &ss.current
	s.asked++
	a.id = s.asked
	s.credit += a.credit
	s.asks = append(s.asks, a)
	ss.sendQuestion(now, &s.asks[len(s.asks)-1])
}

// sendQuestion sends an open question, possibly again.
func (ss *sessions) sendQuestion(now clock.Instant, a *ask) {
	s := &ss.current
	a.at = now
	a.tries++
	p := ss.members.byID[a.peer]
	if len(a.keys) == 0 {
		ss.transfers.sendMessage(p, &Compare{Session: s.id, Ask: a.id, Start: s.next, Sums: ss.store.sums()})
		return
	}
	if a.own && len(a.keys) == 1 {
		if m := ss.askParts(a.keys[0].key); m != nil {
			m.Ask = a.id
			ss.transfers.sendMessage(p, m)
			return
		}
	}
	m := &Fetch{Session: s.id, Ask: a.id, Credit: a.credit, Keys: make([]string, len(a.keys))}
	for i := range a.keys {
		m.Keys[i] = a.keys[i].key
	}
	ss.transfers.sendMessage(p, m)
}

// closeQuestion removes the question that a message from p answers.
func (ss *sessions) closeQuestion(now clock.Instant, p *peer, id, number uint64) (a ask, ok bool) {
	s := &ss.current
	if s.peer == 0 || s.id != id {
		return a, false
	}
	for j := range s.sources {
		if l := &s.sources[j]; l.peer == p.id {
			l.answeredAt, l.late = now, false
		}
	}
	i := slices.IndexFunc(s.asks, func(a ask) bool { return a.id == number && a.peer == p.id })
	if i < 0 {
		return a, false
	}
	a = s.asks[i]
	l := &s.sources[slices.IndexFunc(s.sources, func(l source) bool { return l.peer == p.id })]
	if len(a.keys) > 0 {
		l.took = max(now.Sub(a.at), l.took/2)
	}
	s.asks = slices.Delete(s.asks, i, i+1)
	s.credit -= a.credit
	return a, true
}

func (ss *sessions) onDiffer(now clock.Instant, p *peer, m *Differ) {
	a, ok := ss.closeQuestion(now, p, m.Session, m.Ask)
	if !ok || len(a.keys) > 0 {
		return
	}
	s := &ss.current
	if !s.begun {
		s.begun, s.vector, s.fences = true, m.Vector, m.Fences
		s.epoch = min(s.epoch, m.Epoch)
	}
	s.next = max(s.next+1, m.Next)
	for i, k := range m.Keys {
		if ss.store.print(k) != m.Prints[i] {
			_, v := ss.values.partialValue(k)
			ss.requeueKeys([]wanted{{k, m.Prints[i]}}, v != nil)
		}
	}
	ss.requestMore(now)
}

func (ss *sessions) onValues(now clock.Instant, p *peer, m *Values) {
	took := ss.values.mergeItems(p, m.Items)
	ss.stats.ValuesReceived += uint64(len(m.Items))
	a, ok := ss.closeQuestion(now, p, m.Session, m.Ask)
	switch {
	case !ok:
		return
	case !took, m.Answered == 0, m.Answered > len(a.keys):
		// The session must not claim the whole state.
		ss.abandonSession()
		return
	}
	s := &ss.current
	for i := range m.Items {
		s.bytes += m.Items[i].encodedSize()
	}
	got, rest := a.keys[:m.Answered], a.keys[m.Answered:]
	if len(rest) > 0 {
		ss.requeueKeys(rest, a.own)
		s.chunk = min(max(2*m.Answered, fetchKeysMin), ss.cfg.FetchKeys)
	} else if len(got) == s.chunk {
		s.chunk = min(2*s.chunk, ss.cfg.FetchKeys)
	}
	if p.id != s.peer {
		ss.checkHelper(p, got)
	}
	ss.requestMore(now)
}

// requeueKeys queues keys for later questions.
func (ss *sessions) requeueKeys(keys []wanted, own bool) {
	s := &ss.current
	if own {
		s.own = append(s.own, keys...)
	} else {
		s.want = append(s.want, keys...)
	}
}

// checkHelper leaves keys that a helper held in another state to the primary, and
// dismisses the helper if most of its keys were such.
func (ss *sessions) checkHelper(p *peer, got []wanted) {
	s := &ss.current
	missed := 0
	for _, w := range got {
		if ss.store.print(w.key) != w.print {
			s.own = append(s.own, w)
			missed++
		}
	}
	if 2*missed > len(got) {
		ss.dismissSource(p.id)
	}
}

// dismissSource removes a helper, or ends the session if the source is the primary.
func (ss *sessions) dismissSource(id gossip.NodeID) {
	s := &ss.current
	i := slices.IndexFunc(s.sources, func(l source) bool { return l.peer == id })
	switch {
	case i < 0:
		return
	case i == 0:
		ss.abandonSession()
		return
	}
	ss.stats.LanesDismissed++
	s.sources = slices.Delete(s.sources, i, i+1)
	s.dismissed = append(s.dismissed, id)
	s.asks = slices.DeleteFunc(s.asks, func(a ask) bool {
		if a.peer == id {
			s.credit -= a.credit
			ss.requeueKeys(a.keys, a.own)
		}
		return a.peer == id
	})
}

// dueAt returns when an open question is late. Slow answers before it, an answer in
// parts, or another answer in flight before it extend the time. Parts extend it only up to a bound:
// they may belong to another message, while a full queue of the sender has dropped the answer.
func (ss *sessions) dueAt(a *ask) clock.Instant {
	since, wait := a.at, ss.wait(a.tries-1)
	for i := range ss.current.sources {
		l := &ss.current.sources[i]
		switch {
		case l.peer != a.peer:
			continue
		case len(a.keys) > 0 && l.took == 0:
			wait *= 4 // its answer may be large, over a slow link
		case len(a.keys) > 0:
			wait = 2 * max(wait, l.took)
		}
		since = max(since, l.answeredAt)
	}
	return clock.Min(max(since, ss.members.byID[a.peer].in.at).Add(wait), since.Add(silenceMax*wait))
}

// nextDue returns when the first open question is late.
func (ss *sessions) nextDue() clock.Instant {
	d := clock.Never
	for i := range ss.current.asks {
		d = clock.Min(d, ss.dueAt(&ss.current.asks[i]))
	}
	return d
}

// retryLate retransmits questions that are late, or moves them to other sources. A primary that has
// been silent for too long ends the session, but not before the late question was repeated: the
// answers of a slow primary take longer than this silence, and one of them may have been dropped.
func (ss *sessions) retryLate(now clock.Instant) {
	for now >= ss.nextDue() {
		s := &ss.current
		i := slices.IndexFunc(s.asks, func(a ask) bool { return now >= ss.dueAt(&a) })
		a := &s.asks[i]
		if a.peer != s.peer {
			ss.dismissSource(a.peer)
			ss.requestMore(now)
			continue
		}
		source := &s.sources[0]
		silent := now.Sub(max(source.answeredAt, ss.members.byID[s.peer].in.at))
		if a.tries > 1 && silent > silenceMax*ss.cfg.ResendAfter {
			ss.abandonSession()
			return
		}
		if len(a.keys) > 0 && !a.own && len(s.sources) > 1 {
			// Helpers may answer sooner.
			source.late = true
			ss.requeueKeys(a.keys, false)
			s.credit -= a.credit
			s.asks = slices.Delete(s.asks, i, i+1)
			ss.requestMore(now)
			continue
		}
		ss.sendQuestion(now, a)
	}
}

// dismissUnlevel dismisses a source whose values are of another floor. If it is the
// primary, its fingerprints are, too, and the session ends.
func (ss *sessions) dismissUnlevel(now clock.Instant, p *peer, m *Values) {
	if s := &ss.current; s.peer != 0 && s.id == m.Session {
		ss.dismissSource(p.id)
		ss.requestMore(now)
	}
}

// sourceLost moves the questions of a lost peer to the remaining sources.
func (ss *sessions) sourceLost(now clock.Instant, id gossip.NodeID) {
	if ss.current.peer == 0 {
		return
	}
	if ss.current.peer == id {
		ss.abandonSession()
		ss.antiEntropy.gossipAt = clock.Min(ss.antiEntropy.gossipAt, now.Add(time.Millisecond))
		return
	}
	ss.dismissSource(id)
	ss.requestMore(now)
}

// The serving side of sessions. It keeps no state between two answers.

func (ss *sessions) onCompare(p *peer, m *Compare) {
	if len(m.Sums) != bucketCount {
		return
	}
	out := &Differ{Session: m.Session, Ask: m.Ask, Epoch: ss.members.epoch, Next: bucketCount, Vector: ss.stream.seenVector(), Fences: ss.fences.sortedFences()}
	size := 0
	for i := m.Start; i < bucketCount; i++ {
		b := &ss.store.buckets[i]
		if b.sum == m.Sums[i] {
			continue
		}
		if size > ss.cfg.Limits.FrameBytes/2 {
			out.Next = i
			break
		}
		for _, it := range b.sortedItems() {
			out.Keys = append(out.Keys, it.key)
			out.Prints = append(out.Prints, it.print)
			size += len(it.key) + 10
		}
	}
	ss.transfers.sendMessage(p, out)
}

func (ss *sessions) onFetch(p *peer, m *Fetch) {
	out := &Values{Floor: ss.barrier.floor, Sweep: ss.barrier.sweep, Session: m.Session, Ask: m.Ask}
	size, most := 0, min(ss.cfg.Limits.FrameBytes, m.Credit)
	for _, k := range m.Keys {
		it := ss.store.itemOf(k)
		if it != nil && size > 0 && size+it.bytes+len(k)+12 > most {
			break
		}
		out.Answered++
		if it != nil {
			out.Items = append(out.Items, full(it))
			size += out.Items[len(out.Items)-1].encodedSize()
		}
	}
	ss.stats.ValuesSent += uint64(len(out.Items))
	ss.transfers.sendMessage(p, out)
}

// dropGoneSources ends the questions that the session had open at nodes that left the view. Their
// place in the vector stays until all members have caught up. All these sources are dismissed before
// the next question: a source outside the view has no peer.
func (ss *sessions) dropGoneSources(now clock.Instant) {
	isGone := func(l source) bool { return ss.members.byID[l.peer] == nil }
	if !slices.ContainsFunc(ss.current.sources, isGone) {
		return
	}
	if isGone(ss.current.sources[0]) {
		ss.sourceLost(now, ss.current.peer)
		return
	}
	for _, l := range slices.Clone(ss.current.sources) {
		if isGone(l) {
			ss.dismissSource(l.peer)
		}
	}
	ss.requestMore(now)
}
