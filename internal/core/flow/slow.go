package flow

// A slow entity must not hold up the other entities of its shard. So a sender's parked
// requests for one entity are charged to a pool that senders share, its window continues,
// and the home notifies the sender to stop for that entity alone:
//
//	Account                              sender
//	Park(id): the first one   -- stop -->  holds callers to id up, in order
//	Grant()                   -- grant ->  continues with the other entities
//	Unpark(id): the last one  -- open -->  releases the callers
//
// The stop applies to ordinary requests while no handler's request is parked. Otherwise it
// applies to handlers' requests, too: they have room of their own in mailboxes.
//
// A stop is sent before the grant that returns the window, on the same connection. So
// at most one window for each class is parked for one entity and sender: the requests sent
// before the stop arrived, and those of the callers released by an open
// (the sender releases a bounded number in any case, to keep their turns). If the pool is
// used up, or too many entities are slow, a parked
// request is charged to the window, and the sender is stalled for the shard.
//
// A lost stop shows itself: a request above the limit granted when the stop was sent comes
// from a sender that has a later grant but not the stop. The home then repeats the stop.
// Handlers' requests may exceed that limit by Spare without a later grant: the stop is then
// repeated in vain, which changes nothing. A sender asks about an entity that stays stopped,
// since an open may be lost, too.

// SlowMost bounds the entities of one Account that are slow at a time, and the entities that
// a sender holds up for one shard.
const SlowMost = 1024

// Open is the gate of an entity that does not hold its senders up. A gate is the first Class
// that may leave: Handler holds up ordinary requests, Control those of handlers, too.
const Open = Ordinary

// slow is an entity for which requests are parked.
type slow struct {
	// pooled counts them, and handlers those of handlers among them. A windowed one needs no
	// stop.
	pooled, handlers int
	// told is the gate in the last notice, granted the sender's limit at that time. again is
	// set when that notice may be lost.
	told    Class
	again   bool
	granted uint64
	// listed is set while the entity is in notices of slowEntities.
	listed bool
}

// slowEntities are the entities for which requests are parked and charged to a pool. The nil
// slowEntities has none.
type slowEntities struct {
	byID map[string]*slow
	// notices lists those about which the sender must be notified.
	notices []string
}

// stateOf returns the state of id, nil if it is not slow.
func (e *slowEntities) stateOf(id string) *slow {
	if e == nil {
		return nil
	}
	return e.byID[id]
}

// areAny reports whether any entity is slow.
func (e *slowEntities) areAny() bool { return e != nil && len(e.byID) > 0 }

// noticesWait reports whether notices wait.
func (e *slowEntities) noticesWait() bool { return e != nil && len(e.notices) > 0 }

// gate returns the gate that the sender must apply.
func (s *slow) gate() Class {
	switch {
	case s.handlers > 0:
		return Control
	case s.pooled > 0:
		return Handler
	}
	return Open
}

// addPooled adds n parked requests.
func (s *slow) addPooled(c Class, n int) {
	s.pooled += n
	if c == Handler {
		s.handlers += n
	}
}

// Park notes that an accepted request waits for room in the mailbox of id. It returns false
// if more wait than the sender was allowed to send: the request must be refused. A pooled
// request takes from the pool, which may be nil, and its sender is notified to stop for its
// entity. A request that is not pooled uses up the sender's window for the shard.
func (a *Account) Park(id string, c Class, number uint64, bytes int, pool *Pool) (pooled, may bool) {
	if pool != nil && pool.Take(cost(bytes)) {
		e := &a.needWaiting().slow
		if s := e.needState(id); s != nil {
			a.slowed = true
			s.again = s.again || c < s.told && number > s.granted
			s.addPooled(c, 1)
			e.queueNotice(id, s)
			return true, true
		}
		pool.Give(cost(bytes))
	}
	w := a.needWaiting()
	messages, most := a.window()
	if w.parked >= messages+allSpare || w.parkedBytes > most+allSpareBytes {
		return false, false
	}
	w.parked++
	w.parkedBytes += cost(bytes)
	return false, true
}

// Unpark notes that a parked request no longer waits.
func (a *Account) Unpark(id string, c Class, bytes int, pooled bool, pool *Pool) {
	if !pooled {
		a.waiting.parked--
		a.waiting.parkedBytes -= cost(bytes)
		return
	}
	pool.Give(cost(bytes))
	s := a.waiting.slow.byID[id]
	s.addPooled(c, -1)
	a.waiting.slow.queueNotice(id, s)
}

// needState returns the state of id, nil if too many are slow.
func (e *slowEntities) needState(id string) *slow {
	if e.byID == nil {
		e.byID = map[string]*slow{}
	}
	s := e.byID[id]
	if s == nil && len(e.byID) < SlowMost {
		s = &slow{}
		e.byID[id] = s
	}
	return s
}

// queueNotice queues a notice about id for the sender.
func (e *slowEntities) queueNotice(id string, s *slow) {
	if !s.listed && (s.again || s.told != s.gate()) {
		s.listed = true
		e.notices = append(e.notices, id)
	}
}

// Notices calls tell with each notice that the sender must receive before a Grant.
func (a *Account) Notices(tell func(id string, gate Class)) {
	e := a.slowEntities()
	if !e.noticesWait() {
		return
	}
	for i, id := range e.notices {
		e.notices[i] = ""
		s := e.byID[id]
		g := s.gate()
		if g == Open {
			delete(e.byID, id)
		}
		if g != s.told || s.again {
			s.told, s.granted = g, a.granted
			tell(id, g)
		}
		s.again, s.listed = false, false
	}
	e.notices = e.notices[:0]
}

// GateOf returns the gate of id: see Open.
func (a *Account) GateOf(id string) Class {
	if s := a.slowEntities().stateOf(id); s != nil {
		return s.gate()
	}
	return Open
}
