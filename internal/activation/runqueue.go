package activation

import (
	"runtime"
	"slices"
	"sync"
)

// runQueue assigns instances that have messages to goroutines.
//
// A goroutine per activation was measured first. With messages spread over many entities
// nearly every message starts one, and the start costs three times as much as the rest.
// So a goroutine continues with the next instance that has messages. But a handler may
// block, and must not delay the instances behind it. The rule:
//
//	while the queue is not empty, one goroutine has been started for it that has
//	not yet taken anything (pending).
//
// A push, and a pop that leaves a task, start that goroutine if there is none, before any
// user code runs. Under load the pending goroutine waits in Go's own run queue, and the
// running ones find their next instance without a start. If they block, the pending one
// continues.
type runQueue[C, Req, Resp any] struct {
	host *Host[C, Req, Resp]
	mu   sync.Mutex
	// asks are the instances that an ask met at rest, plain all others. They take turns, so that
	// a caller does not wait for all entities that are flooded with tells. turn: the last
	// one was of asks.
	plain, asks taskList[C, Req, Resp]
	turn        bool
	pending     bool
	// working are the goroutines that run instances, or look for one.
	working []*worker[C, Req, Resp]
}

// task is an instance that has messages, or must end. If the instance was at rest when a
// message arrived, the task carries the message, and no mailbox is made: when messages are
// spread over many entities, most arrive alone, and a mailbox for each would cost as much as
// all else.
type task[C, Req, Resp any] struct {
	s  *Shard[C, Req, Resp]
	in *instance[C, Req, Resp]
	// mail: first is a message; control: it is a control message.
	mail, control bool
	first         Message[Req]
}

// isAsk reports whether a message is one for whose reply a caller waits; it may be nil.
func isAsk[Req any](m *Message[Req]) bool { return m != nil && m.Reply.Call != 0 }

// taskList is a list of tasks: tasks[head:] wait.
type taskList[C, Req, Resp any] struct {
	tasks []task[C, Req, Resp]
	head  int
}

// tasksLeft returns the tasks that wait.
func (l *taskList[C, Req, Resp]) tasksLeft() []task[C, Req, Resp] { return l.tasks[l.head:] }

// addAll appends tasks, and returns an empty slice for the next ones.
func (l *taskList[C, Req, Resp]) addAll(ts []task[C, Req, Resp]) []task[C, Req, Resp] {
	if len(l.tasks) == 0 {
		l.tasks, ts = ts, l.tasks
	} else {
		l.tasks = append(l.tasks, ts...)
		clear(ts)
	}
	return ts[:0]
}

// dropFirst removes the first task that waits.
func (l *taskList[C, Req, Resp]) dropFirst() {
	l.tasks[l.head] = task[C, Req, Resp]{}
	l.head++
	switch {
	case l.head == len(l.tasks):
		l.tasks, l.head = l.tasks[:0], 0
	case l.head > cap(l.tasks)/2:
		l.tasks = l.tasks[:copy(l.tasks, l.tasks[l.head:])]
		l.head = 0
	}
}

// queues is the number of run queues of a Host: enough that processors seldom contend.
const queues = 8

