package entity

import "sync"

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
type runQueue[Req, Resp any] struct {
	host *Host[Req, Resp]
	mu   sync.Mutex
	// tasks[head:] wait.
	tasks   []task[Req, Resp]
	head    int
	pending bool
}

type task[Req, Resp any] struct {
	s  *Shard[Req, Resp]
	in *instance[Req, Resp]
}

// queues is how many run queues a Host has: enough that processors seldom meet.
const queues = 8

func (q *runQueue[Req, Resp]) push(t task[Req, Resp]) {
	q.mu.Lock()
	q.tasks = append(q.tasks, t)
	q.startMaybe()
	q.mu.Unlock()
}

// startMaybe upholds the rule; called with the mutex.
func (q *runQueue[Req, Resp]) startMaybe() {
	if !q.pending {
		q.pending = true
		q.host.work.Add(1)
		go q.work()
	}
}

// pop takes the next task. A goroutine that asks for its first one is no longer
// the pending one.
func (q *runQueue[Req, Resp]) pop(first bool) (t task[Req, Resp], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first {
		q.pending = false
	}
	if q.head == len(q.tasks) {
		return t, false
	}
	t = q.tasks[q.head]
	q.tasks[q.head] = task[Req, Resp]{}
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
	return t, true
}

// work is the body of a runner's goroutine.
func (q *runQueue[Req, Resp]) work() {
	defer q.host.work.Done()
	ctx := q.host.contexts.Get().(*Context)
	defer func() { q.host.contexts.Put(ctx) }()
	for first := true; ; first = false {
		t, ok := q.pop(first)
		if !ok {
			return
		}
		ctx = t.s.run(t.in, ctx)
	}
}
