package activation

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"time"
)

// hands are what a goroutine that runs instances takes along from one to the next.
type hands[C, Req, Resp any] struct {
	// user is a Context as the entities see it, which no call uses, and ctx the one in it.
	user C
	ctx  *Context
	// newContext makes them.
	newContext func() (C, *Context)
	// own is a box for the messages that come without one: empty, but for a run's first.
	own *box[Req]
	// mark labels the goroutine, so that its stack can be found.
	mark mark
	// turns counts messages, for the sample of durations.
	turns uint32
	watched[C, Req, Resp]
}

// renewContext replaces the Context by one that no call has had.
func (h *hands[C, Req, Resp]) renewContext() {
	h.user, h.ctx = h.newContext()
	h.ctx.labels = h.mark.labels
}

// run works off the message in h.own, if there is one, and then the mailbox of one
// instance until it is empty, entered with state running.
func (s *Shard[C, Req, Resp]) run(in *instance[C, Req, Resp], h *hands[C, Req, Resp]) {
	r := runner[C, Req, Resp]{shard: s, in: in, hands: h}
	if len(h.own.msgs) > 0 {
		r.batch = h.own
	}
	defer r.close()
	r.loop()
	r.ended = true
	r.ctx.clear()
}

// about sets the Context to a message.
func (r *runner[C, Req, Resp]) about(from *Sender, chain *Chain, expires time.Time) {
	r.ctx.shard, r.ctx.id = &r.shard.info, r.in.id
	r.ctx.from, r.ctx.chain, r.ctx.expires = from, chain, expires
}

// logger is the Context's, for use after the call too.
func (r *runner[C, Req, Resp]) logger() *slog.Logger { return r.shard.info.loggerOf(r.in.id) }

// over ends the use of the Context for a message.
func (r *runner[C, Req, Resp]) over() {
	if r.ctx.leave {
		r.in.retire = true
	}
	if r.ctx.inner.used.Load() || r.shard.host.cfg.Strict {
		r.ctx.inner.end()
		r.ctx.ended.Store(true)
		r.renewContext()
	}
	r.ctx.leave, r.ctx.stash, r.ctx.unstash, r.ctx.message, r.ctx.ends = false, false, false, false, false
}

// close ends a run. If the handler ended the goroutine (runtime.Goexit), what it
// left goes to another one.
func (r *runner[C, Req, Resp]) close() {
	if r.ended {
		return
	}
	r.ctx.inner.end()
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
	s.queue().push(s, r.in, nil, false)
}

// runner is the state of one run.
type runner[C, Req, Resp any] struct {
	*hands[C, Req, Resp]
	shard *Shard[C, Req, Resp]
	in    *instance[C, Req, Resp]
	batch *box[Req]
	next  int
	ended bool
	// counted per batch, not per message: the counter is shared by all processors.
	handled int
	// broken asks for a new look at the instance: it panicked.
	broken bool
	// began: the message in hand has reached its handler.
	began bool
	// touched is set once a message was handled; timers are none.
	touched bool
	// bound is called, with the mutex, when the instance has ended.
	bound func()
	// alone: the instance ends by itself, not with its shard.
	alone bool
}

func (r *runner[C, Req, Resp]) loop() {
	for first := r.batch != nil; first || r.take(); first = false {
		for r.batch != nil && r.next < len(r.batch.msgs) {
			if r.shard.gone.Load() {
				r.dropRest()
				return
			}
			if !r.shard.host.cfg.Alive() && r.park() {
				return
			}
			if r.in.retire || r.broken {
				if !r.giveBack() {
					r.dropRest()
					return
				}
				break
			}
			if f := r.in.flags.Load(); f&(flagControl|flagWatched) != 0 {
				r.heed(f)
			}
			r.next++
			r.tellLeft()
			r.admitEarly()
			r.dispatch(&r.batch.msgs[r.next-1])
		}
		r.flushCount()
	}
}

// heed does what the flags of the instance ask for before the next message.
func (r *runner[C, Req, Resp]) heed(flags uint32) {
	if flags&flagWatched != 0 {
		r.in.flags.And(^flagWatched)
	}
	if flags&flagControl != 0 {
		r.takeControl()
	}
}