// pushTask adds an instance, and m for it unless m is nil.
func (q *runQueue[C, Req, Resp]) pushTask(s *Shard[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) {
	q.mu.Lock()
	l := &q.plain
	if isAsk(m) {
		l = &q.asks
	}
	l.tasks = appendTask(l.tasks, s, in, m, control)
	if q.ensurePending() && m != nil && m.Reply.Call == 0 {
		// An asker will wait, and its processor continues with the goroutine. A sender of
		// a tell continues, and Go withholds the latest goroutine that a processor
		// started from the other processors for a while: 50 us, and longer where timers
		// are coarse. It does not withhold the one before.
		go noop()
	}
	q.mu.Unlock()
}

func noop() {}

// appendTask appends a task and writes it in place, since it is large.
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

// pushAll adds tasks to both lists, and empties b for the next ones.
func (q *runQueue[C, Req, Resp]) pushAll(b *begunTasks[C, Req, Resp]) {
	q.mu.Lock()
	b.plain, b.asks = q.plain.addAll(b.plain), q.asks.addAll(b.asks)
	q.ensurePending()
	q.mu.Unlock()
}

// ensurePending starts a pending goroutine if there is none, and reports whether it did;
// called with the mutex.
func (q *runQueue[C, Req, Resp]) ensurePending() bool {
	if q.pending {
		return false
	}
	q.pending = true
	q.host.work.Add(1)
	go q.work()
	return true
}

// pop takes the next task, and its message into h.own, which is empty; s is nil if there
// is none. A goroutine that pops its first task is no longer the pending one.
func (q *runQueue[C, Req, Resp]) pop(h *worker[C, Req, Resp], first bool) (s *Shard[C, Req, Resp], in *instance[C, Req, Resp]) {
	own := h.own
	q.mu.Lock()
	if first {
		q.pending = false
	}
	l := q.nextList()
	if l == nil {
		q.releaseWorker(h)
		q.mu.Unlock()
		return nil, nil
	}
	t := &l.tasks[l.head]
	s, in = t.s, t.in
	q.assignWorker(h, s, in, first)
	if t.mail {
		own.msgs = append(own.msgs, t.first)
		if t.control {
			own.control = 1
		}
	}
	l.dropFirst()
	if len(q.plain.tasks)+len(q.asks.tasks) > 0 {
		q.ensurePending()
	}
	q.mu.Unlock()
	return s, in
}

// nextList returns the list whose first task is next, nil if no task waits; called with the mutex.
func (q *runQueue[C, Req, Resp]) nextList() *taskList[C, Req, Resp] {
	switch {
	case len(q.asks.tasks) > 0 && (!q.turn || len(q.plain.tasks) == 0):
		q.turn = true
		return &q.asks
	case len(q.plain.tasks) > 0:
		q.turn = false
		return &q.plain
	}
	return nil
}

// work is the body of a runner's goroutine.
func (q *runQueue[C, Req, Resp]) work() {
	defer q.host.work.Done()
	h := q.host.workers.Get().(*worker[C, Req, Resp])
	h.mark.labelGoroutine()
	// Deferred, since a handler may end the goroutine.
	defer q.endWorker(h)
	for first := true; ; first = false {
		s, in := q.pop(h, first)
		if s == nil {
			return
		}
		s.runInstance(in, h)
		h.yieldTurn()
	}
}

// yieldEvery is the number of messages after which a worker lets other goroutines run. Go
// interrupts a goroutine only after 10 ms, and the workers of all run queues share the
// processors: a caller would wait for many such turns.
const yieldEvery = 512

// yieldTurn lets other goroutines run, once in yieldEvery messages.
func (h *worker[C, Req, Resp]) yieldTurn() {
	if h.turns-h.yielded >= yieldEvery {
		h.yielded = h.turns
		runtime.Gosched()
	}
}

// BatchInserter puts messages into mailboxes for a goroutine that brings many in a row,
// such as the reader of a connection. The entities that they wake begin at the Flush,
// when all messages are in their mailboxes. So the run queues are locked and goroutines
// started once for many messages, and an entity with several messages among them finds
// them all.
//
// Flush a BatchInserter before waiting for anything. It is for one goroutine. Host.Close
// waits for the Flush.
type BatchInserter[C, Req, Resp any] struct {
	host  *Host[C, Req, Resp]
	begun [queues]begunTasks[C, Req, Resp]
	// taken counts messages, woken entities, since the last Flush.
	taken, woken int
}

// begunTasks are woken entities, for both lists of a run queue.
type begunTasks[C, Req, Resp any] struct{ plain, asks []task[C, Req, Resp] }

// NewBatchInserter returns a BatchInserter for messages to the shards of h.
func (h *Host[C, Req, Resp]) NewBatchInserter() *BatchInserter[C, Req, Resp] {
	return &BatchInserter[C, Req, Resp]{host: h}
}

// addTask adds a woken entity; called with the mutex of its shard, so the Host is not
// closed.
func (i *BatchInserter[C, Req, Resp]) addTask(s *Shard[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool) {
	if i.woken == 0 {
		i.host.work.Add(1)
	}
	i.woken++
	b := &i.begun[s.info.number%queues]
	if isAsk(m) {
		b.asks = appendTask(b.asks, s, in, m, control)
	} else {
		b.plain = appendTask(b.plain, s, in, m, control)
	}
}

// insertsPerFlush bounds the messages before a Flush. The size of mailboxes bounds them
// too, since nothing empties mailboxes before the Flush.
const insertsPerFlush = 1024

// countInsert counts a message, and flushes at the bound.
func (i *BatchInserter[C, Req, Resp]) countInsert() {
	if i.taken++; i.taken >= min(insertsPerFlush, i.host.cfg.Mailbox/4) {
		i.Flush()
	}
}

// Flush lets the woken entities begin. It does not block.
func (i *BatchInserter[C, Req, Resp]) Flush() {
	i.taken = 0
	if i.woken == 0 {
		return
	}
	i.woken = 0
	for q := range i.begun {
		if b := &i.begun[q]; len(b.plain)+len(b.asks) > 0 {
			i.host.queues[q].pushAll(b)
		}
	}
	i.host.work.Done()
}

// worker is the state of a goroutine that runs instances, one after another.
type worker[C, Req, Resp any] struct {
	// user is the Context of the next call, in the type that entities receive. ctx is the
	// Context that user wraps.
	user C
	ctx  *Context
	// newContext makes them.
	newContext func() (C, *Context)
	// own is the mailbox for a message that arrives in a task: empty, but for a run's
	// first message.
	own *mailbox[Req]
	// mark labels the goroutine, so that its stack can be found.
	mark mark
	// turns counts messages, to sample durations; yielded is its value at the last yieldTurn.
	turns, yielded uint32
	watched[C, Req, Resp]
}

// renewContext replaces the Context by a new one.
func (h *worker[C, Req, Resp]) renewContext() {
	h.user, h.ctx = h.newContext()
	h.ctx.labels = h.mark.labels
}
