package membership

import (
	"sync"

	"github.com/peerage-go/peerage/gossip"
)

// inboxFramesMax bounds the frames that wait for the core; more are dropped and counted,
// and every protocol retransmits. The node's own inputs to its core are never dropped:
// their number is bounded at the source.
const inboxFramesMax = 8192

// input is an input of the loop: one of its types below, or of discovery's.
type input any

// hintsWaitingMax bounds the hints of discovery that wait for the loop, hintsPerBatch
// those that it processes at a time.
const (
	hintsWaitingMax = 1024
	hintsPerBatch   = 16
)

// inbox is the queue of the loop. Adding to it never blocks. Hints of discovery, whose number
// other nodes determine, have a queue of their own: a few are processed after all other
// inputs, so that none ever delays a message of the view protocol.
type inbox struct {
	mu     sync.Mutex
	queue  []input
	hints  []input
	frames int
	most   int
	wake   chan struct{}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// putInput queues an input.
func (b *inbox) putInput(in input) {
	b.mu.Lock()
	b.queue = append(b.queue, in)
	b.most = max(b.most, len(b.queue))
	b.mu.Unlock()
	b.wakeUp()
}

// putFrame queues a peer's frame, and reports whether there was room.
func (b *inbox) putFrame(in input) bool {
	b.mu.Lock()
	ok := b.frames < inboxFramesMax
	if ok {
		b.frames++
		b.queue = append(b.queue, in)
		b.most = max(b.most, len(b.queue))
	}
	b.mu.Unlock()
	b.wakeUp()
	return ok
}

// putHint queues a hint of discovery, and reports whether there was room.
func (b *inbox) putHint(in input) bool {
	b.mu.Lock()
	ok := len(b.hints) < hintsWaitingMax
	if ok {
		b.hints = append(b.hints, in)
	}
	b.mu.Unlock()
	b.wakeUp()
	return ok
}

func (b *inbox) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// takeBatch returns all queued inputs, and some hints; spare's memory is reused for the next.
func (b *inbox) takeBatch(spare []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.queue
	b.queue, b.frames = spare[:0], 0
	if n := min(len(b.hints), hintsPerBatch); n > 0 {
		batch = append(batch, b.hints[:n]...)
		if b.hints = b.hints[n:]; len(b.hints) == 0 {
			b.hints = nil
		} else {
			b.wakeUp()
		}
	}
	return batch
}

func (b *inbox) queueCounts() (waiting, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue), b.most
}

// found is a hint: a node that memberlist considers alive.
type found struct{ node gossip.Node }
