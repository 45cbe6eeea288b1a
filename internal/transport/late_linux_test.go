package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Schedule L1 with kernels: packets to the sender are dropped, packets from it pass; its
// next incarnation connects while the kernel retransmits the frames of the former one.
func TestARealOneWayCutDeliversNothingLate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the kernel's timers several seconds")
	}
	t.Parallel()
	l := newLAN(t)
	w := &world{T: t, unacked: 10 * time.Second, in: l.b}
	b := w.make(2, lanB+":0", patient)
	b.run()
	w.in = l.a
	a1 := w.make(1, lanA+":0", patient, incarnation(9, 1))
	a1.run()
	a1.Learn(b.Self())
	a1.send(b, Message, "before")
	b.awaitFrames(1)
	l.rule(lanA, "blackhole")
	filler := strings.Repeat("x", 8<<10)
	for i := range 300 {
		a1.send(b, Message, fmt.Sprintf("old %d %s", i, filler))
	}
	// Once nothing arrives, the rest waits in the sender's kernel, whose pauses between
	// retransmissions double.
	for before := -1; ; {
		b.mu.Lock()
		n := len(b.frames)
		b.mu.Unlock()
		if n == before {
			break
		}
		before = n
		<-time.After(1500 * time.Millisecond)
	}
	addr := a1.Self().Addr
	if err := a1.Close(); err != nil {
		t.Fatal(err)
	}
	a2 := w.make(3, addr, patient, incarnation(9, 2))
	a2.run()
	l.rule(lanA, "")
	a2.Learn(b.Self())
	a2.send(b, Message, "new")
	b.awaitFrame("new")
	b.within(4*time.Second, func() bool { return false })
	b.mu.Lock()
	defer b.mu.Unlock()
	if late := inversions(b.frames, 1, 3); len(late) > 0 {
		t.Errorf("%d of %d frames of the former incarnation came behind the later one's: %.20s, ...", len(late), len(b.frames), late[0])
	}
	t.Logf("%d frames of 302 came; %d connections and %d unread bytes were fenced", len(b.frames),
		b.Counters().Fenced.Load(), b.Counters().FencedBytes.Load())
}
