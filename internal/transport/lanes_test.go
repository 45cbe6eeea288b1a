package transport

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// flowOfText reads the flow of a test's frame, which is its first number; it is urgent if a "!"
// stands behind it.
func flowOfText(payload []byte) (f Flow, urgent bool) {
	head, _, _ := bytes.Cut(payload[:min(len(payload), 20)], []byte(" "))
	head, urgent = bytes.CutSuffix(head, []byte("!"))
	n, _ := strconv.ParseUint(string(head), 10, 64)
	return Flow(n), urgent
}

// flowing makes a node whose frames begin with their flow.
func (w *world) flowing(id gossip.NodeID, with ...configure) *node {
	n := w.make(id, "", with...)
	n.HandleFlows(KindView, flowOfText)
	n.run()
	return n
}

// names returns the received frames, without the filling of large ones.
func (n *node) names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := make([]string, 0, len(n.frames))
	for _, f := range n.frames {
		_, f, _ = strings.Cut(f, ":")
		name, _, _ := strings.Cut(f, "|")
		got = append(got, name)
	}
	return got
}

func large(flow int, name string, n int) string {
	return fmt.Sprintf("%d %s|%s", flow, name, strings.Repeat("x", n))
}

// blocked sends b a frame in whose handler it stays, until leave is called.
func blocked(a, b *node) (leave func()) {
	entered, left := make(chan struct{}), make(chan struct{})
	b.onFrame = func(_ gossip.NodeID, p []byte) {
		if string(p) == "9 stop" {
			close(entered)
			<-left
		}
	}
	a.Learn(b.Self())
	a.send(b, Message, "9 stop")
	<-entered
	return func() { close(left) }
}

// A small frame overtakes large ones of other flows, and no frame of its own flow.
func TestSmallFramesPassLargeOnesOfOtherFlows(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.flowing(1), w.start(2)
		leave := blocked(a, b)
		for i := range 4 {
			a.send(b, Message, large(1, fmt.Sprintf("big%d", i), 3<<20))
		}
		a.send(b, Message, "1 same")
		a.send(b, Message, "2 other")
		leave()
		b.awaitFrames(7)
		got := b.names()
		if want := []string{"1 big0", "1 big1", "1 big2", "1 big3", "1 same"}; !slices.Equal(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s[0] != '1' }), want) {
			w.Errorf("handled %q", got)
		}
		if at := slices.Index(got, "2 other"); at > 2 {
			w.Errorf("the small frame of another flow came as number %d: %q", at, got)
		}
	})
}

// An urgent frame passes a long queue of other flows, even a full one, and no frame of its own
// flow. A frame without a flow passes nothing, and no flood of urgent frames stops the others.
func TestUrgentFramesPassALongQueue(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.flowing(1), w.start(2)
		leave := blocked(a, b)
		sent, bytes := 1, 0
		queue := func(p string) error {
			err := a.Send(2, Message, KindView, []byte(p))
			if err == nil {
				sent++
				bytes += frameHeaderBytes + len(p)
			}
			return err
		}
		// gone bounds the frames that an urgent one cannot pass: they have left the queue, for the
		// sockets, or are in a block that is being written.
		gone := func() int { return (bytes - a.Counters().QueueBytes(Message) + 4*blockBytes) / 2000 }
		bulk := func() error { return queue(large(sent%4+1, strconv.Itoa(sent), 2000)) }
		for a.Counters().QueueBytes(Message) < 8<<20 {
			if err := bulk(); err != nil {
				w.Fatal(err)
			}
		}
		before := sent
		if err := errors.Join(queue("1! same"), queue("5! other"), queue("0 barrier")); err != nil {
			w.Fatal(err)
		}
		otherMost := gone()
		for bulk() == nil {
		}
		full, manyMost := sent, 0
		for queue("6! many") == nil {
			if manyMost == 0 {
				manyMost = gone()
			}
		}
		if n := sent - full; n == 0 || n > expressBytes/len("6! many") {
			w.Errorf("%d urgent frames enter beside a full queue", n)
		}
		leave()
		got := b.awaitFrames(sent)
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], ":")
		}
		other, many := slices.Index(got, "5! other"), slices.Index(got, "6! many")
		w.Logf("%d bytes were on their way before", other*2000)
		if other > otherMost || many < other || many > manyMost {
			w.Errorf("urgent frames came as number %d and %d of %d, want at most %d and %d", other, many, len(got), otherMost, manyMost)
		}
		if same := slices.Index(got, "1! same"); same < before {
			w.Errorf("the urgent frame of a flow that was queued came as number %d of %d", same, before)
		}
		if at := slices.Index(got, "0 barrier"); at < before+2 {
			w.Errorf("the frame without a flow came as number %d, behind %d", at, before+2)
		}
	})
}

// A frame that names no flow is behind all that was sent before it, half-sent frames
// included: a farewell's marker.
func TestAFrameWithoutFlowPassesNothing(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.flowing(1), w.start(2)
		a.Learn(b.Self())
		a.send(b, Message, large(1, "a", 1<<20))
		a.send(b, Message, large(2, "b", 2<<20))
		a.send(b, Message, "1 c")
		a.send(b, Message, "0 barrier")
		a.send(b, Message, "3 behind")
		a.send(b, Message, large(0, "barrier2", 1<<20))
		b.awaitFrames(6)
		got := b.names()
		at := func(name string) int { return slices.Index(got, name) }
		for _, before := range []string{"1 a", "2 b", "1 c"} {
			if at(before) > at("0 barrier") {
				w.Errorf("%s was handled behind the barrier: %q", before, got)
			}
		}
		if at("0 barrier2") != 5 || at("1 a") > at("1 c") {
			w.Errorf("handled %q", got)
		}
	})
}

