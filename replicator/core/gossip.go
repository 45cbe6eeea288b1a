package core

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// Anti-entropy
//
// Every round one peer gets a Status: the root digest, and the vector of what has
// been seen of every stream. Equal roots end it. If they differ because entries
// are on their way, the streams will see to it, and comparing more would only move
// large values for nothing; else the receiver opens a session and pulls:
//
//	Status  ->            root, vector
//	        <- Compare    sums of 256 buckets
//	Differ  ->            fingerprints of the keys in buckets that differ
//	        <- Fetch      keys, again and again
//	Values  ->            as many as fit into a frame
//
// Each side only pulls, so a value travels to whom it is new and nobody decides
// for another. A replica runs one session at a time and pulls frame by frame: a
// slow peer slows itself only.

// session is a pull of everything that one peer holds beyond us. The zero
// session is none.
type session struct {
	id   uint64
	peer view.NodeID
	// epoch is the older one of the two sides' views at its beginning, vector and
	// fences what the peer held then.
	epoch  view.Epoch
	vector []Seen
	fences []Fence
	begun  bool
	next   int
	want   []string
	bytes  int
	// ask numbers the newest question, retryAt is when it is asked again, tries how
	// often it was.
	ask     uint64
	retryAt clock.Instant
	tries   int
}

// sessionTriesMax ends a session whose peer does not answer.
const sessionTriesMax = 8

// gossip is one round.
func (c *Core) gossip(now clock.Instant) {
	c.gossipAt = now.Add(c.roundWait())
	if len(c.peers) == 0 {
		return
	}
	c.round++
	if c.caughtUp < c.epoch || len(c.former) > 0 {
		for _, p := range c.peers {
			c.sendStatus(p, p.synced < c.epoch || p.caughtUp < c.epoch)
		}
		return
	}
	c.sendStatus(c.peers[(c.cfg.Seed+c.round)%uint64(len(c.peers))], true)
}

// roundWait is short while the view is not settled.
func (c *Core) roundWait() time.Duration {
	if len(c.former) > 0 {
		return min(2*c.cfg.ResendAfter, c.cfg.GossipEvery)
	}
	return c.cfg.GossipEvery
}

func (c *Core) sendStatus(p *peer, reply bool) {
	if c.cfg.NoGossip {
		return
	}
	c.send(p, &Status{Epoch: c.epoch, Floor: c.floor, CaughtUp: c.caughtUp, Root: c.store.root, Keys: uint64(c.store.keys),
		Vector: c.vector(), Fences: c.fences.all(), Reply: reply})
}

