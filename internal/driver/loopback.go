package driver

// Loopback holds the messages that a core sends to its own node, until they are delivered to
// it: a step must have ended before the next one begins. Its zero value is empty. It is not
// safe for concurrent use.
type Loopback[M any] struct{ waiting []M }

// Add adds a message.
func (l *Loopback[M]) Add(m M) { l.waiting = append(l.waiting, m) }

// Deliver passes each message to a step, the oldest first, until none waits. A step may add
// messages.
func (l *Loopback[M]) Deliver(step func(M)) {
	for len(l.waiting) > 0 {
		m := l.waiting[0]
		l.waiting = l.waiting[1:]
		step(m)
	}
	l.waiting = nil
}
