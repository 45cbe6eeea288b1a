package transport

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// incarnation makes a node of a process that has several.
func incarnation(process, k uint64) configure {
	return func(c *Config) { c.Process, c.Incarnation = process, k }
}

// await waits for a frame with this payload.
func (n *node) awaitFrame(payload string) {
	n.w.Helper()
	n.w.poll("frame "+payload, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, f := range n.frames {
			if _, p, _ := strings.Cut(f, ":"); p == payload {
				return true
			}
		}
		return false
	})
}

// pass advances virtual time.
func (w *world) pass(d time.Duration) { <-time.After(d) }

// inversions returns the frames of incarnation 1 that were handed out behind one of
// incarnation 2.
func inversions(frames []string, first, second gossip.NodeID) (late []string) {
	later := false
	for _, f := range frames {
		switch {
		case strings.HasPrefix(f, fmt.Sprintf("%d:", second)):
			later = true
		case later && strings.HasPrefix(f, fmt.Sprintf("%d:", first)):
			late = append(late, f)
		}
	}
	return late
}

// A sender is cut off and continues as its next incarnation, while its kernel still
// retransmits the frames of the former one (schedule L1).
func TestLateBytesOfAFormerIncarnationAreNotHandedOut(t *testing.T) {
	inMemory(t, func(w *world) {
		b := w.start(2)
		a1 := w.start(1, incarnation(9, 1))
		a1.Learn(b.Self())
		a1.send(b, Message, "before")
		b.awaitFrame("before")
		from, to := a1.Self().Addr, b.Self().Addr
		w.net.SetPaths(from, to, Path{Cut: Dropped})
		for i := range 50 {
			a1.send(b, Message, fmt.Sprintf("old %d", i))
		}
		w.pass(2 * time.Second)
		if err := a1.Close(); err != nil {
			w.Fatal(err)
		}
		a2 := w.make(3, from, incarnation(9, 2))
		a2.run()
		w.net.SetPaths(from, to, Path{})
		a2.Learn(b.Self())
		a2.send(b, Message, "new")
		b.awaitFrame("new")
		w.pass(5 * time.Second) // in which the rest would arrive
		b.mu.Lock()
		defer b.mu.Unlock()
		if late := inversions(b.frames, 1, 3); len(late) > 0 {
			w.Errorf("%d frames of the former incarnation were handed out behind the later one's: %s, ...", len(late), late[0])
		}
	})
}

// A handler of the former incarnation runs while the later one connects, on another class
// first: no connection of the later one is welcomed before the handler has returned, and
// the remaining frames of the former one are counted (schedule L2).
func TestALaterIncarnationWaitsForHandlersOfTheFormer(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2, patient)
		former, later := w.start(1, incarnation(9, 1), patient), w.start(3, incarnation(9, 2), patient)
		entered, leave := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(leave) })
		defer release()
		b.onFrame = func(from gossip.NodeID, p []byte) {
			if string(p) == "old 0" {
				close(entered)
				<-leave
			}
		}
		old := b.dialAs(w, former, Message)
		var frames []byte
		for i := range 100 {
			frames = appendFrame(frames, KindView, fmt.Appendf(nil, "old %d", i))
		}
		if _, err := old.Write(frames); err != nil {
			w.Fatal(err)
		}
		<-entered
		var welcomed atomic.Int64
		var all sync.WaitGroup
		for _, c := range []Class{Control, Message} {
			all.Go(func() {
				conn, _, err := later.e.dialler.connect(w.ctx(), b.Self().Addr, purpose(c), 2)
				if err == nil {
					welcomed.Add(1)
					_, err = conn.Write(appendFrame(nil, KindView, []byte("new")))
				}
				if err != nil {
					w.Error(err)
				}
			})
			w.poll("the former is ended", func() bool { return b.Counters().Fenced.Load() == 1 })
			w.poll("both are under way", func() bool {
				b.e.inbounds.mu.Lock()
				defer b.e.inbounds.mu.Unlock()
				return b.e.inbounds.byKey[connKey{3, c}] != nil
			})
			if n := welcomed.Load(); n > 0 {
				w.Errorf("%d connections welcomed while a handler of the former incarnation runs", n)
			}
		}
		if n := b.count(Accepted, Control); n != 0 {
			w.Errorf("accepted before the handler returned")
		}
		release()
		all.Wait()
		got := b.awaitFrames(3)
		if late := inversions(got, 1, 3); len(late) > 0 || len(got) != 3 {
			w.Errorf("handed out: %q", got)
		}
		w.poll("the rest is counted", func() bool { return b.Counters().Drops[DropFenced].Load() == 99 })
	})
}