// vector returns what has been seen of every stream, sorted by node.
func (c *Core) vector() []Seen {
	out := make([]Seen, 0, len(c.tracks)+1)
	if c.log.last() > 0 {
		out = append(out, c.seenOf(c.cfg.Self))
	}
	for id := range c.tracks {
		out = append(out, c.seenOf(id))
	}
	slices.SortFunc(out, func(a, b Seen) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return out
}

func (c *Core) onStatus(now clock.Instant, p *peer, m *Status) {
	c.takeFences(p.id, m.Fences)
	p.caughtUp = max(p.caughtUp, m.CaughtUp)
	if i := slices.IndexFunc(m.Vector, func(s Seen) bool { return s.Node == c.cfg.Self }); i >= 0 {
		c.progress(now, p, m.Vector[i].Seen, 0, 0)
	}
	if !c.levelWith(p, m.Floor) {
		// What differs because of that says nothing.
		if m.Reply {
			c.sendStatus(p, false)
		}
		return
	}
	if m.Root == c.store.root {
		p.differed = 0
		c.caught(now, p, min(m.Epoch, c.epoch), m.Vector)
	} else {
		p.differed++
		if c.session.peer == 0 && c.mustPull(m, p) {
			c.startSession(now, p)
		}
		c.catchUp(now)
	}
	if m.Reply {
		c.sendStatus(p, false)
	}
}

// mustPull reports whether streams alone will not make the difference go away.
func (c *Core) mustPull(m *Status, p *peer) bool {
	if c.cfg.NoStream || p.synced < c.epoch && c.caughtUp < c.epoch || p.differed >= 3 {
		return true
	}
	level := true
	for _, s := range m.Vector {
		mine := c.seenOf(s.Node)
		if s.Top > mine.Seen && !c.present(s.Node) {
			return true
		}
		level = level && mine.Seen == s.Seen && mine.Top == s.Top
	}
	return level
}

// caught notes that everything a peer held when it said so is held here.
func (c *Core) caught(now clock.Instant, p *peer, epoch view.Epoch, vector []Seen) {
	for _, s := range vector {
		if s.Node == c.cfg.Self {
			continue
		}
		t := c.tracks[s.Node]
		if t == nil {
			if !c.present(s.Node) && c.forgotten() {
				continue
			}
			t = &track{}
			c.tracks[s.Node] = t
		}
		t.reach(s.Seen)
	}
	p.synced = max(p.synced, epoch)
	c.catchUp(now)
	if c.forgotten() {
		for id := range c.tracks { // order-free: deletes only
			if !c.present(id) {
				delete(c.tracks, id)
			}
		}
	}
}

// forgotten reports whether the streams of nodes outside the view are of no more
// use: every peer has caught up with this view.
func (c *Core) forgotten() bool {
	for _, p := range c.peers {
		if p.caughtUp < c.epoch {
			return false
		}
	}
	return c.caughtUp >= c.epoch
}

func (c *Core) startSession(now clock.Instant, p *peer) {
	c.ids++
	c.stats.Descents++
	c.trace(TraceEvent{Kind: TraceDescend, Peer: p.id})
	p.differed = 0
	c.session = session{id: c.ids, peer: p.id, epoch: c.epoch}
	c.question(now, p)
}

// question asks the peer for what the session needs next.
func (c *Core) question(now clock.Instant, p *peer) {
	s := &c.session
	s.retryAt = now.Add(c.wait(s.tries))
	s.tries++
	if len(s.want) > 0 {
		c.send(p, &Fetch{Session: s.id, Ask: s.ask, Keys: s.want[:min(len(s.want), fetchKeysMax)]})
		return
	}
	c.send(p, &Compare{Session: s.id, Ask: s.ask, Start: s.next, Sums: c.store.sums()})
}

// retrySession asks again, or gives the session up.
func (c *Core) retrySession(now clock.Instant) {
	s := &c.session
	if s.peer == 0 || now.Before(s.retryAt) {
		return
	}
	p := c.byID[s.peer]
	if p == nil || s.tries >= sessionTriesMax {
		*s = session{}
		return
	}
	if len(p.in.open) > 0 && p.in.open[len(p.in.open)-1].got != nil {
		// The answer is coming in, in parts.
		s.tries = 0
	}
	c.question(now, p)
}

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

// current returns the session if a message from p answers its newest question.
func (c *Core) current(p *peer, id, ask uint64) *session {
	if c.session.peer != p.id || c.session.id != id || c.session.ask != ask {
		return nil
	}
	return &c.session
}

func (c *Core) onDiffer(now clock.Instant, p *peer, m *Differ) {
	s := c.current(p, m.Session, m.Ask)
	if s == nil {
		return
	}
	if !s.begun {
		s.begun, s.vector, s.fences = true, m.Vector, m.Fences
		s.epoch = min(s.epoch, m.Epoch)
	}
	s.next = m.Next
	for i, k := range m.Keys {
		if c.store.print(k) != m.Prints[i] {
			s.want = append(s.want, k)
		}
	}
	c.pull(now, p)
}

// fetchKeysMax bounds the keys of one Fetch.
const fetchKeysMax = 1024

// pull goes on with the session: next values, next buckets, or its end.
func (c *Core) pull(now clock.Instant, p *peer) {
	s := &c.session
	switch {
	case s.bytes > c.cfg.Limits.RoundBytes && c.caughtUp >= c.epoch:
		// Enough for this round; the rest differs in the next one too.
		*s = session{}
	case len(s.want) > 0 || s.next < bucketCount:
		s.ask++
		s.tries = 0
		c.question(now, p)
	default:
		done := *s
		*s = session{}
		c.trace(TraceEvent{Kind: TraceSynced, Peer: p.id, Bytes: done.bytes})
		c.takeFences(p.id, done.fences)
		c.caught(now, p, done.epoch, done.vector)
	}
}

func (c *Core) onFetch(p *peer, m *Fetch) {
	out := &Values{Floor: c.floor, Session: m.Session, Ask: m.Ask}
	size := 0
	for _, k := range m.Keys {
		it := c.store.get(k)
		if it != nil && size > 0 && size+it.bytes+len(k) > c.cfg.Limits.FrameBytes {
			break
		}
		out.Answered++
		if it != nil {
			out.Items = append(out.Items, full(it))
			size += it.bytes + len(k) + 12
		}
	}
	c.stats.ValuesSent += uint64(len(out.Items))
	c.send(p, out)
}

func (c *Core) onValues(now clock.Instant, p *peer, m *Values) {
	took := c.take(p, m.Items)
	c.stats.ValuesReceived += uint64(len(m.Items))
	s := c.current(p, m.Session, m.Ask)
	if s == nil || m.Answered == 0 || m.Answered > len(s.want) {
		return
	}
	if !took {
		// The session must not claim to have everything.
		c.session = session{}
		return
	}
	for i := range m.Items {
		s.bytes += m.Items[i].size()
	}
	s.want = s.want[m.Answered:]
	c.pull(now, p)
}
