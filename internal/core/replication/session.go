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
// A session pulls everything that one peer, its source, holds beyond us. Only the
// source says what that is; the values may come from anybody who holds the same:
//
//	source     Compare, Differ   which keys differ, and their fingerprints there
//	any lane   Fetch, Values     the values; of a helper only those count that gave
//	                             us the fingerprint that the source had told
//	source     Fetch, Values     what no helper had in that state
//	source     FetchParts, Values  of large values, the parts that differ (readparts.go)
//
// So what a session claims in the end (that all that the source held is held here)
// rests on the source's word alone. Up to lanesMax peers serve, each with at
// most laneAsksMax questions open, and every question says how many bytes its answer
// may have: the sum of that is what may be under way to us, Limits.RoundBytes. A
// helper that is late, gone, or mostly holds something else is dismissed and its keys
// are asked of the others; a source that is silent ends the session, and the next
// round finds another one.
//
// A replica runs one session at a time. One that has caught up with its view also
// ends it when it has moved RoundBytes: the rest differs in the next round too.
//
// Rejected: every lane a session of its own, over a part of the buckets. Each of
// them would have to know which state of the other buckets its vector speaks of.

const (
	// lanesMax bounds the peers that serve a session, laneAsksMax the questions open
	// at each.
	lanesMax    = 4
	laneAsksMax = 2
	// fetchKeysMax bounds the keys of one Fetch, fetchKeysMin keeps it from becoming
	// a question per value.
	fetchKeysMax = 1024
	fetchKeysMin = 16
	// wantMax is above how many keys a session asks for no more of them.
	wantMax = 8192
	// silenceMax, times ResendAfter, is how long a source may say nothing.
	silenceMax = 20
)

// session is one pull. The zero session is none.
type session struct {
	id   uint64
	peer gossip.NodeID // the source
	// epoch is the older one of the two sides' views at its beginning, vector and
	// fences what the source held then.
	epoch  gossip.Epoch
	vector []Seen
	// caughtUp is the newest view with which the source had caught up at its beginning.
	caughtUp gossip.Epoch
	fences   []replicator.Fence
	begun    bool
	// next is the bucket to compare next.
	next int
	// want are keys that any lane may be asked for, own those for the source alone.
	want, own []wanted
	// chunk is how many keys to ask for at a time.
	chunk int
	bytes int
	// asks are the open questions, asked how many there were. Credit is the sum of
	// what their answers may have.
	asks   []ask
	asked  uint64
	credit int
	lanes  []lane
	// dismissed are peers that do not become lanes again.
	dismissed []gossip.NodeID
}

// wanted is a key of which the source holds something else than we do: print.
type wanted struct {
	key   string
	print uint64
}

