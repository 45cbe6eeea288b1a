package activation

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/headers"
)

// runInstance handles the message in h.own, if there is one, and then the mailbox of one
// instance until it is empty. The instance's state is running.
func (s *Shard[C, Req, Resp]) runInstance(in *instance[C, Req, Resp], h *worker[C, Req, Resp]) {
	r := runner[C, Req, Resp]{shard: s, in: in, worker: h}
	if len(h.own.msgs) > 0 {
		r.batch = h.own
	}
	defer r.closeRun()
	r.loop()
	r.ended = true
	r.ctx.unbind()
}

// bindContext binds the Context to a message.
func (r *runner[C, Req, Resp]) bindContext(from *Sender, h headers.List, chain *Chain, expires time.Time) {
	r.ctx.shard, r.ctx.id = &r.shard.info, r.in.id
	r.ctx.from, r.ctx.headers, r.ctx.chain, r.ctx.expires = from, h, chain, expires
}

// logger returns the Context's logger, also after the call.
func (r *runner[C, Req, Resp]) logger() *slog.Logger { return r.shard.info.loggerOf(r.in.id) }

// releaseContext ends the use of the Context for a message.
func (r *runner[C, Req, Resp]) releaseContext() {
	if r.ctx.leave {
		r.in.retire = true
	}
	if r.ctx.lazy.used.Load() || r.shard.host.cfg.Strict {
		r.ctx.lazy.cancelContext()
		r.ctx.ended.Store(true)
		r.renewContext()
	}
	r.ctx.leave, r.ctx.stash, r.ctx.unstash, r.ctx.message, r.ctx.ends = false, false, false, false, false
}

// closeRun ends a run. If the handler ended the goroutine (runtime.Goexit), another
// goroutine handles the rest.
func (r *runner[C, Req, Resp]) closeRun() {
	if r.ended {
		return
	}
	r.ctx.lazy.cancelContext()
	r.ctx.ended.Store(true)
	r.renewContext()
	r.flushCount()
	s := r.shard
	s.mu.Lock()
	if s.gone.Load() {
		s.mu.Unlock()
		r.dropRest()
		return
	}
	if r.batch != nil {
		r.putBack()
	}
	s.mu.Unlock()
	queueOf(s).pushTask(s, r.in, nil, false)
}

// runner is the state of one run.
type runner[C, Req, Resp any] struct {
	*worker[C, Req, Resp]
	shard *Shard[C, Req, Resp]
	in    *instance[C, Req, Resp]
	batch *mailbox[Req]
	next  int
	ended bool
	// counted per batch, not per message: the counter is shared by all processors.
	handled int
	// broken is set after a panic, so that takeBatch reviews the instance.
	broken bool
	// began: the message in hand has reached its handler.
	began bool
	// touched is set once a message was handled; timers are none.
	touched bool
	// stopEndTimer is called, with the mutex, when the instance has ended.
	stopEndTimer func()
	// alone: the instance ends by itself, not with its shard.
	alone bool
}

func (r *runner[C, Req, Resp]) loop() {
	for first := r.batch != nil; first || r.takeBatch(); first = false {
		for r.batch != nil && r.next < len(r.batch.msgs) {
			if r.shard.gone.Load() {
				r.dropRest()
				return
			}
			if !r.shard.host.cfg.Alive() {
				if r.parkRun() {
					return
				}
				continue
			}
			if r.in.retire || r.broken {
				if !r.giveBack() {
					r.dropRest()
					return
				}
				break
			}
			if f := r.in.flags.Load(); f&(flagControl|flagWatched) != 0 {
				r.handleFlags(f)
			}
			r.next++
			r.publishDepth()
			r.wakeSenders()
			r.handleMessage(&r.batch.msgs[r.next-1])
		}
		r.flushCount()
		r.yieldTurn()
	}
}

// handleFlags acts on the flags of the instance before the next message.
func (r *runner[C, Req, Resp]) handleFlags(flags uint32) {
	if flags&flagWatched != 0 {
		r.in.flags.And(^flagWatched)
	}
	if flags&flagControl != 0 {
		r.takeControl()
	}
}

// publishDepth publishes to senders how many messages of the batch have not begun. For a
// large batch it does so only now and then, and the value is at most a sixteenth too
// high: a word that one processor writes and another reads costs either of them more than
// the rest of its work.
func (r *runner[C, Req, Resp]) publishDepth() {
	left, all := len(r.batch.msgs)-r.next, len(r.batch.msgs)
	if all < 32 || left&(1<<(bits.Len(uint(all))-5)-1) == 0 {
		r.in.left.Store(int32(left))
	}
}

