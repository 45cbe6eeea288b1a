package flow

// An entity that does not keep up must not hold up those of its shard that do. So what a
// sender has parked for one entity is charged to a pool that senders share, its window goes
// on, and the sender is told to stop for that entity alone:
//
//	Account                              sender
//	Park(id): the first one   -- stop -->  holds callers to id up, in order
//	Grant()                   -- grant ->  goes on with the others
//	Unpark(id): the last one  -- open -->  lets them go
//
// The stop is for ordinary requests while no handler's is parked, else for handlers'
// requests, too: they have room of their own in mailboxes.
//
// A stop leaves before the grant that gives the window back, on the same connection. So
// what is parked for one entity and sender is at most one window, all that the sender may
// have sent when it is told, and the callers that the sender let go when it was told to open
// (it serves a bounded number of them in any case, for the sake of their turns). If the pool is used up, or too many entities are slow, a parked
// request is charged to the window, and the sender is stalled for the shard.
//
// A stop that was lost shows: a request above what was granted when it left can only have
// been sent by one that has a later grant and not the stop. It is said again then. A sender
// asks about an entity that stays stopped, since an open may be lost, too.

// SlowMost bounds the entities of one Account that are slow at a time, and what a sender
// holds up for one shard.
const SlowMost = 1024

// Open is the gate of an entity that does not hold its senders up. A gate is the first Class
// that may leave: Handler holds up ordinary requests, Control those of handlers, too.
const Open = Ordinary

// slow is an entity for which requests are parked.
type slow struct {
	// pooled counts them, and handlers those of handlers among them. A windowed one needs no
	// stop.
	pooled, handlers int
	// told is the last notice, of when the sender was granted so much. again: it may not know.
	told    Class
	again   bool
	granted uint64
	// listed: it is in Account.notices.
	listed bool
}

// gate returns what the sender has to do.
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

// Park notes that an accepted request waits for room in the mailbox of id. False means that
// more wait than the sender was allowed to send: it must be refused. A pooled request takes
// from the pool, which may be nil, and its sender is told to stop for its entity. A request
// that is not pooled uses up the sender's window for the shard.
func (a *Account) Park(id string, c Class, number uint64, bytes int, pool *Budget) (pooled, may bool) {
	if pool != nil && pool.Take(cost(bytes)) {
		if s := a.slowEntity(id); s != nil {
			a.slowed = true
			s.again = s.again || c < s.told && number > s.granted
			s.addPooled(c, 1)
			a.list(id, s)
			return true, true
		}
		pool.Give(cost(bytes))
	}
	if a.parked >= a.messages+allSpare || a.parkedBytes > a.bytes+allSpareBytes {
		return false, false
	}
	a.parked++
	a.parkedBytes += cost(bytes)
	return false, true
}

// Unpark notes that a parked request waits no longer.
func (a *Account) Unpark(id string, c Class, bytes int, pooled bool, pool *Budget) {
	if !pooled {
		a.parked--
		a.parkedBytes -= cost(bytes)
		return
	}
	pool.Give(cost(bytes))
	s := a.slow[id]
	s.addPooled(c, -1)
	a.list(id, s)
}

// slowEntity returns the state of id, nil if too many are slow.
func (a *Account) slowEntity(id string) *slow {
	s := a.slow[id]
	if s == nil && len(a.slow) < SlowMost {
		if a.slow == nil {
			a.slow = map[string]*slow{}
		}
		s = &slow{}
		a.slow[id] = s
	}
	return s
}

// list notes that the sender is to be told about id.
func (a *Account) list(id string, s *slow) {
	if !s.listed && (s.again || s.told != s.gate()) {
		s.listed = true
		a.notices = append(a.notices, id)
	}
}

// Notices calls tell with what the sender must be told before it gets a Grant.
func (a *Account) Notices(tell func(id string, gate Class)) {
	for i, id := range a.notices {
		a.notices[i] = ""
		s, g := a.slow[id], a.slow[id].gate()
		if g == Open {
			delete(a.slow, id)
		}
		if g != s.told || g != Open && s.again {
			s.told, s.granted = g, a.granted
			tell(id, g)
		}
		s.again, s.listed = false, false
	}
	a.notices = a.notices[:0]
}

// GateOf returns the gate of id: see Open.
func (a *Account) GateOf(id string) Class {
	if s := a.slow[id]; s != nil {
		return s.gate()
	}
	return Open
}
