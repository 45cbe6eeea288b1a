package transport

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
)

// peerTable holds the learnt nodes, and those that are forgotten for good. Readers take
// no lock: Send looks up its peer in an immutable map.
type peerTable struct {
	byID atomic.Pointer[map[gossip.NodeID]*outgoing]

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

// stop ends the links and empties their queues; the queued frames are counted with the
// reason.
func (p *outgoing) stop(why DropReason) {
	for c := range p.links {
		p.links[c].stopLink(why)
	}
}

func (t *peerTable) initTable(forgottenMax int) {
	t.byID.Store(&map[gossip.NodeID]*outgoing{})
	t.forgotten = make(map[gossip.NodeID]struct{})
	t.ring = make([]gossip.NodeID, 0, forgottenMax)
}

func (t *peerTable) peerOf(id gossip.NodeID) *outgoing { return (*t.byID.Load())[id] }

func (t *peerTable) allLinks() map[gossip.NodeID]*outgoing { return *t.byID.Load() }

// allAfterClose is all, complete once the engine's context has ended: addPeers checks the
// context under the same lock.
func (t *peerTable) allAfterClose() map[gossip.NodeID]*outgoing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allLinks()
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

// Learn adds addresses of nodes.
func (e *engine) Learn(peers ...Peer) {
	e.know(peers...)
	for i := range peers {
		if p := e.peers.peerOf(peers[i].ID); p != nil {
			p.links[Control].startLink()
		}
	}
}

// know adds nodes; none is dialled before a frame is sent to it.
func (e *engine) know(peers ...Peer) {
	t := &e.peers
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.ctx.Err() != nil {
		return
	}
	changed := false
	next := *t.byID.Load()
	for _, p := range peers {
		known := next[p.ID]
		if _, gone := t.forgotten[p.ID]; gone || p.ID == e.self.ID || p.ID == 0 || known.keeps(p) {
			continue
		}
		if known == nil && len(next) >= e.cfg.PeersMax {
			e.log.line(slog.LevelWarn, "too many peers, one is ignored: raise PeersMax", slog.String("peer", p.Name), slog.Int("max", e.cfg.PeersMax))
			continue
		}
		if !changed {
			next, changed = maps.Clone(next), true
		}
		o := &outgoing{Peer: p}
		for c := range o.links {
			o.links[c].initLink(e, p, Class(c), &o.reached)
		}
		if known != nil {
			known.stop(DropForgotten)
		}
		next[p.ID] = o
	}
	if changed {
		t.byID.Store(&next)
		e.counters.Peers.Store(int64(len(next)))
	}
}

// Unlearn closes the connections to nodes and stops dialling them.
func (e *engine) Unlearn(ids ...gossip.NodeID) {
	e.removePeers(ids, false)
	e.endDropped(ids)
}

// Forget closes the connections of nodes and refuses them from now on.
func (e *engine) Forget(ids ...gossip.NodeID) {
	e.removePeers(ids, true)
	e.acceptedMu.Lock()
	defer e.acceptedMu.Unlock()
	for _, id := range ids {
		for c := range classes {
			if in := e.accepted[connKey{id, c}]; in != nil {
				delete(e.accepted, connKey{id, c})
				e.fence(in)
			}
		}
	}
}

func (e *engine) removePeers(ids []gossip.NodeID, forever bool) {
	t := &e.peers
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.byID.Load()
	var gone []*outgoing
	for _, id := range ids {
		if forever && id != 0 && id != e.self.ID {
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
	t.byID.Store(&next)
	e.counters.Peers.Store(int64(len(next)))
	for _, p := range gone {
		p.stop(DropForgotten)
	}
}

func (e *engine) queueBytes(c Class) int {
	if c >= classes {
		return 0
	}
	n := 0
	for _, p := range e.peers.allLinks() {
		n += p.links[c].queued()
	}
	return n
}