// lane is a peer that serves a session; the first is the source.
type lane struct {
	peer  gossip.NodeID
	heard clock.Instant
	// took is about how long its slower answers to a Fetch took, 0 before the first.
	took time.Duration
	// late: a source that is asked for nothing any more that others could send.
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

func (c *Core) startSession(now clock.Instant, p *peer) {
	c.ids++
	c.stats.Descents++
	c.trace(TraceEvent{Kind: TraceDescend, Peer: p.id})
	p.differed = 0
	c.shunned = 0
	c.session = session{id: c.ids, peer: p.id, epoch: c.epoch, caughtUp: p.caughtUp, chunk: c.cfg.fetchKeys, lanes: []lane{{peer: p.id, heard: now}}}
	c.feed(now)
}

// abandon ends the session; the next one finds another source if it can.
func (c *Core) abandon() {
	c.shunned = c.session.peer
	c.session = session{}
}

// feed asks for as much as may be under way, and ends the session if there is
// nothing left to ask.
func (c *Core) feed(now clock.Instant) {
	s := &c.session
	if s.peer == 0 {
		return
	}
	if s.next < bucketCount && len(s.want)+len(s.own) <= wantMax && !s.comparing() {
		c.question(now, ask{peer: s.peer})
	}
	c.recruit(now)
	for again := true; again; {
		again = false
		for i := range s.lanes {
			again = c.fill(now, &s.lanes[i]) || again
		}
	}
	switch {
	case len(s.asks) > 0:
	case s.next < bucketCount || len(s.want)+len(s.own) > 0:
		// Enough for this round.
		c.session = session{}
	default:
		done := *s
		c.session = session{}
		c.trace(TraceEvent{Kind: TraceSynced, Peer: done.peer, Bytes: done.bytes})
		c.takeFences(done.peer, 0, done.fences)
		c.caught(now, c.byID[done.peer], done.epoch, done.caughtUp, done.vector)
	}
}

func (s *session) comparing() bool {
	return slices.ContainsFunc(s.asks, func(a ask) bool { return len(a.keys) == 0 })
}

// recruit takes in lanes when there is more to ask for than one question.
func (c *Core) recruit(now clock.Instant) {
	s := &c.session
	for i := range c.peers {
		if len(s.want) <= s.chunk || len(s.lanes) >= lanesMax {
			return
		}
		p := c.peers[(i+int(c.cfg.Seed%uint64(len(c.peers))))%len(c.peers)]
		isLane := func(l lane) bool { return l.peer == p.id }
		if p.down || p.floor != c.floor || 2*p.keys < c.byID[s.peer].keys || slices.ContainsFunc(s.lanes, isLane) || slices.Contains(s.dismissed, p.id) {
			continue
		}
		s.lanes = append(s.lanes, lane{peer: p.id, heard: now})
	}
}

// fill asks a lane for one more piece, if it may be asked.
func (c *Core) fill(now clock.Instant, l *lane) bool {
	s := &c.session
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
	credit := min(c.cfg.Limits.FrameBytes, c.cfg.Limits.RoundBytes)
	if open >= laneAsksMax || len(*from) == 0 || l.late && !own || !c.affords(credit) {
		return false
	}
	n := min(len(*from), s.chunk)
	if own {
		n = c.ownRun(n)
	}
	c.question(now, ask{peer: l.peer, keys: (*from)[:n:n], own: own, credit: credit})
	*from = (*from)[n:]
	return true
}

// ownRun returns how many of the first n own keys go into one question: one that is
// asked for in parts goes alone.
func (c *Core) ownRun(n int) int {
	for i, w := range c.session.own[:n] {
		if _, v := c.partial(w.key); v != nil {
			return max(i, 1)
		}
	}
	return n
}

// affords reports whether so much more may come under way.
func (c *Core) affords(credit int) bool {
	s := &c.session
	used := s.credit
	if c.caughtUp >= c.epoch {
		used += s.bytes
	}
	return used == 0 || used+credit <= c.cfg.Limits.RoundBytes
}

// question opens a question.
func (c *Core) question(now clock.Instant, a ask) {
	s := &c.session
	s.asked++
	a.id = s.asked
	s.credit += a.credit
	s.asks = append(s.asks, a)
	c.pose(now, &s.asks[len(s.asks)-1])
}

// pose sends an open question.
func (c *Core) pose(now clock.Instant, a *ask) {
	s := &c.session
	a.at = now
	a.tries++
	p := c.byID[a.peer]
	if len(a.keys) == 0 {
		c.send(p, &Compare{Session: s.id, Ask: a.id, Start: s.next, Sums: c.store.sums()})
		return
	}
	if a.own && len(a.keys) == 1 {
		if m := c.askParts(a.keys[0].key); m != nil {
			m.Ask = a.id
			c.send(p, m)
			return
		}
	}
	m := &Fetch{Session: s.id, Ask: a.id, Credit: a.credit, Keys: make([]string, len(a.keys))}
	for i := range a.keys {
		m.Keys[i] = a.keys[i].key
	}
	c.send(p, m)
}

// answered takes out the question that a message from p answers.
func (c *Core) answered(now clock.Instant, p *peer, id, number uint64) (a ask, ok bool) {
	s := &c.session
	if s.peer == 0 || s.id != id {
		return a, false
	}
	for j := range s.lanes {
		if l := &s.lanes[j]; l.peer == p.id {
			l.heard, l.late = now, false
		}
	}
	i := slices.IndexFunc(s.asks, func(a ask) bool { return a.id == number && a.peer == p.id })
	if i < 0 {
		return a, false
	}
	a = s.asks[i]
	l := &s.lanes[slices.IndexFunc(s.lanes, func(l lane) bool { return l.peer == p.id })]
	if len(a.keys) > 0 {
		l.took = max(now.Sub(a.at), l.took/2)
	}
	s.asks = slices.Delete(s.asks, i, i+1)
	s.credit -= a.credit
	return a, true
}

func (c *Core) onDiffer(now clock.Instant, p *peer, m *Differ) {
	a, ok := c.answered(now, p, m.Session, m.Ask)
	if !ok || len(a.keys) > 0 {
		return
	}
	s := &c.session
	if !s.begun {
		s.begun, s.vector, s.fences = true, m.Vector, m.Fences
		s.epoch = min(s.epoch, m.Epoch)
	}
	s.next = max(s.next+1, m.Next)
	for i, k := range m.Keys {
		if c.store.print(k) != m.Prints[i] {
			_, v := c.partial(k)
			c.giveBack([]wanted{{k, m.Prints[i]}}, v != nil)
		}
	}
	c.feed(now)
}

func (c *Core) onValues(now clock.Instant, p *peer, m *Values) {
	took := c.take(p, m.Items)
	c.stats.ValuesReceived += uint64(len(m.Items))
	a, ok := c.answered(now, p, m.Session, m.Ask)
	switch {
	case !ok:
		return
	case !took && c.blunder != blunderClaimRefused, m.Answered == 0, m.Answered > len(a.keys):
		// The session must not claim to have everything.
		c.abandon()
		return
	}
	s := &c.session
	for i := range m.Items {
		s.bytes += m.Items[i].size()
	}
	got, rest := a.keys[:m.Answered], a.keys[m.Answered:]
	if len(rest) > 0 {
		c.giveBack(rest, a.own)
		s.chunk = min(max(2*m.Answered, fetchKeysMin), c.cfg.fetchKeys)
	} else if len(got) == s.chunk {
		s.chunk = min(2*s.chunk, c.cfg.fetchKeys)
	}
	if p.id != s.peer && c.blunder != blunderTrustHelpers {
		c.judge(p, got)
	}
	c.feed(now)
}

// giveBack puts keys where they will be asked for.
func (c *Core) giveBack(keys []wanted, own bool) {
	s := &c.session
	if own {
		s.own = append(s.own, keys...)
	} else {
		s.want = append(s.want, keys...)
	}
}

// judge leaves what a helper held in another state to the source, and dismisses a
// helper if that is the most of what it was asked for.
func (c *Core) judge(p *peer, got []wanted) {
	s := &c.session
	missed := 0
	for _, w := range got {
		if c.store.print(w.key) != w.print {
			s.own = append(s.own, w)
			missed++
		}
	}
	if 2*missed > len(got) {
		c.dismiss(p.id)
	}
}

// dismiss takes a lane away, or ends the session if it is the source's.
func (c *Core) dismiss(id gossip.NodeID) {
	s := &c.session
	i := slices.IndexFunc(s.lanes, func(l lane) bool { return l.peer == id })
	switch {
	case i < 0:
		return
	case i == 0:
		c.abandon()
		return
	}
	c.stats.LanesDismissed++
	s.lanes = slices.Delete(s.lanes, i, i+1)
	s.dismissed = append(s.dismissed, id)
	s.asks = slices.DeleteFunc(s.asks, func(a ask) bool {
		if a.peer == id {
			s.credit -= a.credit
			c.giveBack(a.keys, a.own)
		}
		return a.peer == id
	})
}

// due returns when an open question is late. Slow answers before it, one that comes
// in parts, or another one on its way before it, give it more time.
func (c *Core) due(a *ask) clock.Instant {
	since, wait := a.at, c.wait(a.tries-1)
	for i := range c.session.lanes {
		l := &c.session.lanes[i]
		switch {
		case l.peer != a.peer:
			continue
		case len(a.keys) > 0 && l.took == 0:
			wait *= 4 // it may be much that comes, over a slow link
		case len(a.keys) > 0:
			wait = max(2*wait, 4*l.took)
		}
		since = max(since, l.heard)
	}
	return max(since, c.byID[a.peer].in.at).Add(wait)
}

// nextDue returns when the first open question is late.
func (c *Core) nextDue() clock.Instant {
	d := clock.Never
	for i := range c.session.asks {
		d = clock.Min(d, c.due(&c.session.asks[i]))
	}
	return d
}

// retrySession sees to the questions that are late.
func (c *Core) retrySession(now clock.Instant) {
	for now >= c.nextDue() {
		s := &c.session
		i := slices.IndexFunc(s.asks, func(a ask) bool { return now >= c.due(&a) })
		a := &s.asks[i]
		if a.peer != s.peer {
			c.dismiss(a.peer)
			c.feed(now)
			continue
		}
		source := &s.lanes[0]
		if now.Sub(max(source.heard, c.byID[s.peer].in.at)) > silenceMax*c.cfg.ResendAfter {
			c.abandon()
			return
		}
		if len(a.keys) > 0 && !a.own && len(s.lanes) > 1 {
			// Others may be quicker.
			source.late = true
			c.giveBack(a.keys, false)
			s.credit -= a.credit
			s.asks = slices.Delete(s.asks, i, i+1)
			c.feed(now)
			continue
		}
		c.pose(now, a)
	}
}

// unlevelLane: what a peer sent is of another floor. If it is the source, so is what
// it has told about its keys.
func (c *Core) unlevelLane(now clock.Instant, p *peer, m *Values) {
	if s := &c.session; s.peer != 0 && s.id == m.Session {
		c.dismiss(p.id)
		c.feed(now)
	}
}

// laneLost moves what was asked of a peer to the others.
func (c *Core) laneLost(now clock.Instant, id gossip.NodeID) {
	if c.session.peer == 0 {
		return
	}
	if c.session.peer == id {
		c.abandon()
		c.gossipAt = clock.Min(c.gossipAt, now.Add(time.Millisecond))
		return
	}
	c.dismiss(id)
	c.feed(now)
}

// What a session asks of others is answered here. Nothing is remembered between
// two answers.

func (c *Core) onCompare(p *peer, m *Compare) {
	if len(m.Sums) != bucketCount {
		return
	}
	out := &Differ{Session: m.Session, Ask: m.Ask, Epoch: c.epoch, Next: bucketCount, Vector: c.vector(), Fences: c.fences.all()}
	size := 0
	for i := m.Start; i < bucketCount; i++ {
		b := &c.store.buckets[i]
		if b.sum == m.Sums[i] {
			continue
		}
		if size > c.cfg.Limits.FrameBytes/2 {
			out.Next = i
			break
		}
		for _, it := range b.sorted() {
			out.Keys = append(out.Keys, it.key)
			out.Prints = append(out.Prints, it.print)
			size += len(it.key) + 10
		}
	}
	c.send(p, out)
}

func (c *Core) onFetch(p *peer, m *Fetch) {
	out := &Values{Floor: c.floor, Horizon: c.horizon, Session: m.Session, Ask: m.Ask}
	size, most := 0, min(c.cfg.Limits.FrameBytes, m.Credit)
	for _, k := range m.Keys {
		it := c.store.get(k)
		if it != nil && size > 0 && size+it.bytes+len(k)+12 > most {
			break
		}
		out.Answered++
		if it != nil {
			out.Items = append(out.Items, full(it))
			size += out.Items[len(out.Items)-1].size()
		}
	}
	c.stats.ValuesSent += uint64(len(out.Items))
	c.send(p, out)
}
