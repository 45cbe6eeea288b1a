package network

import (
	"cmp"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/fence"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// Receiver is the process behind an endpoint. Its methods are called on the process's thread.
type Receiver interface {
	// Receive takes a frame.
	Receive(from gossip.NodeID, f Frame)
	// PeerEvent takes an event of a connection. Former is the node that was dialed, if another
	// one answered.
	PeerEvent(typ transport.PeerEventType, class transport.Class, peer, former gossip.NodeID)
}

// Identity names the process behind an endpoint.
type Identity struct {
	// Slot is the number of the host.
	Slot int
	Node gossip.NodeID
	// Label is the name of the process in the trace.
	Label string
	// Process and Incarnation order what successive incarnations of one process send.
	Process, Incarnation uint64
}

// Endpoint is the transport of one process.
type Endpoint struct {
	run      *run.Run
	fabric   *fabric
	all      *endpoints
	slot     int
	id       Identity
	thread   *virtual.Thread
	receiver Receiver
	held     held
	// closed endpoints pass no frames to their process.
	closed bool
	// sent and sentBytes count the messages that were encoded for other nodes.
	sent, sentBytes uint64

	out, in map[peerClass]*Conn
	dials   []dialState
	// forgotten are the peers whose death is certain: nothing passes between them and here.
	forgotten map[gossip.NodeID]bool
	// incarnations and dropped fence frames that come late.
	incarnations *fence.Marks[uint64]
	dropped      *fence.Dropped[gossip.NodeID]
}

type peerClass struct {
	id    gossip.NodeID
	class transport.Class
}

// endpoints are those of all processes.
type endpoints struct {
	// onHost has the endpoint of the process that runs on each host, nil if none does; byID all
	// that ever were.
	onHost []*Endpoint
	byID   map[gossip.NodeID]*Endpoint
	// delivered counts the frames that a process handled.
	delivered int
}

// connections returns the live connections of all processes in a fixed order.
func (s *endpoints) connections() []*Conn {
	var all []*Conn
	for _, e := range s.onHost {
		if e != nil {
			all = append(all, e.outgoing()...)
		}
	}
	return all
}

// between returns the live connections between the processes of two hosts, in the order of
// connections.
func (s *endpoints) between(a, b int) []*Conn {
	return append(s.onHost[min(a, b)].outgoingTo(max(a, b)), s.onHost[max(a, b)].outgoingTo(min(a, b))...)
}

// fenceMax bounds the tables of package fence: no run has as many incarnations.
const fenceMax = 1 << 16

func newEndpoint(f *fabric, all *endpoints, id Identity, t *virtual.Thread, r Receiver) *Endpoint {
	e := &Endpoint{
		run: f.run, fabric: f, all: all, slot: id.Slot, id: id, thread: t, receiver: r,
		out: map[peerClass]*Conn{}, in: map[peerClass]*Conn{}, forgotten: map[gossip.NodeID]bool{}, dials: make([]dialState, len(f.machines)),
		incarnations: fence.NewMarks(fenceMax, func(uint64) bool { return false }),
		dropped:      fence.NewDropped[gossip.NodeID](fenceMax),
	}
	all.onHost[id.Slot], all.byID[id.Node] = e, e
	return e
}

// StopAtSend has stop be called before the process sends its next control frame. If stop pauses
// the process, and returns true, then that frame and those behind it leave when the pause ends.
func (e *Endpoint) StopAtSend(stop func() bool) { e.held.stop = stop }

// Send queues a frame as Transport.Send does: nil means queued.
func (e *Endpoint) Send(to gossip.NodeID, class transport.Class, f Frame) error {
	if !e.Reaches(to) {
		return transport.ErrUnknownPeer
	}
	if f.Kind == transport.KindView && e.held.holdFrame(e.thread, func() { _ = e.sendNow(to, class, f) }) {
		return nil
	}
	return e.sendNow(to, class, f)
}

// sendNow queues a frame to a peer that is reached.
func (e *Endpoint) sendNow(to gossip.NodeID, class transport.Class, f Frame) error {
	peer := e.all.byID[to]
	e.recode(&f)
	if e.run.Config.Datagrams && f.Kind == transport.KindView {
		e.sendDatagram(peer, f)
		return nil
	}
	c := e.dialed(peer, class)
	if len(c.pending) >= e.run.Config.QueueFramesMax {
		e.run.Hit(coverage.QueueFull)
		return transport.ErrQueueFull
	}
	wait, room := e.fabric.sendOver(e.slot, &f)
	if !room {
		return transport.ErrQueueFull
	}
	due := e.run.Now().Add(wait + e.fabric.drawLatency(e.slot, peer.slot, class))
	if n := len(c.pending); n > 0 {
		due = max(due, c.pending[n-1].due)
	}
	f.number = e.recordSend(peer, &f)
	c.pending = append(c.pending, flight{due, f})
	c.pump()
	return nil
}

// SendUnordered sends a frame to a protocol that retransmits: as a datagram, if the run has any.
func (e *Endpoint) SendUnordered(to gossip.NodeID, class transport.Class, f Frame) {
	if !e.held.holdFrame(e.thread, func() { e.sendUnorderedNow(to, class, f) }) {
		e.sendUnorderedNow(to, class, f)
	}
}

func (e *Endpoint) sendUnorderedNow(to gossip.NodeID, class transport.Class, f Frame) {
	if e.run.Config.Datagrams && e.Reaches(to) {
		e.recode(&f)
		e.sendDatagram(e.all.byID[to], f)
		return
	}
	_ = e.Send(to, class, f)
}

// sendDatagram sends a control frame that may be lost, duplicated or late.
// Some runs do so to test the protocols that claim to need no delivery guarantee.
func (e *Endpoint) sendDatagram(to *Endpoint, f Frame) {
	r, s := e.run.Rand.Net, &e.run.Config
	f.number = e.recordSend(to, &f)
	copies := 1
	if r.Chance(s.DropPercent) {
		copies = 0
	} else if r.Chance(s.DupPercent) {
		copies = 2
	}
	for range copies {
		wait, room := e.fabric.sendOver(e.slot, &f)
		if !room {
			continue
		}
		d := wait + e.fabric.drawLatency(e.slot, to.slot, transport.Control)
		if r.Chance(s.LatePercent) {
			d += r.Duration(0, s.Late)
		}
		e.run.After(d, func() {
			if e.fabric.blockOf(e.slot, to.slot) == Open {
				to.thread.Run(func() { to.passFrame(e.id.Node, f) })
			}
		})
	}
}

// Sent returns how many messages the process has sent or tried to, and the bytes of those of views
// and of coordinators and regions as they are encoded.
func (e *Endpoint) Sent() (messages, bytes uint64) { return e.sent, e.sentBytes }

// Reaches reports whether frames to a node are accepted.
func (e *Endpoint) Reaches(to gossip.NodeID) bool {
	return e.all.byID[to] != nil && !e.forgotten[to]
}

// AwaitRoom calls then when the connection to a peer has room, with false if the peer is
// unknown.
func (e *Endpoint) AwaitRoom(to gossip.NodeID, class transport.Class, then func(reachable bool)) {
	reachable := e.Reaches(to)
	if c := e.out[peerClass{to, class}]; reachable && c != nil && len(c.pending) > e.run.Config.QueueFramesMax/2 {
		c.room = append(c.room, then)
		return
	}
	then(reachable)
}

// Dial keeps a control connection to a node. It returns false if there is no such node.
func (e *Endpoint) Dial(id gossip.NodeID) bool {
	to := e.all.byID[id]
	if to != nil {
		e.dialed(to, transport.Control)
	}
	return to != nil
}

// Living reports whether a node is a process that runs, and has not been removed.
func (e *Endpoint) Living(id gossip.NodeID) bool {
	peer := e.all.byID[id]
	return peer != nil && peer.thread.Alive() && !peer.closed
}

// Forget refuses all frames to and from a peer from now on.
func (e *Endpoint) Forget(id gossip.NodeID) { e.forgotten[id] = true }

// Close ends the delivery of frames to the process. Its connections stay until Detach.
func (e *Endpoint) Close() { e.closed = true }

// Detach ends the connections of a process that has ended. Its kernel notifies the peers, unless
// the machine crashed with the process.
func (e *Endpoint) Detach() {
	host := &e.fabric.machines[e.slot]
	e.all.onHost[e.slot] = nil
	for _, c := range e.outgoing() {
		if c.state == up && !host.down && (e.run.Rand.Net.Coin() || e.run.Config.LateBytes) {
			// The kernel still sends the bytes that it had taken, then the end of the stream.
			c.linger()
			continue
		}
		c.state = dead
		c.reportEnd()
	}
	for _, peer := range e.all.onHost {
		for _, c := range peer.outgoingTo(e.slot) {
			if c.to == e && c.state == up {
				e.run.After(host.latency[c.from.slot], func() {
					if c.state == up && c.stalled == virtual.Never {
						c.onPeerGone()
					}
				})
			}
		}
	}
}

// PortClosed reports how the host of a peer answers a dial in its own name: with a refusal,
// since the peer's process has ended, or with one that a firewall forged.
func (e *Endpoint) PortClosed(id gossip.NodeID) (refused, forged bool) {
	to := e.all.byID[id]
	if to == nil {
		return false, false
	}
	switch e.fabric.blocked(e.slot, to.slot) {
	case Open:
		m := &e.fabric.machines[to.slot]
		return !m.down && !m.tenant && e.all.onHost[to.slot] != to, false
	case Reject:
		return false, e.run.Config.Forged
	}
	return false, false
}

// admits decides, as an accepting transport does, whether a connection is welcome, and
// ends those that it supersedes.
func (e *Endpoint) admits(c *Conn) bool {
	from := &c.from.id
	if c.class != transport.Control && e.dropped.Has(from.Node) {
		return false
	}
	switch e.incarnations.Accept(from.Process, from.Incarnation) {
	case fence.Superseded, fence.Full:
		return false
	}
	for _, old := range e.acceptedBefore(from) {
		old.fence()
	}
	return true
}

// FenceDropped ends the connections of members that a newer view has dropped.
func (e *Endpoint) FenceDropped(v *gossip.View) {
	ids := make([]gossip.NodeID, len(v.Members))
	for i := range v.Members {
		ids[i] = v.Members[i].ID
	}
	for _, id := range e.dropped.SetMembers(ids) {
		for _, class := range []transport.Class{transport.Message, transport.Bulk} {
			if c := e.in[peerClass{id, class}]; c != nil {
				c.fence()
			}
		}
	}
}

// outgoing returns the process's outgoing connections in a fixed order.
func (e *Endpoint) outgoing() []*Conn { return slices.SortedFunc(maps.Values(e.out), compareConns) }

// outgoingTo returns the process's connections to one host, in the order of outgoing. A host
// without a process, whose endpoint is nil, has none.
func (e *Endpoint) outgoingTo(slot int) (to []*Conn) {
	if e == nil {
		return nil
	}
	for _, c := range e.out {
		if c.to.slot == slot {
			to = append(to, c)
		}
	}
	slices.SortFunc(to, compareConns)
	return to
}

// compareConns orders the outgoing connections of one process.
func compareConns(a, b *Conn) int {
	return cmp.Or(cmp.Compare(a.to.id.Node, b.to.id.Node), cmp.Compare(a.class, b.class))
}

// acceptedBefore returns the accepted connections of earlier incarnations of a process, in a fixed
// order.
func (e *Endpoint) acceptedBefore(from *Identity) (earlier []*Conn) {
	if from.Incarnation <= 1 {
		return nil // the first: they are counted from one
	}
	for _, c := range e.in {
		if c.from.id.Process == from.Process && c.from.id.Incarnation < from.Incarnation {
			earlier = append(earlier, c)
		}
	}
	slices.SortFunc(earlier, func(a, b *Conn) int {
		return cmp.Or(cmp.Compare(a.from.id.Node, b.from.id.Node), cmp.Compare(a.class, b.class))
	})
	return earlier
}

// passFrame hands a frame to the process.
func (e *Endpoint) passFrame(from gossip.NodeID, f Frame) {
	if e.closed || e.forgotten[from] {
		return
	}
	e.all.delivered++
	e.run.Record.Handle(f.number)
	e.receiver.Receive(from, f)
}

// notify reports an event of a connection to the process.
func (e *Endpoint) notify(typ transport.PeerEventType, class transport.Class, peer, former gossip.NodeID) {
	e.thread.Run(func() { e.receiver.PeerEvent(typ, class, peer, former) })
}