// giveBack puts the rest of the batch back, so that takeBatch reviews the instance before
// the next message; false means that the shard is gone.
func (r *runner[C, Req, Resp]) giveBack() bool {
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return false
	}
	r.putBack()
	return true
}

// takeBatch takes the next batch; false means that the instance went to rest, or ended,
// or was parked.
func (r *runner[C, Req, Resp]) takeBatch() bool {
	s, in := r.shard, r.in
	s.mu.Lock()
	if r.batch != nil {
		r.releaseBatch()
	}
	in.taken, r.broken = 0, false
	s.admitWaiters(in)
	for !s.gone.Load() && in.state != detached {
		switch {
		case s.startPause(in):
			s.mu.Unlock()
			return false
		case in.retire, s.stopping != nil && in.mailbox == nil && in.ent != nil:
			if !s.host.cfg.Alive() {
				s.parkInstance(in)
				s.mu.Unlock()
				return false
			}
			r.alone = s.stopping == nil
			r.stopEndTimer = s.startEndTimer(in)
			travels := s.stopping != nil && s.stopping.keep && !in.retire && s.host.cfg.Keeper == nil
			s.mu.Unlock()
			r.endInstance(travels)
			s.mu.Lock()
		case in.mailbox == nil && in.endsWhenIdle():
			in.retire = true
		case in.cold != nil && in.cold.dismissed:
			in.cold.dismissed, in.retire = false, in.ent != nil
		case in.mailbox != nil:
			r.batch, in.mailbox, r.next = in.mailbox, nil, 0
			r.recount()
			if in.hasFlag(flagControl) {
				in.flags.And(^flagControl)
			}
			s.mu.Unlock()
			return true
		default:
			fell := in.ent == nil && s.stopping == nil
			s.goToRest(in, r.touched)
			s.mu.Unlock()
			if fell && s.host.cfg.Fell != nil {
				s.host.cfg.Fell(s.info.number, in.id)
			}
			return false
		}
	}
	s.mu.Unlock()
	return false
}

// goToRest ends the run of an instance without messages; called with the mutex.
func (s *Shard[C, Req, Resp]) goToRest(in *instance[C, Req, Resp], touched bool) {
	if s.gone.Load() {
		return
	}
	in.state = resting
	if touched {
		in.used = uint16(s.host.sweeps.Load())
	}
	s.busy--
	switch {
	case in.ent == nil:
		s.endResting(in)
	default:
		s.order.addInstance(in)
	}
	s.finishIfStopped()
}

func (s *Shard[C, Req, Resp]) endResting(in *instance[C, Req, Resp]) {
	if stash := in.endActivation(); len(stash) > 0 {
		s.host.work.Go(func() { s.failMessages(stash, ErrNotHosted) })
	}
	s.order.dropInstance(in)
	s.removeInstance(in)
	s.host.cfg.Counters.Entities.Add(-1)
}

// handleMessage passes one message to the entity and answers it.
func (r *runner[C, Req, Resp]) handleMessage(m *Message[Req]) {
	h := r.shard.host
	rare := m.rare
	if rare != nil && (rare.timer != nil && !r.isDue(rare.timer) || rare.reliable != nil && !deduplicatorOf(r.shard).admitCopy(m.Reply.Node, r.in.id, rare.reliable)) {
		return
	}
	if m.Reply.Call != 0 && r.expired(m) {
		h.cfg.Counters.Expired.Add(1)
		var none Resp
		h.cfg.Replies.Reply(m.Reply, none, ErrExpired)
		return
	}
	if rare != nil && rare.late != nil {
		if !decodeLate(&h.cfg, m) {
			return
		}
		if !h.cfg.Alive() { // the lease may have lapsed meanwhile
			r.next-- // the loop parks the instance, or tries again
			return
		}
	}
	var expires time.Time
	if m.Expires != 0 {
		expires = h.cfg.Epoch.Add(m.Expires)
	}
	r.bindContext(m.From, m.headers(), m.chain(), expires)
	resp, err := r.timedCall(m)
	if err == errLapsed {
		r.releaseContext()
		r.next-- // the loop parks the instance, or tries again
		return
	}
	if m.Expires != 0 && wrapsDeadline(err) && time.Since(h.cfg.Epoch) >= m.Expires {
		// The handler returned its context's error; report expiry, not a handler error.
		err = ErrExpired
	}
	if m.timer() == nil {
		r.handled++
		r.touched = true
		if r.in.hasFlag(flagListens) {
			r.noteHandled()
		}
	}
	stashed := (r.ctx.stash || r.ctx.unstash) && r.setAside(m, isPanic(err))
	if h.cfg.Keeper != nil {
		r.keepState(m, resp, err, stashed)
		r.releaseContext()
		return
	}
	r.releaseContext()
	switch {
	case !stashed:
		r.sendAnswer(m, resp, err)
	case m.reliableMark() != nil:
		r.onReliableHandled(m, true, nil)
	}
}

