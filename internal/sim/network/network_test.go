package network

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// process records what its endpoint reports.
type process struct {
	*Endpoint
	frames []any
	events []transport.PeerEventType
}

func (p *process) Receive(_ gossip.NodeID, f Frame) { p.frames = append(p.frames, f.Msg) }

func (p *process) PeerEvent(typ transport.PeerEventType, _ transport.Class, _, _ gossip.NodeID) {
	p.events = append(p.events, typ)
}

// newTestNetwork returns a network of two hosts without random faults.
func newTestNetwork() (*run.Run, *Network) {
	r := run.New(&seed.Options{Nodes: 2})
	r.Config = seed.Config{Nodes: 2, LatencyMax: time.Millisecond, Spike: time.Millisecond, QueueFramesMax: 4}
	return r, New(r, func(int, int) bool { return false })
}

func attach(r *run.Run, n *Network, slot int, id gossip.NodeID, number, incarnation uint64) *process {
	p := &process{}
	p.Endpoint = n.Attach(Identity{Slot: slot, Node: id, Process: number, Incarnation: incarnation}, virtual.NewThread(&r.Time), p)
	return p
}

func send(t *testing.T, p *process, to gossip.NodeID, msgs ...any) {
	t.Helper()
	for _, m := range msgs {
		if err := p.Send(to, transport.Message, Frame{Kind: transport.KindEntity, Msg: m}); err != nil {
			t.Fatalf("send %v: %v", m, err)
		}
	}
}

func TestFramesArriveInOrder(t *testing.T) {
	r, n := newTestNetwork()
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	send(t, a, 2, "one", "two", "three", "four")
	if err := a.Send(2, transport.Message, Frame{}); !errors.Is(err, transport.ErrQueueFull) {
		t.Errorf("the fifth frame: %v, want %v", err, transport.ErrQueueFull)
	}
	if err := a.Send(3, transport.Message, Frame{}); !errors.Is(err, transport.ErrUnknownPeer) {
		t.Errorf("to an unknown node: %v, want %v", err, transport.ErrUnknownPeer)
	}
	r.Until(virtual.Instant(time.Second))
	if want := []any{"one", "two", "three", "four"}; !slices.Equal(b.frames, want) || n.Delivered() != 4 {
		t.Errorf("received %v, want %v", b.frames, want)
	}
	if !slices.Equal(a.events, []transport.PeerEventType{transport.Connected}) || !slices.Equal(b.events, []transport.PeerEventType{transport.Accepted}) {
		t.Errorf("events %v and %v", a.events, b.events)
	}
}

// letter is a message of a given size.
type letter int

func (l letter) Size() int { return int(l) }

// TestFramesWaitForANarrowLine: a line sends one frame after the other, for all connections of its
// host, and refuses what comes while half a second's worth waits. When faults have ended, nothing waits.
func TestFramesWaitForANarrowLine(t *testing.T) {
	r, n := newTestNetwork()
	r.Config.QueueFramesMax, r.Config.LineBytes = 100, 1000
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	const size = letter(200 - headerBytes)
	send(t, a, 2, size)
	r.Until(virtual.Instant(190 * time.Millisecond))
	if len(b.frames) != 0 {
		t.Errorf("a frame of 0.2 s arrives after %v", time.Duration(r.Now()))
	}
	if err := a.Send(2, transport.Bulk, Frame{Kind: transport.KindEntity, Msg: size}); err != nil {
		t.Fatal(err)
	}
	r.Until(virtual.Instant(210 * time.Millisecond))
	send(t, a, 2, size, size)
	if len(b.frames) != 1 {
		t.Fatalf("%d frames arrive in 0.21 s, want one", len(b.frames))
	}
	if err := a.Send(2, transport.Message, Frame{Kind: transport.KindEntity, Msg: size}); !errors.Is(err, transport.ErrQueueFull) {
		t.Errorf("with 0.59 s of frames before it, a frame: %v", err)
	}
	send(t, b, 1, size) // the line of the other host is free
	r.Until(virtual.Instant(790 * time.Millisecond))
	if len(b.frames) != 3 || len(a.frames) != 1 {
		t.Errorf("%d frames arrive in 0.79 s, and %d in the other direction, want 3 and 1", len(b.frames), len(a.frames))
	}
	r.Calm = true
	send(t, b, 1, size, size, size, size)
	r.Until(virtual.Instant(810 * time.Millisecond))
	if len(b.frames) != 4 || len(a.frames) != 5 {
		t.Errorf("%d frames arrive in 0.81 s, and %d in the other direction, want 4 and 5", len(b.frames), len(a.frames))
	}
}

