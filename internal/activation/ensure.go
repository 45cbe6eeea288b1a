package activation

// Ensure starts the entity id if it has no instance, as a message would, and reports
// whether it does. It never blocks, and does nothing where the shard takes nothing more.
func (s *Shard[C, Req, Resp]) Ensure(id string) (starts bool) {
	s.mu.Lock()
	in := s.entities[id]
	if in != nil {
		s.mu.Unlock()
		return false
	}
	m := Message[Req]{}.ForStart()
	return s.deliverNew(nil, id, &m, false) == nil
}

// Dismiss ends the instance of id in an orderly way, when the messages in its hands
// are done, and reports whether there is one still. It does not wait: ask again. Mail
// that waits for an instance which Config.Make refuses is none. Whoever has made Make
// refuse before it calls Dismiss knows from false that none will begin.
func (s *Shard[C, Req, Resp]) Dismiss(id string) (there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.entities[id]
	if in == nil || !in.has(flagBegun) {
		return false
	}
	switch {
	case s.stopping != nil || !s.host.cfg.Alive():
	case in.state == resting:
		in.retire = true
		s.begin(in)
	default:
		in.more().dismissed = true
	}
	return true
}
