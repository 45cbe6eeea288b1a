package activation

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// The watch detects calls of entities' code that do not return. Reading the clock at each
// call would cost as much as the rest of a message's way, so the watch writes nothing per
// message:
//
//	pop    notes, under the run queue's mutex, which instance a goroutine has in hand
//	calls  sets flagWatched on the instances in hand; a tick later, an instance that is
//	       still in the same run with the flag still set has begun no call since
//	loop   clears the flag, which shares a word with those that it reads anyway, before
//	       the next message
//
// So the measured age of a call is at most one tick too low.

// watched is the watch's record of a worker; it belongs to the run queue's mutex.
type watched[C, Req, Resp any] struct {
	// s and in are the instance that it runs, nil while it looks for a task; runs counts
	// its runs.
	s    *Shard[C, Req, Resp]
	in   *instance[C, Req, Resp]
	runs uint32
	// at is its index in runQueue.working.
	at int
	// seen is the run, and since the time, at which the current call was first seen.
	// reported: the call counts as blocked.
	seen     uint32
	since    time.Time
	reported bool
}

// Running is a call of an entity's code that has not returned.
type Running struct {
	Type  string
	ID    string
	Shard ShardID
	// For is a lower bound of the call's duration so far.
	For time.Duration
	// Stack is the goroutine's stack, "" if it was not requested or not found.
	Stack string
}

// assignWorker records the instance that a worker runs; called with the mutex.
func (q *runQueue[C, Req, Resp]) assignWorker(h *worker[C, Req, Resp], s *Shard[C, Req, Resp], in *instance[C, Req, Resp], first bool) {
	if first {
		h.at = len(q.working)
		q.working = append(q.working, h)
	}
	h.s, h.in = s, in
	h.runs++
}

// releaseWorker removes a worker that has found no task; called with the mutex.
func (q *runQueue[C, Req, Resp]) releaseWorker(h *worker[C, Req, Resp]) {
	if h.at >= len(q.working) || q.working[h.at] != h {
		return // it never had a task
	}
	last := len(q.working) - 1
	q.working[h.at] = q.working[last]
	q.working[h.at].at = h.at
	q.working[last] = nil
	q.working = q.working[:last]
	h.s, h.in = nil, nil
}

// endWorker ends a worker, also if a handler ended its goroutine.
func (q *runQueue[C, Req, Resp]) endWorker(h *worker[C, Req, Resp]) {
	if h.in != nil {
		q.mu.Lock()
		q.releaseWorker(h)
		q.mu.Unlock()
	}
	q.host.workers.Put(h)
}

// ticksPerBlocked bounds the delay after which a blocked call is detected: an eighth of
// BlockedAfter, at most tickMost.
const (
	ticksPerBlocked = 8
	tickMost        = 500 * time.Millisecond
)

// watch looks for blocked calls until the Host is closed.
func (h *Host[C, Req, Resp]) watch() {
	h.callEvery(min(max(h.cfg.BlockedAfter/ticksPerBlocked, time.Millisecond), tickMost), func() bool {
		h.reportBlocked(h.calls(time.Now()))
		return true
	})
}

// call is a Running, and the mark of its goroutine.
type call struct {
	Running
	mark string
	// fresh: it counts as blocked since this tick.
	fresh bool
}

// calls returns the running calls; fresh ones count as blocked from now on.
func (h *Host[C, Req, Resp]) calls(now time.Time) (calls []call) {
	for i := range h.queues {
		q := &h.queues[i]
		q.mu.Lock()
		for _, w := range q.working {
			if w.runs != w.seen || !w.in.hasFlag(flagWatched) {
				w.seen, w.since, w.reported = w.runs, now, false
				w.in.flags.Or(flagWatched)
			}
			age := now.Sub(w.since)
			fresh := h.cfg.BlockedAfter > 0 && age >= h.cfg.BlockedAfter && !w.reported
			w.reported = w.reported || fresh
			calls = append(calls, call{Running{Type: h.cfg.Type, ID: w.in.id, Shard: w.s.info.number, For: age}, w.mark.id, fresh})
		}
		q.mu.Unlock()
	}
	return calls
}

// reportBlocked counts the calls that have just become blocked, and logs one of them a minute. Stats
// and Running have the others.
func (h *Host[C, Req, Resp]) reportBlocked(calls []call) {
	for _, c := range calls {
		if !c.fresh {
			continue
		}
		h.cfg.Counters.Blocked.Add(1)
		if n, ok := h.blocked.Take("", time.Now()); ok {
			args := []any{"type", c.Type, "entity", c.ID, "shard", c.Shard, "for", c.For, "stack", stacksOf([]call{c})[c.mark]}
			if n > 0 {
				args = append(args, loglimit.Folded, n)
			}
			h.cfg.Logger.Warn("sharding: handler blocks: its entity handles nothing else, and a move of its shard or a drain of this node waits for it", args...)
		}
	}
}

// Running returns the calls of entities' code that run now. With stacks, it adds the
// stacks of the first runningStacksMax.
func (h *Host[C, Req, Resp]) Running(stacks bool) []Running {
	calls := h.calls(time.Now())
	var found map[string]string
	if stacks && len(calls) > 0 {
		found = stacksOf(calls[:min(len(calls), runningStacksMax)])
	}
	all := make([]Running, 0, len(calls))
	for _, c := range calls {
		c.Stack = found[c.mark]
		all = append(all, c.Running)
	}
	return all
}

