package activation

import "time"

// A passivated instance has StopTimeout to end. One that takes longer is cut loose:
// its Context ends, what waits for its id, and what comes, meets a new instance,
// and nothing that the old one still does reaches the mailbox. This is as far as a
// library can go: its OnStop, if it does not heed its Context, goes on beside the
// new instance. To wait for it for ever would be the other choice; it makes an id
// unreachable for a bug in its goodbye.

// ending begins the wait for an instance that ends by itself; called with the
// mutex. The function it returns ends the wait, with the mutex too.
func (s *Shard[C, Req, Resp]) ending(in *instance[C, Req, Resp]) (ended func()) {
	_, stops := in.ent.(Stopper[C])
	if !stops || s.host.cfg.StopTimeout <= 0 || s.stopping != nil {
		return func() {}
	}
	done := false
	timer := time.AfterFunc(s.host.cfg.StopTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !done && !s.gone.Load() {
			s.cutLoose(in)
		}
	})
	return func() { done = true; timer.Stop() }
}

// cutLoose puts a new instance into the place of one that does not end; called
// with the mutex.
func (s *Shard[C, Req, Resp]) cutLoose(in *instance[C, Req, Resp]) {
	s.host.cfg.Counters.CutLoose.Add(1)
	s.host.cfg.Logger.Warn("sharding: instance did not end in time, another may take its place",
		"type", s.info.typ, "shard", s.info.number, "entity", in.id)
	s.unload(in)
	s.displace(in)
	s.admitWaiters(in)
	in.state = loose
	s.busy--
	if in.box == nil {
		s.drop(in)
		s.host.cfg.Counters.Entities.Add(-1)
		s.stoppedMaybe()
		return
	}
	next := &instance[C, Req, Resp]{id: in.id, box: in.box}
	in.box = nil
	s.drop(in)
	s.entities[in.id] = next
	s.moveWaiters(in, next)
	if s.order != nil {
		s.touch(next)
	}
	s.begin(next)
}