// All classes of the former incarnation end with the first connection of the later one,
// and none of the former is taken afterwards (schedules L3 and L4).
func TestALaterIncarnationEndsAllConnectionsOfTheFormer(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2, patient)
		former, later := w.start(1, incarnation(9, 1), patient), w.start(3, incarnation(9, 2), patient)
		for c := range classes {
			b.dialAs(w, former, c)
			b.awaitEvent(Accepted, c, 1)
		}
		another := w.start(4, incarnation(10, 1), patient)
		b.dialAs(w, another, Message)
		b.dialAs(w, later, Message)
		for c := range classes {
			b.awaitEvent(AcceptedLost, c, 1)
			_, _, err := former.e.dialler.connect(w.ctx(), b.Self().Addr, purpose(c), 2)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Code != FailSuperseded {
				w.Errorf("a connection of the former incarnation: %v", err)
			}
		}
		b.Forget(3) // its mark stays
		if _, _, err := former.e.dialler.connect(w.ctx(), b.Self().Addr, purpose(Control), 2); err == nil {
			w.Error("the former incarnation is taken once the later one is forgotten")
		}
		if n := b.count(AcceptedLost, Message); n != 1 {
			w.Errorf("%d AcceptedLost of Message: another process is none of its business", n)
		}
	})
}

// Frames of a node that the view has dropped are not handed out, whether the view arrives
// before or after its next incarnation connects; frames of a node that was in no view yet
// are (schedule L5).
func TestConnectionsOfDroppedMembersEnd(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b, joiner := w.start(1), w.start(2), w.start(3)
		b.SetMembers(1, 2)
		for _, n := range []*node{a, joiner} {
			n.Learn(b.Self())
			n.send(b, Message, "before")
		}
		b.awaitFrames(2)
		b.awaitEvent(Accepted, Control, 1)
		b.SetMembers(2)
		b.awaitEvent(AcceptedLost, Message, 1)
		a.awaitEvent(DialFailed, Message, 2)
		if n := a.Counters().DialRefusals[FailDropped].Load(); n == 0 {
			w.Error("no dial was refused as of a dropped member")
		}
		if n := b.count(AcceptedLost, Control); n != 0 {
			w.Error("the control connection ended with the view")
		}
		joiner.send(b, Message, "joining")
		b.awaitFrames(3)
		b.awaitEvent(Accepted, Control, 3)
		b.Unlearn(1)
		// The end is not reported if the next connection of node 1 was accepted before it.
		b.await("the control connection of node-1 ended, or another took its place", func() bool {
			return b.countLocked(AcceptedLost, Control) == 1 || b.countLocked(Accepted, Control) == 3
		})
		b.SetMembers(1, 2)
		w.poll("it is heard again as a member", func() bool {
			return a.Send(2, Message, KindView, []byte("again")) == nil && b.within(20*time.Millisecond, func() bool { return len(b.frames) > 3 })
		})
	})
}

// With TLS, the holder of another certificate cannot end the connections of a process
// by claiming to be its next incarnation.
func TestAttackForgedIncarnation(t *testing.T) {
	ca := newAuthority(t)
	w := &world{T: t, tls: ca.mutual(t)}
	b := w.start(2)
	w.tls = ca.mutual(t)
	victim := w.start(1, incarnation(9, 1))
	w.tls = ca.mutual(t)
	forger := w.start(3, incarnation(9, 1000))
	victim.Learn(b.Self())
	victim.send(b, Message, "1")
	b.awaitFrames(1)
	b.dialAs(w, forger, Control)
	b.awaitEvent(Accepted, Control, 3)
	victim.send(b, Message, "2")
	b.awaitFrames(2)
	if n := b.Counters().Fenced.Load(); n != 0 {
		t.Errorf("%d connections of the victim ended", n)
	}
}

// Marks are bounded, and the mark of an open connection stays.
func TestMarksOfProcessesAreBounded(t *testing.T) {
	inMemory(t, func(w *world) {
		b := w.start(2, func(c *Config) { c.PeersMax, c.ForgottenMax = 4, 4 })
		for i := range 20 {
			n := w.start(gossip.NodeID(100+i), incarnation(uint64(100+i), 1))
			conn := b.dialAs(w, n, Control)
			if i > 0 {
				_ = conn.Close()
			}
		}
		b.e.inbounds.mu.Lock()
		n := b.e.inbounds.senders.marks.Len()
		b.e.inbounds.mu.Unlock()
		if n > 8 {
			w.Errorf("%d marks are kept", n)
		}
		former := w.start(99, incarnation(100, 0))
		former.e.cfg.Incarnation = 0
		if _, _, err := former.e.dialler.connect(w.ctx(), b.Self().Addr, purpose(Control), 2); err == nil {
			w.Error("the mark of a connected process is gone")
		}
	})
}
