package replica

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/loglimit"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// loop is the goroutine's own state: it steps the core and carries its effects
// out.
type loop struct {
	r       *Replicator
	core    *replication.Core
	out     replication.Effects
	waiters map[replication.RequestID]*waiter
	subs    subscriptions
	// stats has the counters of the shell; those of the core are zero.
	stats    figures.Replicator
	warnings loglimit.Folder
	ahead    map[gossip.NodeID]bool // warned about (warnAhead)
	disk     disk

	// The newest message encoded: sends of one message to several peers follow
	// each other.
	encoded replication.Message
	frame   []byte
}

func (l *loop) init(r *Replicator) {
	c := &r.cfg
	l.r = r
	l.waiters = map[replication.RequestID]*waiter{}
	l.subs.exact = map[string][]*subscription{}
	l.core = replication.New(replication.Config{Self: c.Self, Role: c.Role, Timeout: c.Timeout, BatchEvery: c.BatchEvery,
		ResendAfter: c.ResendAfter, GossipEvery: c.GossipEvery, PruneEvery: c.PruneEvery, Expire: c.Expire, Seed: c.Seed, Limits: c.Limits, Keep: l.disk.openDisk(c.Durable),
		LeaseValid: c.LeaseValid, Wall: c.wall(), Epochs: c.Terms,
		Retain: l.disk.retain()})
}

// wall returns the wall clock of the core, nil if stamps are no times.
func (c *Config) wall() func() uint64 {
	if c.Terms {
		return nil
	}
	return func() uint64 { return uint64(max(c.WallClock().UnixMilli(), 0)) }
}

// runLoop steps the core until the replicator is closed. A bug in the core ends this
// replicator and not the process.
func (l *loop) runLoop() {
	defer l.locked(l.closeLoop)
	func() {
		// New has taken it.
		defer l.r.running.Unlock()
		defer l.contain()
		l.restore()
	}()
	l.r.inbox.Run(l.r.quit, l.stepBatch)
}

// locked runs f while no other goroutine steps the core.
func (l *loop) locked(f func()) {
	l.r.running.Lock()
	defer l.r.running.Unlock()
	defer l.contain()
	f()
}

// stepBatch runs jobs and what is due, and returns the next deadline.
func (l *loop) stepBatch(jobs []job) clock.Instant {
	l.r.running.Lock()
	defer l.r.running.Unlock()
	defer l.contain()
	for i := range jobs {
		l.runJob(&jobs[i])
	}
	if !l.quiet() {
		l.stepCore(replication.Tick{})
	}
	l.carryOut()
	return l.nextDeadline()
}

func (l *loop) nextDeadline() clock.Instant {
	return clock.Min(l.core.Deadline(), l.disk.diskDeadline())
}

func (l *loop) runJob(j *job) {
	switch {
	case j.call != nil:
		j.call()
	case j.frame != nil:
		l.receiveFrame(j.from, j.frame)
	case j.waiter != nil:
		l.stepRequest(j)
	default:
		l.stepCore(j.event)
	}
}

func (l *loop) stepRequest(j *job) {
	if _, cancel := j.event.(replication.Cancel); cancel {
		if l.waiters[j.waiter.id] != nil {
			delete(l.waiters, j.waiter.id)
			l.observe(j.waiter, "cancelled")
		}
	} else {
		l.waiters[j.waiter.id] = j.waiter
	}
	l.stepCore(j.event)
}

func (l *loop) receiveFrame(from gossip.NodeID, frame []byte) {
	l.stats.FramesReceived++
	l.stats.BytesReceived += uint64(len(frame))
	m, err := replication.Decode(frame)
	if err != nil {
		l.stats.FramesBad++
		l.warn("replicator: bad frame", "from", from, "error", err)
		return
	}
	l.stepCore(replication.Received{From: from, Msg: m})
}

func (l *loop) stepCore(ev replication.Event) {
	l.core.Step(l.r.cfg.Clock.Now(), ev, &l.out)
	if _, changed := ev.(replication.ViewChanged); changed {
		l.r.lost.Store(uint64(l.core.Lost()))
	}
	if l.disk.to == nil {
		l.carryOut()
	}
}