// runningStacksMax bounds the stacks that Running returns.
const runningStacksMax = 64

// Oldest returns the duration of the longest running call, 0 if none runs.
func (h *Host[C, Req, Resp]) Oldest() (age time.Duration) {
	for _, c := range h.calls(time.Now()) {
		age = max(age, c.For)
	}
	return age
}

// Waiting returns how many messages wait in mailboxes, and how many of them for the entity with
// the most. It looks only at entities that have messages. It leaves out the mailboxes of entities
// that pause after a panic, or until this node has a lease again.
func (h *Host[C, Req, Resp]) Waiting() (messages, most int) {
	var busy []busyEntity[C, Req, Resp]
	for i := range h.queues {
		busy = h.queues[i].appendBusy(busy[:0])
		for _, b := range busy {
			n := b.countWaiting()
			messages, most = messages+n, max(most, n)
		}
	}
	return messages, most
}

// busyEntity is an instance that runs or waits for a worker; extra messages wait that are in no
// mailbox.
type busyEntity[C, Req, Resp any] struct {
	s     *Shard[C, Req, Resp]
	in    *instance[C, Req, Resp]
	extra int
}

// countWaiting returns how many messages wait for the instance.
func (b *busyEntity[C, Req, Resp]) countWaiting() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.extra + b.in.countWaiting()
}

// appendBusy appends the instances that a worker runs, and those that wait for one.
func (q *runQueue[C, Req, Resp]) appendBusy(busy []busyEntity[C, Req, Resp]) []busyEntity[C, Req, Resp] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.working {
		if w.in != nil {
			busy = append(busy, busyEntity[C, Req, Resp]{s: w.s, in: w.in})
		}
	}
	for _, l := range [...]*taskList[C, Req, Resp]{&q.plain, &q.asks} {
		waiting := l.tasksLeft()
		for i := range waiting {
			b := busyEntity[C, Req, Resp]{s: waiting[i].s, in: waiting[i].in}
			if waiting[i].mail {
				b.extra = 1
			}
			busy = append(busy, b)
		}
	}
	return busy
}

// mark labels the goroutine of a worker, so that a profile identifies it. Go has no other
// access to one goroutine's stack that does not stop all goroutines for its duration.
type mark struct {
	// id is unique in the process while the worker exists.
	id     string
	labels context.Context
}

// The labels' keys. The type's is for users: profiles of processor time can be cut by it.
const (
	labelWorker = "peerage_worker"
	labelType   = "peerage_type"
)

func newWorker[C, Req, Resp any](typ string, newContext func() (C, *Context)) *worker[C, Req, Resp] {
	h := &worker[C, Req, Resp]{own: new(mailbox[Req]), newContext: newContext}
	h.mark.id = fmt.Sprintf("%p", h) // an address: no two workers have the same
	h.mark.labels = pprof.WithLabels(context.Background(), pprof.Labels(labelWorker, h.mark.id, labelType, typ))
	h.renewContext()
	return h
}

// labelGoroutine labels the calling goroutine.
func (m *mark) labelGoroutine() { pprof.SetGoroutineLabels(m.labels) }

// stackBytesMax bounds one goroutine's stack.
const stackBytesMax = 8 << 10

// stacksOf returns the stacks of the calls' goroutines, by mark. Its cost is proportional
// to the number of goroutines of the process.
func stacksOf(calls []call) map[string]string {
	f := finder{wanted: map[string]bool{}, found: map[string]string{}}
	for _, c := range calls {
		f.wanted[c.mark] = true
	}
	_ = pprof.Lookup("goroutine").WriteTo(&f, 1) // finder's Write does not fail
	f.endParagraph()
	return f.found
}

// finder parses the text of a goroutine profile and keeps the stacks with wanted labels.
// The profile has a paragraph for each stack: a line of counters, one of labels, then the
// frames.
type finder struct {
	wanted map[string]bool
	found  map[string]string
	line   []byte
	// mark is the mark of the paragraph, "" if it is not wanted.
	mark  string
	stack strings.Builder
}

func (f *finder) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			f.line = append(f.line, p...)
			return n, nil
		}
		f.takeLine(append(f.line, p[:i]...))
		f.line, p = f.line[:0], p[i+1:]
	}
}

func (f *finder) takeLine(line []byte) {
	text := string(line)
	switch {
	case text == "":
		f.endParagraph()
	case strings.HasPrefix(text, "# labels:"):
		if mark := labelIn(text); f.wanted[mark] {
			f.mark = mark
		}
	case f.mark != "" && strings.HasPrefix(text, "#\t") && f.stack.Len() < stackBytesMax:
		// # address, function and offset, file and line
		if fields := strings.Fields(text); len(fields) >= 4 {
			fmt.Fprintf(&f.stack, "%s\n\t%s\n", fields[2], strings.Join(fields[3:], " "))
		}
	}
}

// endParagraph ends a paragraph.
func (f *finder) endParagraph() {
	if f.mark != "" {
		f.found[f.mark] = f.stack.String()
	}
	f.mark = ""
	f.stack.Reset()
}

// labelIn returns the worker's label of a line of labels: {"key":"value", "key":"value"}.
func labelIn(line string) string {
	_, rest, _ := strings.Cut(line, strconv.Quote(labelWorker)+":")
	rest, ok := strings.CutPrefix(rest, `"`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