// More large frames begin than may be under way; the connection breaks, and the next one
// begins with none of their halves.
func TestHalfSentFramesGoWithTheConnection(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.flowing(1), w.start(2)
		a.Learn(b.Self())
		a.send(b, Message, "9 first")
		b.awaitFrames(1)
		for i := range 32 {
			_ = a.Send(2, Message, KindView, []byte(large(i+1, "big", 300<<10))) // those that find room
		}
		b.sever(1, Message, 0)
		a.awaitEvent(Lost, Message, 2)
		w.poll("a frame of the next connection", func() bool {
			return a.Send(2, Message, KindView, []byte(large(3, "last", 100<<10))) == nil &&
				b.within(20_000_000, func() bool { return strings.HasPrefix(b.frames[len(b.frames)-1], "1:3 last") })
		})
		for _, f := range b.frames {
			if len(f) > 100 && strings.Trim(f[strings.Index(f, "|")+1:], "x") != "" {
				w.Error("a frame came mixed up")
			}
		}
		if n := b.Counters().MalformedFrames.Load() + b.Counters().CorruptFrames.Load(); n != 0 {
			w.Errorf("%d bad frames", n)
		}
		w.poll("the halves are released", func() bool { return b.e.receiver.halves.bytes() == 0 })
	})
}

// Frames of random sizes and flows: each flow keeps its order, a frame without a flow
// overtakes none, all arrive whole, and the room of the queue is freed.
func TestFlowsKeepTheirOrder(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.flowing(1), w.start(2)
		a.Learn(b.Self())
		rng := rand.New(rand.NewPCG(7, 7))
		const frames = 600
		sent := make([]string, frames)
		for i := range sent {
			n := rng.IntN(2000)
			switch rng.IntN(12) {
			case 0:
				n = rng.IntN(400 << 10)
			case 1:
				n = pieceBytes - 40 + rng.IntN(60)
			}
			flow := rng.IntN(6)
			if flow == 0 && rng.IntN(4) > 0 {
				flow = 1
			}
			p := large(flow, strconv.Itoa(i), n)
			if rng.IntN(3) == 0 {
				p = strings.Replace(p, " ", "! ", 1)
			}
			sent[i] = p
			for a.Send(2, Message, KindView, []byte(p)) != nil {
				if err := a.WaitRoom(w.ctx(), 2, Message); err != nil {
					w.Fatal(err)
				}
			}
		}
		got := b.awaitFrames(frames)
		last, seen := map[Flow]int{}, make([]bool, frames)
		for _, f := range got {
			f = strings.TrimPrefix(f, "1:")
			var i int
			flow, _ := flowOfText([]byte(f))
			if _, err := fmt.Sscanf(strings.Replace(f, "! ", " ", 1), fmt.Sprintf("%d %%d|", flow), &i); err != nil || f != sent[i] {
				w.Fatalf("%.40q came, %v", f, err)
			}
			if i < last[flow] {
				w.Errorf("%d of flow %d was handled behind %d", i, flow, last[flow])
			}
			if flow == 0 && slices.Contains(seen[:i], false) {
				w.Errorf("%d, without a flow, passed %d", i, slices.Index(seen, false))
			}
			last[flow], seen[i] = i, true
		}
		w.poll("all is written", func() bool { return a.Counters().QueueBytes(Message) == 0 })
		l, _ := a.e.peers.linkTo(2, Message)
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := l.express.blocks.frames + l.express.blocks.bytes; n != 0 {
			w.Errorf("left in express: %d", n)
		}
		if q := &l.lanes; q.bytes != 0 || q.frames != 0 || len(q.order) != 0 || len(q.busy) != 0 || q.slots != [piecesMax]bool{} {
			w.Errorf("left: %+v", q)
		}
	})
}

// 60 connections send most of a large frame and wait: together they hold at most the
// configured memory, the oldest end, and complete large frames still arrive.
func TestAttackHalfFrames(t *testing.T) {
	everywhere(t, func(w *world) {
		const most = 16 << 20
		b := w.start(2, patient, func(c *Config) { c.HalfFrameBytesMax = most })
		first := makePieceHeader(KindView, 1|firstPiece, append([]byte{0, 0x80, 0, 0}, make([]byte, pieceBytes)...)) // 8 MiB
		next := makePieceHeader(KindView, 1, make([]byte, pieceBytes))
		for i := range 60 {
			a := w.start(gossip.NodeID(100+i), patient)
			conn := b.dialAs(w, a, Bulk)
			half := append(append(first[:], 0, 0x80, 0, 0), make([]byte, pieceBytes)...)
			for range 40 {
				half = append(append(half, next[:]...), make([]byte, pieceBytes)...)
			}
			if _, err := conn.Write(half); err != nil {
				w.Logf("ended while it wrote: %v", err)
			}
			if held := b.e.receiver.halves.bytes(); held > most {
				w.Fatalf("%d bytes are held by half frames, %d are allowed", held, most)
			}
		}
		w.poll("the oldest ended", func() bool { return b.Counters().HalfFrames.Load() > 40 })
		honest := w.start(1, patient)
		honest.Learn(b.Self())
		honest.send(b, Bulk, large(1, "honest", 7<<20))
		b.awaitFrames(1)
	})
}