// carryOut does what the steps since the last time have asked for, but for what rests on
// the disk: that waits for the batch which has the durable keys (disk.go).
func (l *loop) carryOut() {
	l.storeChanges()
	batch := l.restsOn()
	// Before a change becomes visible elsewhere: otherwise a subscriber that is ready
	// meanwhile would receive the same state twice.
	l.subs.markChanged(l.out.Changed)
	for i := range l.out.Send {
		if s := &l.out.Send[i]; !l.holdForDisk(batch, s.Disk, held{send: *s}) {
			l.sendFrame(s)
		}
	}
	l.encoded = nil
	for i := range l.out.Reply {
		if rep := &l.out.Reply[i]; !l.holdForDisk(batch, rep.Disk, held{reply: *rep}) {
			l.replyToWaiter(rep)
		}
	}
	for i := range l.out.Trace {
		l.logTrace(&l.out.Trace[i])
	}
	l.out.Reset()
}

func (l *loop) sendFrame(s *replication.Send) {
	if s.Msg != l.encoded {
		l.frame = replication.Append(appendRole(l.frame[:0], l.r.cfg.Role), s.Msg)
		l.encoded = s.Msg
	}
	class := l.r.cfg.Class
	if s.Bulk {
		class = transport.Bulk
	}
	err := l.r.cfg.Send(s.To, class, l.frame)
	if err != nil {
		l.stats.SendRefused++
	} else {
		l.stats.FramesSent++
		l.stats.BytesSent += uint64(len(l.frame))
	}
	if f := l.r.cfg.Observer.Sent; f != nil {
		f(replication.Name(s.Msg), len(l.frame), err)
	}
	if cap(l.frame) > 1<<20 {
		l.frame, l.encoded = nil, nil
	}
}

func (l *loop) replyToWaiter(rep *replication.Reply) {
	w := l.waiters[rep.ID]
	if w == nil {
		return
	}
	delete(l.waiters, rep.ID)
	w.reply <- *rep
	l.observe(w, result(rep.Err))
}

func (l *loop) observe(w *waiter, result string) {
	if f := l.r.cfg.Observer.Done; f != nil {
		f(w.op, w.level.Name(), result, l.r.cfg.Clock.Now().Sub(w.started))
	}
}

// result names an error for the labels of metrics.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, replicator.ErrOutcomeUnknown):
		return "unknown"
	case errors.Is(err, replicator.ErrTooFewMembers):
		return "members"
	case errors.Is(err, replicator.ErrFenced):
		return "fenced"
	case errors.Is(err, replicator.ErrLimit):
		return "limit"
	}
	return "error"
}

func (l *loop) logTrace(e *replication.TraceEvent) {
	switch e.Kind {
	case replication.TraceRefused:
		l.warn("replicator: refused what a peer sent", "peer", e.Peer, "key", e.Key, "bytes", e.Bytes, "why", e.Detail)
	case replication.TraceAhead:
		l.warnAhead(e)
	case replication.TraceRestamped:
		l.r.cfg.Logger.Warn("replicator: entries had stamps far ahead of the clock of the first member that answered; they were stamped again. Check the clocks of both", "role", l.r.cfg.Role, "key", e.Key, "what", e.Detail)
	case replication.TraceEra:
		l.warn("replicator: a key had entries with stamps far ahead of all clocks; they keep their values and their order, and a write was made above them. Check the clocks of all members", "key", e.Key, "what", e.Detail)
	case replication.TraceLateFile:
		l.r.cfg.Logger.Error("replicator: deleted durable keys may be back: a member that was away for long formed the cluster before the members that had kept running joined; check these keys", "role", l.r.cfg.Role)
	case replication.TraceLogCut:
		l.warn("replicator: a peer is so far behind that it must compare everything", "peer", e.Peer)
	}
}

// warnAhead logs once for each peer that its stamps are ahead.
func (l *loop) warnAhead(e *replication.TraceEvent) {
	if l.ahead[e.Peer] || len(l.ahead) >= aheadPeersMax {
		return
	}
	if l.ahead == nil {
		l.ahead = map[gossip.NodeID]bool{}
	}
	l.ahead[e.Peer] = true
	l.r.cfg.Logger.Warn("replicator: a member writes with stamps that are too far ahead; they are not applied, and do not count. Check its clock and this node's",
		"role", l.r.cfg.Role, "writer", e.Peer, "key", e.Key, "why", e.Detail)
}