// tellLeft tells senders how much of the batch has not begun: of a large one only
// every so often, at most a sixteenth too much, since what both write and read costs
// either of them more than the rest of its work.
func (r *runner[C, Req, Resp]) tellLeft() {
	left, all := len(r.batch.msgs)-r.next, len(r.batch.msgs)
	if all < 32 || left&(1<<(bits.Len(uint(all))-5)-1) == 0 {
		r.in.left.Store(int32(left))
	}
}

// giveBack puts what is left of the batch back, so that take looks at the instance
// before the next message; false means that the shard is gone.
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

// take fetches the next batch; false means that the instance went to rest, or
// ended, or was parked.
func (r *runner[C, Req, Resp]) take() bool {
	s, in := r.shard, r.in
	s.mu.Lock()
	if r.batch != nil {
		r.done()
	}
	in.taken, r.broken = 0, false
	s.admitWaiters(in)
	for !s.gone.Load() && in.state != loose {
		switch {
		case s.held(in):
			s.mu.Unlock()
			return false
		case in.retire, s.stopping != nil && in.box == nil && in.ent != nil:
			if !s.host.cfg.Alive() {
				s.parkLocked(in)
				s.mu.Unlock()
				return false
			}
			r.alone = s.stopping == nil
			r.bound = s.ending(in)
			travels := s.stopping != nil && s.stopping.keep && !in.retire && s.host.cfg.Keeper == nil
			s.mu.Unlock()
			r.end(travels)
			s.mu.Lock()
		case in.box == nil && in.leaving():
			in.retire = true
		case in.extra != nil && in.extra.dismissed:
			in.extra.dismissed, in.retire = false, in.ent != nil
		case in.box != nil:
			r.batch, in.box, r.next = in.box, nil, 0
			r.recount()
			if in.has(flagControl) {
				in.flags.And(^flagControl)
			}
			s.mu.Unlock()
			return true
		default:
			fell := in.ent == nil && s.stopping == nil
			s.rest(in, r.touched)
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

// rest ends the run of an instance without mail; called with the mutex.
func (s *Shard[C, Req, Resp]) rest(in *instance[C, Req, Resp], touched bool) {
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
		s.remove(in)
	case s.order != nil:
		s.place(in)
	}
	s.stoppedMaybe()
}

func (s *Shard[C, Req, Resp]) remove(in *instance[C, Req, Resp]) {
	if stash := in.bare(); len(stash) > 0 {
		s.host.work.Go(func() { s.fail(stash, ErrNotHosted) })
	}
	s.displace(in)
	s.drop(in)
	s.host.cfg.Counters.Entities.Add(-1)
}

// dispatch gives one message to the entity and answers it.
func (r *runner[C, Req, Resp]) dispatch(m *Message[Req]) {
	h := r.shard.host
	rare := m.rare
	if rare != nil && (rare.timer != nil && !r.due(rare.timer) || rare.sure != nil && !r.admit(m)) {
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
	r.about(m.From, m.chain(), expires)
	resp, err := r.timed(m)
	if err == errLapsed {
		r.over()
		r.next-- // the loop parks the instance, or tries again
		return
	}
	if m.Expires != 0 && late(err) && time.Since(h.cfg.Epoch) >= m.Expires {
		// The handler hands on that its Context has ended: that is no answer of its own.
		err = ErrExpired
	}
	if m.timer() == nil {
		r.handled++
		r.touched = true
		if r.in.has(flagListens) {
			r.hear()
		}
	}
	stashed := (r.ctx.stash || r.ctx.unstash) && r.setAside(m, panicked(err))
	if h.cfg.Keeper != nil {
		r.keep(m, resp, err, stashed)
		r.over()
		return
	}
	r.over()
	switch {
	case !stashed:
		r.answer(m, resp, err)
	case m.reliableMark() != nil:
		r.ran(m, true, nil)
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

// sampleEvery: the duration of one message of so many is measured. To read the clock twice
// costs as much as the rest of a message's way through its mailbox.
const sampleEvery = 32

// timed is call, measured now and then.
func (r *runner[C, Req, Resp]) timed(m *Message[Req]) (Resp, error) {
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

// expired reports whether nobody waits for the answer any more.
func (r *runner[C, Req, Resp]) expired(m *Message[Req]) bool {
	h := r.shard.host
	if m.Expires != 0 && time.Since(h.cfg.Epoch) >= m.Expires {
		return true
	}
	return h.cfg.Replies.Cancelled(m.Reply)
}

func (r *runner[C, Req, Resp]) answer(m *Message[Req], resp Resp, err error) {
	h := r.shard.host
	if m.reliableMark() != nil {
		r.ran(m, false, err)
		return
	}
	if m.Reply.Call != 0 {
		r.shard.reply(m.Reply, resp, err)
		return
	}
	switch {
	case err == nil || err == ErrStarted || panicked(err):
	case err == ErrAbandoned:
		h.cfg.Counters.AbandonedTells.Add(1)
	default:
		h.cfg.Counters.HandlerErrors.Add(1)
		if t := m.timer(); t != nil && t.begins {
			r.notStarted(err)
		}
	}
}

// notStarted says why an instance does not live that nobody asked for: there is no
// asker to tell.
func (r *runner[C, Req, Resp]) notStarted(err error) {
	if unsaid, ok := r.shard.host.failedStarts.Take(time.Now()); ok {
		r.logger().Error("sharding: entity did not start", "error", err, "unsaid", unsaid)
	}
}

// reply answers an ask.
func (s *Shard[C, Req, Resp]) reply(to ReplyTo, resp Resp, err error) {
	if s.gone.Load() {
		// The instance was abandoned under the handler: its successor knows nothing
		// of what it did, so it must not look like success.
		err = ErrAbandoned
	}
	s.host.cfg.Replies.Reply(to, resp, err)
}

// errLapsed: no handler was called, for the lease ended while the instance began, or
// while its state was fetched.
var errLapsed = errors.New("lease lapsed")

// call runs the handler and contains its panics.
func (r *runner[C, Req, Resp]) call(m *Message[Req]) (resp Resp, err error) {
	done := false
	defer func() {
		if done {
			return
		}
		v := recover()
		err = r.panicked(v)
		if v == nil {
			// runtime.Goexit: nothing behind this call will run.
			if m.timer() == nil {
				r.handled++
			}
			r.answer(m, resp, err)
		}
	}()
	r.began = false
	if r.in.ent == nil {
		r.in.flags.Or(flagBegun)
		if err := r.create(); err != nil {
			r.shed()
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
		resp, err = r.in.ent.Handle(r.user, m.Req)
		err = said(err)
	case m.timer().begins:
		r.touched, err = true, ErrStarted
	default:
		err = r.onTimer(m.timer().name)
	}
	done = true
	return resp, err
}

// create makes the instance, gives it the state that came with a move, and lets it
// begin.
func (r *runner[C, Req, Resp]) create() error {
	ent, err := r.make()
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
		if err := r.restore(ent, state); err != nil {
			return err
		}
	}
	if r.shard.host.cfg.Keeper != nil {
		if err := r.load(ent); err != nil {
			return err
		}
	}
	if starter, ok := ent.(Starter[C]); ok {
		if err := starter.OnStart(r.user); err != nil {
			return said(err)
		}
	}
	if r.shard.gone.Load() {
		return ErrAbandoned // while it began
	}
	if carried {
		r.shard.restored(r.in.id)
	}
	if _, keeps := ent.(Snapshotter[C]); keeps && !r.shard.host.keeps.Load() {
		r.shard.host.keeps.Store(true)
	}
	r.in.ent = ent
	r.lived(true)
	return nil
}

func (r *runner[C, Req, Resp]) make() (Entity[C, Req, Resp], error) {
	if make := r.shard.host.cfg.Make; make != nil {
		return make(r.in.id)
	}
	return r.shard.host.cfg.New(r.in.id), nil
}

// shed ends the timers that an OnStart set before it failed.
func (r *runner[C, Req, Resp]) shed() {
	r.in.flags.And(^flagBegun)
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	r.in.stopTimers()
}

func (r *runner[C, Req, Resp]) restore(ent any, state []byte) error {
	if err := said(restore(r.user, ent, state)); err != nil {
		r.logger().Error("sharding: state was not restored", "error", err)
		return fmt.Errorf("%w: %w", ErrRestore, err)
	}
	return nil
}

// dropRest fails what the runner of an abandoned instance still holds.
func (r *runner[C, Req, Resp]) dropRest() {
	r.flushCount()
	if r.batch != nil {
		r.shard.fail(r.batch.msgs[r.next:], ErrAbandoned)
		r.own.empty()
		r.batch = nil
	}
}

func (r *runner[C, Req, Resp]) flushCount() {
	if r.handled > 0 {
		r.shard.host.cfg.Counters.Handled.add(r.shard.info.number, r.handled)
		r.handled = 0
	}
}
