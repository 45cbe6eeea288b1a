package gossip

import "sync"

// inboxFramesMax bounds the frames that wait for the core; more are dropped and
// counted, and every protocol sends again. What this node itself has to say to
// its core is never dropped: its amount is bounded at its source.
const inboxFramesMax = 8192

// input is what the loop takes: one of the types below, or of discovery's.
type input any

// inbox is the queue of the loop. put never blocks.
type inbox struct {
	mu     sync.Mutex
	queue  []input
	frames int
	most   int
	wake   chan struct{}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put queues in.
func (b *inbox) put(in input) {
	b.mu.Lock()
	b.queue = append(b.queue, in)
	b.most = max(b.most, len(b.queue))
	b.mu.Unlock()
	b.signal()
}

// putFrame queues what a peer sent, and reports whether there was room.
func (b *inbox) putFrame(in input) bool {
	b.mu.Lock()
	ok := b.frames < inboxFramesMax
	if ok {
		b.frames++
		b.queue = append(b.queue, in)
		b.most = max(b.most, len(b.queue))
	}
	b.mu.Unlock()
	b.signal()
	return ok
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns everything queued; spare's memory is used for the next.
func (b *inbox) take(spare []input) []input {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.queue
	b.queue, b.frames = spare[:0], 0
	return batch
}

func (b *inbox) counts() (waiting, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue), b.most
}
