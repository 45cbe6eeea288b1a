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

// Charge is where a parked request is accounted for.
type Charge byte

const (
	// Windowed: it uses up its sender's window for the shard.
	Windowed Charge = iota
	// Pooled: it takes from the pool, and its sender is told to stop for its entity.
	Pooled
)

// slow is an entity for which requests are parked.
type slow struct {
	// pooled counts them. A windowed one needs no stop.
	pooled int
	// told: the sender was told to stop, when it was granted so much. again: it may not know.
	told, again bool
	granted     uint64
	// listed: it is in Account.notices.
	listed bool
}

// Park notes that an accepted request waits for room in the mailbox of id. False means that
// more wait than the sender was allowed to send: it must be refused. pool may be nil.
func (a *Account) Park(id string, number uint64, bytes int, pool *Budget) (Charge, bool) {
	if pool != nil && pool.Take(cost(bytes)) {
		if s := a.slowEntity(id); s != nil {
			a.slowed = true
			s.pooled++
			s.again = s.again || s.told && number > s.granted
			a.list(id, s)
			return Pooled, true
		}
		pool.Give(cost(bytes))
	}
	if a.parked >= a.messages+Spare || a.parkedBytes > a.bytes {
		return Windowed, false
	}
	a.parked++
	a.parkedBytes += cost(bytes)
	return Windowed, true
}

// Unpark notes that a parked request waits no longer.
func (a *Account) Unpark(id string, bytes int, c Charge, pool *Budget) {
	if c == Windowed {
		a.parked--
		a.parkedBytes -= cost(bytes)
		return
	}
	pool.Give(cost(bytes))
	s := a.slow[id]
	s.pooled--
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
	if !s.listed && (s.again || s.told != (s.pooled > 0)) {
		s.listed = true
		a.notices = append(a.notices, id)
	}
}

// Notices calls tell with what the sender must be told before it gets a Grant.
func (a *Account) Notices(tell func(id string, open bool)) {
	for i, id := range a.notices {
		a.notices[i] = ""
		s := a.slow[id]
		switch {
		case s.pooled > 0 && (s.again || !s.told):
			*s = slow{pooled: s.pooled, told: true, granted: a.granted}
			tell(id, false)
		case s.pooled > 0:
			s.listed = false
		default:
			delete(a.slow, id)
			if s.told {
				tell(id, true)
			}
		}
	}
	a.notices = a.notices[:0]
}

// Slow reports whether the sender has to stop for id.
func (a *Account) Slow(id string) bool { return a.slow[id] != nil }
