package delivery

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// narrow is Links whose connections have room, or not.
type narrow struct {
	Links
	mu  sync.Mutex
	err map[gossip.NodeID]error
	// room is how many frames a full connection takes even so.
	room  map[gossip.NodeID]int
	moved *sync.Cond
	sent  map[gossip.NodeID][]string
}

func newNarrow() *narrow {
	n := &narrow{err: map[gossip.NodeID]error{}, room: map[gossip.NodeID]int{}, sent: map[gossip.NodeID][]string{}}
	n.moved = sync.NewCond(&n.mu)
	return n
}

func (n *narrow) Send(to gossip.NodeID, _ transport.Class, _ transport.Kind, frame []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.room[to] > 0 {
		n.room[to]--
	} else if n.err[to] != nil {
		return n.err[to]
	}
	n.sent[to] = append(n.sent[to], string(frame))
	return nil
}

func (n *narrow) WaitRoom(ctx context.Context, to gossip.NodeID, _ transport.Class) error {
	defer context.AfterFunc(ctx, n.moved.Broadcast)()
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.err[to] == transport.ErrQueueFull && n.room[to] == 0 && ctx.Err() == nil {
		n.moved.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case n.room[to] > 0:
		return nil
	}
	return n.err[to]
}

// answers sets what sending to a node comes to from now on, and lets all settle.
func (n *narrow) answers(to gossip.NodeID, err error) {
	n.mu.Lock()
	n.err[to] = err
	n.mu.Unlock()
	n.moved.Broadcast()
	synctest.Wait()
}

func (n *narrow) expect(t *testing.T, to gossip.NodeID, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.sent[to], want) {
		t.Errorf("node %d was sent %q, want %q", to, n.sent[to], want)
	}
}

// Answers that find no room on their connection wait, in order, while their senders and
// the answers to others go on.
func TestAnswersWaitForRoomInOrder(t *testing.T) {
	type world struct {
		*narrow
		Outbox
		lost int
		end  context.CancelFunc
	}
	play := func(name string, f func(t *testing.T, w *world)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{narrow: newNarrow()}
				var work sync.WaitGroup
				var ctx context.Context
				ctx, w.end = context.WithCancel(t.Context())
				w.Outbox = Outbox{Links: w.narrow, Ctx: ctx, Work: &work, Lost: func(n int) { w.lost += n }}
				defer work.Wait()
				defer w.end()
				f(t, w)
			})
		})
	}
	play("room comes", func(t *testing.T, w *world) {
		w.Outbox.Send(1, []byte("a"))
		w.answers(1, transport.ErrQueueFull)
		frame := []byte("b")
		w.Outbox.Send(1, frame)
		copy(frame, "?") // it is the sender's again
		w.Outbox.Send(1, []byte("c"))
		w.Outbox.Send(2, []byte("x"))
		w.expect(t, 1, "a")
		w.expect(t, 2, "x")
		w.answers(1, nil)
		w.expect(t, 1, "a", "b", "c")
		w.Outbox.Send(1, []byte("d"))
		w.expect(t, 1, "a", "b", "c", "d")
		if w.lost != 0 || w.waiting.Load() != 0 || len(w.peers) != 0 {
			t.Errorf("%d are lost, %d peers wait", w.lost, w.waiting.Load())
		}
	})
	play("room comes while a sender is at work", func(t *testing.T, w *world) {
		w.answers(1, transport.ErrQueueFull)
		w.Outbox.Send(1, []byte("a"))
		synctest.Wait()
		w.narrow.mu.Lock()
		w.err[1] = nil
		w.narrow.mu.Unlock()
		w.Outbox.Send(1, []byte("b"))
		w.expect(t, 1)
		w.answers(1, nil)
		w.expect(t, 1, "a", "b")
	})
	play("the peer goes", func(t *testing.T, w *world) {
		w.answers(1, transport.ErrQueueFull)
		w.Outbox.Send(1, []byte("a"))
		w.Outbox.Send(1, []byte("b"))
		w.answers(1, transport.ErrUnknownPeer)
		if w.lost != 2 || w.waiting.Load() != 0 {
			t.Errorf("%d of 2 are counted as lost, %d peers wait", w.lost, w.waiting.Load())
		}
		w.Outbox.Send(1, []byte("c"))
		if w.lost != 3 {
			t.Errorf("%d of 3 are counted as lost", w.lost)
		}
		w.answers(1, nil)
		w.Outbox.Send(1, []byte("d"))
		w.expect(t, 1, "d")
	})
	play("the node ends", func(t *testing.T, w *world) {
		w.answers(1, transport.ErrQueueFull)
		w.Outbox.Send(1, []byte("a"))
		w.end()
		synctest.Wait()
		if w.lost != 1 || w.waiting.Load() != 0 {
			t.Errorf("%d of 1 are counted as lost, %d peers wait", w.lost, w.waiting.Load())
		}
	})
	play("too much waits", func(t *testing.T, w *world) {
		w.answers(1, transport.ErrQueueFull)
		w.answers(2, transport.ErrQueueFull)
		w.Outbox.Send(1, make([]byte, backlogBytesMax-1))
		w.Outbox.Send(1, []byte("ab"))
		w.Outbox.Send(2, []byte("x")) // each peer has a bound of its own
		w.Outbox.Send(1, []byte("a"))
		w.Outbox.Send(1, []byte("b"))
		if w.lost != 2 {
			t.Errorf("%d are counted as lost, want 2", w.lost)
		}
		w.answers(1, nil)
		w.answers(2, nil)
		w.expect(t, 2, "x")
		if got := w.sent[1]; len(got) != 2 || got[1] != "a" {
			t.Errorf("%d frames arrived, want a large one and a", len(got))
		}
	})
	play("some of it leaves", func(t *testing.T, w *world) {
		w.answers(1, transport.ErrQueueFull)
		large := make([]byte, backlogBytesMax/2)
		w.Outbox.Send(1, large)
		w.Outbox.Send(1, large)
		w.narrow.mu.Lock()
		w.room[1] = 1
		w.narrow.mu.Unlock()
		w.answers(1, transport.ErrQueueFull)
		w.Outbox.Send(1, large)
		w.Outbox.Send(1, []byte("a"))
		if len(w.sent[1]) != 1 || w.lost != 1 {
			t.Errorf("%d of 4 have left, %d are lost; one of each was to be", len(w.sent[1]), w.lost)
		}
		w.answers(1, nil)
		if len(w.sent[1]) != 3 {
			t.Errorf("%d frames arrived, want 3", len(w.sent[1]))
		}
	})
}