// aheadPeersMax bounds the peers of which warnAhead takes note.
const aheadPeersMax = 1024

// warn logs a line of each text once a minute, so that a peer that misbehaves cannot fill the log.
func (l *loop) warn(msg string, args ...any) {
	folded, ok := l.warnings.Take(msg, time.Unix(0, int64(l.r.cfg.Clock.Now())))
	if !ok {
		return
	}
	if folded > 0 {
		args = append(args, loglimit.Folded, folded)
	}
	l.r.cfg.Logger.Warn(msg, append([]any{"role", l.r.cfg.Role}, args...)...)
}

func (l *loop) snapshot() figures.Replicator {
	s, own := l.core.Stats(), &l.stats
	s.SendRefused, s.FramesSent, s.BytesSent = own.SendRefused, own.FramesSent, own.BytesSent
	s.FramesReceived, s.BytesReceived, s.FramesBad = own.FramesReceived, own.BytesReceived, own.FramesBad
	s.DurableWrites, s.DurableErrors = own.DurableWrites, own.DurableErrors
	s.Subscribers, s.Durable, s.DurableFailing = l.subs.n, l.disk.to != nil, l.disk.failing != nil
	_, _, s.InboxDropped = l.r.inbox.Counts()
	return s
}

// subscribe starts a subscription, which begins with the keys that exist.
func (l *loop) subscribe(s *subscription) {
	var existing []string
	if s.prefix {
		existing = l.core.Keys(s.name)
	} else if l.core.Value(s.name) != nil {
		existing = []string{s.name}
	}
	l.subs.addSubscription(s, existing)
}

// closeLoop closes the subscriptions and releases all waiting callers.
func (l *loop) closeLoop() {
	r := l.r
	// Deferred, in case a broken core panics again here: no caller may wait forever.
	defer close(r.done)
	defer l.subs.endAll()
	if l.disk.to != nil {
		// The file learns how long it was in use. An error is counted, and warned about.
		l.finishDisk()
	}
	r.inbox.Close()
	r.last = l.snapshot()
}

// Callers step the core
//
// A step is short, and to hand it to another goroutine takes longer than the step. So a
// request is handled by its caller, and a small frame by the caller of HandleFrame if
// Config.Direct is set, as long as no step is running, nothing waits and nothing is due.
// Otherwise it goes to the inbox, and the replicator's own goroutine handles it. Steps never
// overlap: Replicator.running is held for each of them.
//
// Rejected: to let the holder of the lock empty the inbox. A caller would then work for
// other callers as long as they keep sending.

// directBytesMax bounds the frames that are handled by their reader.
const directBytesMax = 2 << 10

// direct handles a job immediately, if possible.
func (r *Replicator) direct(j *job) bool {
	if !r.running.TryLock() {
		return false
	}
	defer r.running.Unlock()
	if !r.inbox.Idle() || !r.loop.quick() {
		return false
	}
	defer r.loop.contain()
	r.loop.runJob(j)
	r.loop.carryOut()
	r.inbox.ArmTimer(r.loop.nextDeadline())
	return true
}

// quick reports whether a step now does nothing but what it is asked for, and waits for
// no disk.
func (l *loop) quick() bool { return l.disk.to == nil && l.quiet() }

// quiet reports whether the core has nothing due.
func (l *loop) quiet() bool { return l.core.Deadline().After(l.r.cfg.Clock.Now()) }

// contain ends this replicator, and not the process, when the core has a bug.
func (l *loop) contain() {
	if x := recover(); x != nil {
		l.r.cfg.Logger.Error("replicator: a panic in its core; it ends, and requests of its role fail with ErrClosed; restart the node (please report)",
			"role", l.r.cfg.Role, "panic", x, "stack", string(debug.Stack()))
		l.r.quitOnce.Do(func() { close(l.r.quit) })
	}
}

// light reports whether a frame is small, and quickly dealt with.
func light(payload []byte) bool { return len(payload) <= directBytesMax && replication.Light(payload) }
