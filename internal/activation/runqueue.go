package activation

import (
	"slices"
	"sync"
)

// runQueue hands instances with mail to goroutines.
//
// A goroutine per activation was measured first: with messages spread over many
// entities nearly every message starts one, and starting it costs three times as
// much as all the rest. So goroutines go on to the next instance that has mail.
// But a handler may block, and must not hold up the others behind it. The rule:
//
//	while the queue is not empty, one goroutine has been started for it that has
//	not yet taken anything (pending).
//
// Whoever adds to the queue, or takes from it and leaves something, starts that
// goroutine if there is none, before any user code runs. Under load the pending
// one waits in Go's own run queue, and the ones that run find their next instance
// without a start; if they block, it takes over.
type runQueue[C, Req, Resp any] struct {
	host *Host[C, Req, Resp]
	mu   sync.Mutex
	// tasks[head:] wait.
	tasks   []task[C, Req, Resp]
	head    int
	pending bool
	// working are the goroutines that run instances, or look for one.
	working []*hands[C, Req, Resp]
}

// task is an instance that has something to do. A message that met it at rest comes
// along, and not in a mailbox: when messages are spread over many entities most come
// alone, and a box for each would cost as much as all the rest of its way.
type task[C, Req, Resp any] struct {
	s  *Shard[C, Req, Resp]
	in *instance[C, Req, Resp]
	// mail: first is a message; control: it is a control message.
	mail, control bool
	first         Message[Req]
}

// queues is how many run queues a Host has: enough that processors seldom meet.
const queues = 8

// push adds an instance, and m for it unless m is nil.
func (q *runQueue[C, Req, Resp]) push(s *Shard[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) {
	q.mu.Lock()
	q.tasks = appendTask(q.tasks, s, in, m, control)
	if q.startMaybe() && m != nil && m.Reply.Call == 0 {
		// Who asks will wait, and its processor goes on with the goroutine. Who tells goes
		// on itself, and Go keeps the latest goroutine that it started from the other
		// processors for a while, 50 us and more where timers are coarse: not so the latest
		// but one.
		go noop()
	}
	q.mu.Unlock()
}

func noop() {}

// appendTask writes a task where it is to lie: it is large.
func appendTask[C, Req, Resp any](ts []task[C, Req, Resp], s *Shard[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) []task[C, Req, Resp] {
	if len(ts) == cap(ts) {
		ts = slices.Grow(ts, 1)
	}
	ts = ts[:len(ts)+1]
	t := &ts[len(ts)-1]
	t.s, t.in, t.mail, t.control = s, in, m != nil, control
	if m != nil {
		t.first = *m
	}
	return ts
}

// pushAll adds tasks, and returns an empty slice for the next ones.
func (q *runQueue[C, Req, Resp]) pushAll(ts []task[C, Req, Resp]) []task[C, Req, Resp] {
	q.mu.Lock()
	if len(q.tasks) == 0 {
		q.tasks, ts = ts, q.tasks
	} else {
		q.tasks = append(q.tasks, ts...)
		clear(ts)
	}
	q.startMaybe()
	q.mu.Unlock()
	return ts[:0]
}

// startMaybe upholds the rule, and reports whether it had to; called with the mutex.
func (q *runQueue[C, Req, Resp]) startMaybe() bool {
	if q.pending {
		return false
	}
	q.pending = true
	q.host.work.Add(1)
	go q.work()
	return true
}

// pop takes the next task, its message into h.own, which is empty; s is nil if there is
// none. A goroutine that asks for its first one is no longer the pending one.
func (q *runQueue[C, Req, Resp]) pop(h *hands[C, Req, Resp], first bool) (s *Shard[C, Req, Resp], in *instance[C, Req, Resp]) {
	own := h.own
	q.mu.Lock()
	if first {
		q.pending = false
	}
	if q.head == len(q.tasks) {
		q.dismiss(h)
		q.mu.Unlock()
		return nil, nil
	}
	t := &q.tasks[q.head]
	s, in = t.s, t.in
	q.employ(h, s, in, first)
	if t.mail {
		own.msgs = append(own.msgs, t.first)
		if t.control {
			own.control = 1
		}
	}
	*t = task[C, Req, Resp]{}
	q.head++
	switch {
	case q.head == len(q.tasks):
		q.tasks, q.head = q.tasks[:0], 0
	default:
		if q.head > cap(q.tasks)/2 {
			q.tasks = q.tasks[:copy(q.tasks, q.tasks[q.head:])]
			q.head = 0
		}
		q.startMaybe()
	}
	q.mu.Unlock()
	return s, in
}

// work is the body of a runner's goroutine.
func (q *runQueue[C, Req, Resp]) work() {
	defer q.host.work.Done()
	h := q.host.hands.Get().(*hands[C, Req, Resp])
	h.mark.set()
	// Deferred, since a handler may end the goroutine.
	defer q.leave(h)
	for first := true; ; first = false {
		s, in := q.pop(h, first)
		if s == nil {
			return
		}
		s.run(in, h)
	}
}
