package transport

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// peerTable holds the learnt nodes with the links to them, and the nodes that are forgotten
// for good. Readers take no lock: Send looks up its peer in an immutable map.
type peerTable struct {
	cfg   *Config
	log   *limitedLogger
	links linkShared
	byID  atomic.Pointer[map[gossip.NodeID]*outgoing]

	// mu orders the writers.
	mu sync.Mutex
	// forgotten holds the ids of ring, which overwrites its oldest.
	// Invariant: no id is in byID and forgotten; len(forgotten) <= cap(ring).
	forgotten map[gossip.NodeID]struct{}
	ring      []gossip.NodeID
	next      int
}

// outgoing is a learnt peer with our links to it.
type outgoing struct {
	Peer
	links   [classes]link
	reached atomic.Bool
}

// keeps reports whether a newly learnt address changes nothing: it is the same, or the
// peer has already answered at the present one. An address at which the peer never
// answered is unconfirmed.
func (p *outgoing) keeps(told Peer) bool {
	return p != nil && (told.Addr == p.Addr || told.Addr == "" || p.reached.Load())
}

// stopLinks ends the links and empties their queues; the queued frames are counted with the
// reason.
func (p *outgoing) stopLinks(why DropReason) {
	for c := range p.links {
		p.links[c].stopLink(why)
	}
}

func (t *peerTable) initTable(cfg *Config, log *limitedLogger) {
	t.cfg, t.log = cfg, log
	t.byID.Store(&map[gossip.NodeID]*outgoing{})
	t.forgotten = make(map[gossip.NodeID]struct{})
	t.ring = make([]gossip.NodeID, 0, cfg.ForgottenMax)
}

func (t *peerTable) peerOf(id gossip.NodeID) *outgoing { return (*t.byID.Load())[id] }

// linkTo returns our link to a peer, or the error of Send.
func (t *peerTable) linkTo(to gossip.NodeID, c Class) (*link, error) {
	p := t.peerOf(to)
	if p == nil || c >= classes {
		t.links.counters.Drops[DropUnknownPeer].Add(1)
		return nil, ErrUnknownPeer
	}
	return &p.links[c], nil
}

func (t *peerTable) allLinks() map[gossip.NodeID]*outgoing { return *t.byID.Load() }

// startLinks starts the links that are interested, once the engine has started.
func (t *peerTable) startLinks() {
	for _, p := range t.allLinks() {
		for c := range p.links {
			p.links[c].startLink()
		}
	}
}

// stopLinks stops all links. The context has ended, and addPeers checks it under the same
// lock, so no link is added afterwards.
func (t *peerTable) stopLinks() {
	t.mu.Lock()
	all := t.allLinks()
	t.mu.Unlock()
	for _, p := range all {
		p.stopLinks(DropClosed)
	}
}

// awaitEmpty blocks until no link has a queued frame.
func (t *peerTable) awaitEmpty(ctx context.Context) error {
	for _, p := range t.allLinks() {
		for c := range p.links {
			switch err := p.links[c].awaitLevel(ctx, 0); err {
			case nil, ErrUnknownPeer:
			default:
				return err
			}
		}
	}
	return nil
}

// queueBytes returns how much the queues of a class hold.
func (t *peerTable) queueBytes(c Class) int {
	if c >= classes {
		return 0
	}
	n := 0
	for _, p := range t.allLinks() {
		n += p.links[c].queued()
	}
	return n
}

// longestRoundTrip returns the longest round trip to a peer with an open control connection.
func (t *peerTable) longestRoundTrip() (d time.Duration) {
	for _, p := range t.allLinks() {
		d = max(d, p.links[Control].roundTripNow())
	}
	return d
}

func (t *peerTable) isForgotten(id gossip.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.forgotten[id]
	return ok
}

// remember adds id to the forgotten. The caller holds mu.
func (t *peerTable) remember(id gossip.NodeID) {
	if _, ok := t.forgotten[id]; ok {
		return
	}
	if len(t.ring) < cap(t.ring) {
		t.ring = append(t.ring, id)
	} else {
		delete(t.forgotten, t.ring[t.next])
		t.ring[t.next] = id
		t.next = (t.next + 1) % len(t.ring)
	}
	t.forgotten[id] = struct{}{}
}

// addPeers adds nodes; none is dialled before a frame is sent to it.
func (t *peerTable) addPeers(peers ...Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.links.life.ctx.Err() != nil {
		return
	}
	changed := false
	next := *t.byID.Load()
	for _, p := range peers {
		known := next[p.ID]
		if _, gone := t.forgotten[p.ID]; gone || p.ID == t.cfg.ID || p.ID == 0 || known.keeps(p) {
			continue
		}
		if known == nil && len(next) >= t.cfg.PeersMax {
			t.log.writeLine(slog.LevelWarn, "too many peers, one is ignored: raise PeersMax", slog.String("peer", p.Name), slog.Int("max", t.cfg.PeersMax))
			continue
		}
		if !changed {
			next, changed = maps.Clone(next), true
		}
		o := &outgoing{Peer: p}
		for c := range o.links {
			o.links[c].initLink(&t.links, p, Class(c), &o.reached)
		}
		if known != nil {
			known.stopLinks(DropForgotten)
		}
		next[p.ID] = o
	}
	if changed {
		t.replaceAll(next)
	}
}

// removePeers stops the links to nodes; forever: the nodes are forgotten.
func (t *peerTable) removePeers(ids []gossip.NodeID, forever bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.byID.Load()
	var gone []*outgoing
	for _, id := range ids {
		if forever && id != 0 && id != t.cfg.ID {
			t.remember(id)
		}
		p := next[id]
		if p == nil {
			continue
		}
		if gone == nil {
			next = maps.Clone(next)
		}
		delete(next, id)
		gone = append(gone, p)
	}
	if gone == nil {
		return
	}
	t.replaceAll(next)
	for _, p := range gone {
		p.stopLinks(DropForgotten)
	}
}

// replaceAll publishes a new map. The caller holds mu.
func (t *peerTable) replaceAll(next map[gossip.NodeID]*outgoing) {
	t.byID.Store(&next)
	t.links.counters.Peers.Store(int64(len(next)))
}