// decodeLate decodes the payload of a large message. It reports false if that failed.
func decodeLate[C, Req, Resp any](cfg *Config[C, Req, Resp], m *Message[Req]) bool {
	req, err := cfg.Decode(m.rare.late)
	if m.rare.late = nil; err != nil {
		cfg.Undecoded(m.Reply, err)
		return false
	}
	m.Req = req
	return true
}

// sampleEvery: the duration of one in sampleEvery messages is measured. Reading the clock
// twice costs as much as the rest of a message's way through its mailbox.
const sampleEvery = 32

// timedCall is call, and measures one call of sampleEvery.
func (r *runner[C, Req, Resp]) timedCall(m *Message[Req]) (Resp, error) {
	took := r.shard.host.cfg.Took
	r.turns++
	if took == nil || r.turns%sampleEvery != 1 || m.timer() != nil {
		return r.call(m)
	}
	begin := time.Now()
	resp, err := r.call(m)
	took(time.Since(begin))
	return resp, err
}

// expired reports whether the asker no longer waits for the answer.
func (r *runner[C, Req, Resp]) expired(m *Message[Req]) bool {
	h := r.shard.host
	if m.Expires != 0 && time.Since(h.cfg.Epoch) >= m.Expires {
		return true
	}
	return h.cfg.Replies.Cancelled(m.Reply)
}

// sendAnswer answers an ask, confirms a reliable message, or counts the error of a tell.
func (r *runner[C, Req, Resp]) sendAnswer(m *Message[Req], resp Resp, err error) {
	h := r.shard.host
	if m.reliableMark() != nil {
		r.onReliableHandled(m, false, err)
		return
	}
	if m.Reply.Call != 0 {
		if r.shard.gone.Load() {
			// The instance was abandoned while its handler ran: its successor lacks the
			// handler's changes, so the ask must not succeed.
			err = failure.Abandoned
		}
		h.cfg.Replies.Reply(m.Reply, resp, err)
		return
	}
	switch {
	case err == nil || err == ErrStarted || isPanic(err):
	case err == failure.Abandoned:
		h.cfg.Counters.AbandonedTells.Add(1)
	default:
		h.cfg.Counters.HandlerErrors.Add(1)
		if t := m.timer(); t != nil && t.begins {
			r.notStarted(err)
		}
	}
}

// notStarted logs why an instance did not start, since there is no asker for the error.
func (r *runner[C, Req, Resp]) notStarted(err error) {
	r.shard.host.failures.logError(r.logger(), slog.LevelError, "sharding: entity did not start; the next message tries again; mend its New or OnStart", err)
}

// errLapsed: no handler was called, since the lease ended while the instance began, or
// while its state was read.
var errLapsed = errors.New("lease lapsed")

// call runs the handler and contains its panics.
func (r *runner[C, Req, Resp]) call(m *Message[Req]) (resp Resp, err error) {
	done := false
	defer func() {
		if done {
			return
		}
		v := recover()
		err = r.onPanic(v)
		if v == nil {
			// runtime.Goexit: no code after this call will run.
			if m.timer() == nil {
				r.handled++
			}
			r.sendAnswer(m, resp, err)
		}
	}()
	r.began = false
	if r.in.ent == nil {
		r.in.flags.Or(flagBegun)
		if err := r.create(); err != nil {
			r.stopTimers()
			done = true
			return resp, err
		}
		if m.timer() == nil && !r.shard.host.cfg.Alive() {
			done = true
			return resp, errLapsed
		}
	}
	switch {
	case m.timer() == nil:
		r.began, r.ctx.message = true, true
		if around := r.shard.host.cfg.Around; around == nil {
			resp, err = r.in.ent.Handle(r.user, m.Req)
		} else {
			resp, err = around(r.user, m.op(), m.Req, r.in.ent)
		}
		err = appError(err)
	case m.timer().begins:
		r.touched, err = true, ErrStarted
	default:
		err = r.onTimer(m.timer().name)
	}
	done = true
	return resp, err
}

