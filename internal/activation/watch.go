package activation

import "time"

// The watch sees calls of entities' code that do not return. A clock read at each call
// would cost as much as the rest of a message's way, so nothing is written per message:
//
//	pop    notes, under the run queue's mutex, which instance a goroutine has in hand
//	calls  sets flagWatched on the instances in hand; a tick later, an instance that is
//	       still in the same run with the flag still set has begun no call since
//	loop   clears the flag, which shares a word with those that it reads anyway, before
//	       the next message
//
// So a call's age is known to within one tick, from below.

// watched is what the watch knows of a goroutine; it belongs to its run queue's mutex.
type watched[C, Req, Resp any] struct {
	// s and in are what it runs, nil while it looks for work; runs counts its runs.
	s    *Shard[C, Req, Resp]
	in   *instance[C, Req, Resp]
	runs uint32
	// at is its place in working.
	at int
	// seen is the run, and since the time, at which the call in hand was first seen;
	// told: it counts as blocked.
	seen  uint32
	since time.Time
	told  bool
}

// Running is a call of an entity's code that has not returned.
type Running struct {
	Type  string
	ID    string
	Shard ShardID
	// For is how long the call has been seen running, at least.
	For time.Duration
	// Stack is the goroutine's, "" if it was not asked for or not found.
	Stack string
}

// employ notes what a goroutine has in hand; called with the mutex.
func (q *runQueue[C, Req, Resp]) employ(h *hands[C, Req, Resp], s *Shard[C, Req, Resp], in *instance[C, Req, Resp], first bool) {
	if first {
		h.at = len(q.working)
		q.working = append(q.working, h)
	}
	h.s, h.in = s, in
	h.runs++
}

// dismiss notes that a goroutine has found nothing more to do; called with the mutex.
func (q *runQueue[C, Req, Resp]) dismiss(h *hands[C, Req, Resp]) {
	if h.at >= len(q.working) || q.working[h.at] != h {
		return // it never had anything
	}
	last := len(q.working) - 1
	q.working[h.at] = q.working[last]
	q.working[h.at].at = h.at
	q.working[last] = nil
	q.working = q.working[:last]
	h.s, h.in = nil, nil
}

// leave ends a goroutine's work, also when a handler ended the goroutine.
func (q *runQueue[C, Req, Resp]) leave(h *hands[C, Req, Resp]) {
	if h.in != nil {
		q.mu.Lock()
		q.dismiss(h)
		q.mu.Unlock()
	}
	q.host.hands.Put(h)
}

// ticksPerBlocked sets how late a blocked call may be seen: an eighth of BlockedAfter, at
// most tickMost.
const (
	ticksPerBlocked = 8
	tickMost        = 500 * time.Millisecond
)

// watch looks for blocked calls until the Host is closed.
func (h *Host[C, Req, Resp]) watch() {
	h.callEvery(min(max(h.cfg.BlockedAfter/ticksPerBlocked, time.Millisecond), tickMost), func() bool {
		h.report(h.calls(time.Now()))
		return true
	})
}

// call is a Running, and the mark of its goroutine.
type call struct {
	Running
	mark string
	// fresh: it has just come to count as blocked.
	fresh bool
}

// calls returns the calls that run; fresh ones count as blocked from now on.
func (h *Host[C, Req, Resp]) calls(now time.Time) (calls []call) {
	for i := range h.queues {
		q := &h.queues[i]
		q.mu.Lock()
		for _, w := range q.working {
			if w.runs != w.seen || !w.in.has(flagWatched) {
				w.seen, w.since, w.told = w.runs, now, false
				w.in.flags.Or(flagWatched)
			}
			age := now.Sub(w.since)
			fresh := h.cfg.BlockedAfter > 0 && age >= h.cfg.BlockedAfter && !w.told
			w.told = w.told || fresh
			calls = append(calls, call{Running{Type: h.cfg.Type, ID: w.in.id, Shard: w.s.info.number, For: age}, w.mark.id, fresh})
		}
		q.mu.Unlock()
	}
	return calls
}

// report logs and counts what has come to be blocked.
func (h *Host[C, Req, Resp]) report(calls []call) {
	var say []call
	unsaid := 0
	for _, c := range calls {
		if !c.fresh {
			continue
		}
		h.cfg.Counters.Blocked.Add(1)
		if n, ok := h.blocked.Take(time.Now()); ok {
			unsaid += n
			say = append(say, c)
		}
	}
	if len(say) == 0 {
		return
	}
	stacks := stacksOf(say)
	for _, c := range say {
		h.cfg.Logger.Warn("sharding: handler blocks: its entity handles nothing else, and a move of its shard or a drain of this node waits for it",
			"type", c.Type, "entity", c.ID, "shard", c.Shard, "for", c.For, "stack", stacks[c.mark], "unsaid", unsaid)
		unsaid = 0
	}
}

// Running returns the calls of entities' code that run now, with their goroutines' stacks
// if these are asked for, of at most runningStacksMax.
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

// Oldest returns for how long the call that runs longest has run, 0 if none runs.
func (h *Host[C, Req, Resp]) Oldest() (age time.Duration) {
	for _, c := range h.calls(time.Now()) {
		age = max(age, c.For)
	}
	return age
}