// A process that stops before it sends sends nothing until it goes on, then all in order and
// before it handles what has come meanwhile. One that ends first never sends.
func TestFramesOfAnInterruptedStepLeaveLater(t *testing.T) {
	for _, ends := range []bool{false, true} {
		r, n := newTestNetwork()
		r.Config.QueueFramesMax = 8
		a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
		word := func(round uint64) any { return &view.Ping{Cluster: 1, Round: round} }
		a.StopAtSend(func() bool {
			a.thread.Pause()
			return true
		})
		send(t, a, 2, "data")
		for round := range uint64(3) {
			if err := a.Send(2, transport.Control, Frame{Kind: transport.KindView, Msg: word(round)}); err != nil {
				t.Fatal(err)
			}
		}
		a.SendUnordered(2, transport.Control, Frame{Kind: transport.KindView, Msg: word(3)})
		a.thread.Run(func() { a.SendUnordered(2, transport.Control, Frame{Kind: transport.KindView, Msg: word(4)}) })
		r.Until(virtual.Instant(time.Second))
		if !slices.Equal(b.frames, []any{"data"}) {
			t.Fatalf("received %v from a process that has stopped", b.frames)
		}
		if ends {
			a.thread.End()
		}
		a.thread.Resume()
		r.Until(virtual.Instant(2 * time.Second))
		var rounds []uint64
		for _, m := range b.frames[1:] {
			rounds = append(rounds, m.(*view.Ping).Round)
		}
		want := []uint64{0, 1, 2, 3, 4}
		if ends {
			want = nil
		}
		if !slices.Equal(rounds, want) {
			t.Errorf("received rounds %v, want %v", rounds, want)
		}
	}
}

// A process of another cluster at the address of one that has ended proves nothing: its answer is
// a failed dial, not a refusal. The next process of the host takes the address back.
func TestATenantOfAnAddressProvesNothing(t *testing.T) {
	r, n := newTestNetwork()
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	if n.LetAddress(1) {
		t.Error("the address of a running process is let")
	}
	send(t, a, 2, "one")
	r.Until(virtual.Instant(time.Second))
	b.thread.End()
	b.Detach()
	if !n.LetAddress(1) {
		t.Fatal("the address of an ended process is not let")
	}
	r.Until(virtual.Instant(2 * time.Second))
	a.events = nil
	a.Dial(2)
	r.Until(virtual.Instant(3 * time.Second))
	if refused, forged := a.PortClosed(2); refused || forged || !slices.Equal(a.events, []transport.PeerEventType{transport.DialFailed}) {
		t.Errorf("events %v, refused %v, forged %v", a.events, refused, forged)
	}
	attach(r, n, 1, 3, 3, 1)
	a.events = nil
	a.Dial(2)
	r.Until(virtual.Instant(4 * time.Second))
	if refused, _ := a.PortClosed(2); !refused || !slices.Equal(a.events, []transport.PeerEventType{transport.OtherNode}) {
		t.Errorf("after the next process started: events %v, refused %v", a.events, refused)
	}
}

// TestPathsThatDropStallConnections: frames wait for the path to open, and are lost when that
// takes too long.
func TestPathsThatDropStallConnections(t *testing.T) {
	r, n := newTestNetwork()
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	send(t, a, 2, "one")
	r.Until(virtual.Instant(time.Second))
	n.SetBoth(0, 1, Drop)
	send(t, a, 2, "two")
	r.Until(r.Now().Add(500 * time.Millisecond))
	n.SetBoth(0, 1, Open)
	r.Until(r.Now().Add(time.Second))
	if !slices.Equal(b.frames, []any{"one", "two"}) {
		t.Fatalf("received %v after a short cut", b.frames)
	}
	n.CutOff(map[int]bool{0: true}, Drop, false)
	send(t, a, 2, "three")
	r.Until(r.Now().Add(5 * time.Second))
	n.OpenAll()
	r.Until(r.Now().Add(5 * time.Second))
	if len(b.frames) != 2 || !slices.Contains(a.events, transport.Lost) {
		t.Errorf("received %v after a long cut, events %v", b.frames, a.events)
	}
}

func TestPathsThatRejectBreakConnections(t *testing.T) {
	r, n := newTestNetwork()
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	send(t, a, 2, "one")
	r.Until(virtual.Instant(time.Second))
	n.SetPath(0, 1, Reject)
	if !slices.Contains(a.events, transport.Lost) {
		t.Fatalf("events %v: the connection stands", a.events)
	}
	a.events = nil
	a.Dial(2)
	r.Until(r.Now().Add(time.Second))
	if !slices.Contains(a.events, transport.Refused) || len(b.frames) != 1 {
		t.Errorf("events %v after a dial", a.events)
	}
	if refused, forged := a.PortClosed(2); refused || forged {
		t.Error("a network that rejects answers as the peer's host")
	}
	n.OpenAll()
	b.thread.End()
	b.Detach()
	if refused, _ := a.PortClosed(2); !refused || a.Living(2) {
		t.Error("the port of a process that has ended is open")
	}
}