// create makes the instance, restores the transferred state, and calls OnStart.
func (r *runner[C, Req, Resp]) create() error {
	ent, err := r.newEntity()
	if err != nil {
		return err
	}
	if ent == nil {
		panic("New returned nil")
	}
	state, carried, err := r.shard.carried(r.in.id)
	if err != nil {
		return err
	}
	if carried {
		if err := r.restoreState(ent, state); err != nil {
			return err
		}
	}
	if r.shard.host.cfg.Keeper != nil {
		if err := r.loadState(ent); err != nil {
			return err
		}
	}
	if starter, ok := ent.(Starter[C]); ok {
		if err := starter.OnStart(r.user); err != nil {
			return appError(err)
		}
	}
	if r.shard.gone.Load() {
		return failure.Abandoned // while it began
	}
	if carried {
		r.shard.mu.Lock()
		r.shard.states.dropState(r.in.id)
		r.shard.mu.Unlock()
	}
	if _, keeps := ent.(Snapshotter[C]); keeps && !r.shard.host.keeps.Load() {
		r.shard.host.keeps.Store(true)
	}
	r.in.ent = ent
	r.reportLife(true)
	return nil
}

func (r *runner[C, Req, Resp]) newEntity() (Entity[C, Req, Resp], error) {
	if tryNew := r.shard.host.cfg.TryNew; tryNew != nil {
		return tryNew(r.in.id)
	}
	return r.shard.host.cfg.New(r.in.id), nil
}

// stopTimers stops the timers that an OnStart set before it failed.
func (r *runner[C, Req, Resp]) stopTimers() {
	r.in.flags.And(^flagBegun)
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	r.in.stopTimers()
}

func (r *runner[C, Req, Resp]) restoreState(ent any, state []byte) error {
	if err := appError(callRestore(r.user, ent, state)); err != nil {
		r.shard.host.failures.logError(r.logger(), slog.LevelError, "sharding: state was not restored; it is kept, and the next message tries again; mend its Restore", err)
		return fmt.Errorf("%w: %w", failure.Restore, err)
	}
	return nil
}

// dropRest fails the messages that the runner of an abandoned instance still holds.
func (r *runner[C, Req, Resp]) dropRest() {
	r.flushCount()
	if r.batch != nil {
		r.shard.failMessages(r.batch.msgs[r.next:], failure.Abandoned)
		r.own.dropAll()
		r.batch = nil
	}
}

func (r *runner[C, Req, Resp]) flushCount() {
	if r.handled > 0 {
		r.shard.host.cfg.Counters.Handled.addAt(r.shard.info.number, r.handled)
		r.handled = 0
	}
}

// releaseBatch gives back the mailbox of a batch that was handled; called with the mutex.
func (r *runner[C, Req, Resp]) releaseBatch() {
	if r.batch == r.own && cap(r.own.msgs) <= spareRoomMax {
		r.own.dropAll()
	} else if r.batch == r.own {
		*r.own = mailbox[Req]{}
	} else {
		r.shard.mailboxes.giveBack(r.batch)
	}
	r.batch = nil
}

// takeControl moves the control messages that have arrived since to the front of the rest
// of the batch, behind the control messages there. It drops the handled messages: while
// control messages arrive faster than they are handled, the batch does not end.
func (r *runner[C, Req, Resp]) takeControl() {
	s, in := r.shard, r.in
	s.mu.Lock()
	defer s.mu.Unlock()
	in.flags.And(^flagControl)
	if in.mailbox == nil {
		return
	}
	r.batch.skip(r.next)
	r.next = 0
	n := in.mailbox.control
	r.batch.insertControl(r.next, in.mailbox.msgs[:n]...)
	in.mailbox.skip(n)
	if len(in.mailbox.msgs) == 0 {
		s.mailboxes.giveBack(in.mailbox)
		in.mailbox = nil
	}
	r.recount()
	s.admitWaiters(in)
}

// wakeSenders admits waiters as soon as a quarter of the mailbox is free, before the
// batch is finished: their callers prepare the next messages meanwhile. It checks every
// sixteenth of a mailbox, before the handler, which may take long.
func (r *runner[C, Req, Resp]) wakeSenders() {
	most := r.shard.host.cfg.Mailbox
	if !r.in.hasFlag(flagWaited) || r.next%max(most/16, 1) != 0 {
		return
	}
	s := r.shard
	s.mu.Lock()
	r.recount()
	if !r.in.isFull(most-most/4, false) || r.in.hasFlag(flagUrgent) && !r.in.isFull(most-most/4, true) {
		s.admitWaiters(r.in)
	}
	s.mu.Unlock()
}
