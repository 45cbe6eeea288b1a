package transport

import (
	"runtime"
	"sync"
	"testing"
)

// Senders that are ready at the same time share a write, although the first one finds the
// link idle: on one processor no other sender runs during a write, so the writer must yield
// first.
func TestACrowdOfSendersSharesWrites(t *testing.T) {
	everywhere(t, func(w *world) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		const rounds, crowd = 20, 64
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		a.send(b, Message, "first")
		b.awaitFrames(1)
		before := a.Counters().Class[Message].Writes.Load()
		for i := range rounds {
			var start, senders sync.WaitGroup
			start.Add(1)
			for range crowd {
				senders.Go(func() {
					start.Wait()
					a.send(b, Message, "x")
				})
			}
			start.Done()
			senders.Wait()
			b.awaitFrames(1 + (i+1)*crowd)
		}
		writes := a.Counters().Class[Message].Writes.Load() - before
		w.Logf("%d frames in %d writes", rounds*crowd, writes)
		if writes > rounds*crowd/4 {
			w.Errorf("%d frames of crowds of %d took %d writes", rounds*crowd, crowd, writes)
		}
	})
}

// After a crowd a link at rest is written to by its senders again.
func TestDirectWritesComeBackAfterACrowd(t *testing.T) {
	w := &world{T: t}
	a, b := w.start(1), w.start(2)
	a.Learn(b.Self())
	a.send(b, Message, "first")
	b.awaitFrames(1)
	l := &a.e.peers.peerOf(2).links[Message]
	l.mu.Lock()
	l.direct.crowd = true
	l.mu.Unlock()
	w.poll("the link is idle", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.idle
	})
	a.rest(2, Message)
	a.send(b, Message, "second")
	b.awaitFrames(2)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.direct.try != nil && l.direct.crowd {
		t.Error("a direct write did not end the crowd")
	}
}