// TestLaterIncarnationsFenceEarlierOnes: what an incarnation has sent does not count once the
// next one is connected.
func TestLaterIncarnationsFenceEarlierOnes(t *testing.T) {
	r, n := newTestNetwork()
	r.Config.LateBytes = true
	first, b := attach(r, n, 0, 1, 7, 1), attach(r, n, 1, 2, 2, 1)
	send(t, first, 2, "early")
	r.Until(virtual.Instant(time.Second))
	n.SetPath(0, 1, Drop)
	send(t, first, 2, "late")
	first.thread.End()
	first.Detach() // its kernel still has the frame
	next := attach(r, n, 0, 3, 7, 2)
	n.SetPath(0, 1, Open)
	send(t, next, 2, "next")
	r.Until(r.Now().Add(10 * time.Second))
	if slices.Contains(b.frames, "late") && slices.Index(b.frames, any("late")) > slices.Index(b.frames, any("next")) {
		t.Errorf("received %v", b.frames)
	}
	if !slices.Contains(b.frames, "next") {
		t.Errorf("received %v, without the frame of the next incarnation", b.frames)
	}
}

func TestForgottenPeersAreNotReached(t *testing.T) {
	r, n := newTestNetwork()
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	b.Forget(1)
	send(t, a, 2, "one")
	r.Until(virtual.Instant(time.Second))
	if len(b.frames) > 0 || b.Reaches(1) {
		t.Errorf("received %v of a peer that is forgotten", b.frames)
	}
	b.Close()
	if a.Living(2) {
		t.Error("a closed endpoint counts as living")
	}
}

// TestWaitsForRoomEnd: a sender that finds a full queue is called when it is half empty.
func TestWaitsForRoomEnd(t *testing.T) {
	r, n := newTestNetwork()
	a := attach(r, n, 0, 1, 1, 1)
	attach(r, n, 1, 2, 2, 1)
	send(t, a, 2, 1, 2, 3, 4)
	room, reachable := 0, false
	a.AwaitRoom(2, transport.Message, func(k bool) { room, reachable = room+1, k })
	if room > 0 {
		t.Fatal("a full queue has room")
	}
	r.Until(virtual.Instant(time.Second))
	if room != 1 || !reachable {
		t.Errorf("called %d times, peer reachable: %v", room, reachable)
	}
	a.AwaitRoom(9, transport.Message, func(k bool) { reachable = k })
	if reachable {
		t.Error("an unknown peer is reachable")
	}
}

// A message of a core arrives as its receiver decodes it: it shares no memory with that of its
// sender. One that cannot be decoded fails the run.
func TestMessagesAreDecodedOnTheWay(t *testing.T) {
	r, n := newTestNetwork()
	a, b := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	sent := &protocol.Homes{Head: protocol.Head{Type: "t"}, Homes: []protocol.Home{{Shard: 3, Node: 7}}}
	send(t, a, 2, sent, &view.LeaveNotice{})
	sent.Homes[0].Node = 8
	r.Until(virtual.Instant(time.Second))
	if len(b.frames) != 2 {
		t.Fatalf("received %v", b.frames)
	}
	if got, is := b.frames[0].(*protocol.Homes); !is || got == sent || len(got.Homes) != 1 || got.Homes[0].Node != 7 {
		t.Errorf("received %+v", b.frames[0])
	}
	if _, is := b.frames[1].(*view.LeaveNotice); !is {
		t.Errorf("received %T", b.frames[1])
	}
	defer func() {
		if failure := recover(); failure == nil {
			t.Error("a message beyond the bounds passes")
		}
	}()
	send(t, a, 2, &protocol.Homes{Homes: []protocol.Home{{Shard: protocol.ShardsMax}}})
}

// TestSentBytesAreThoseOfTheEncoding checks that an endpoint counts the messages that it sends,
// and their bytes as they are encoded.
func TestSentBytesAreThoseOfTheEncoding(t *testing.T) {
	r, n := newTestNetwork()
	a, _ := attach(r, n, 0, 1, 1, 1), attach(r, n, 1, 2, 2, 1)
	ping := &view.Ping{Cluster: 1, Round: 7}
	send(t, a, 2, ping, "a frame without an encoding", ping)
	if messages, bytes := a.Sent(); messages != 2 || bytes != 2*uint64(len(view.Append(nil, ping))) {
		t.Errorf("sent %d messages of %d bytes", messages, bytes)
	}
}
