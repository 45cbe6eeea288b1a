package sharding

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/figures"
)

// Reason is the reason why a message was dropped, or an ask failed without its handler.
type Reason uint8

const (
	DropMailboxFull  = Reason(delivery.DropMailboxFull)  // the entity's mailbox was full
	DropNotHome      = Reason(delivery.DropNotHome)      // the home had moved, and a later message was already on its way
	DropAbandoned    = Reason(delivery.DropAbandoned)    // the instance was dropped with its lease
	DropExpired      = Reason(delivery.DropExpired)      // the asker had given up
	DropCodec        = Reason(delivery.DropCodec)        // the payload did not decode
	DropPanicked     = Reason(delivery.DropPanicked)     // the handler panicked
	DropHandlerError = Reason(delivery.DropHandlerError) // a told request's handler returned an error
	DropReplyLate    = Reason(delivery.DropReplyLate)    // the asker had given up when the reply arrived
	DropSettings     = Reason(delivery.DropSettings)     // the sender maps ids to shards differently
	DropTooLarge     = Reason(delivery.DropTooLarge)     // the frame is above the transport's limit
	DropNodeStopping = Reason(delivery.DropNodeStopping) // it waited for a home when its node was closed
	DropBufferFull   = Reason(delivery.DropBufferFull)   // no room came before the caller's context ended

	reasons = delivery.Reasons
)

// String returns the reason in the form that metrics use.
func (r Reason) String() string {
	return [...]string{
		"mailbox_full", "not_home", "abandoned", "expired", "codec", "panicked", "handler_error",
		"reply_late", "settings", "too_large", "node_stopping", "buffer_full",
	}[r]
}

// Stats holds the counters (since the program started) and gauges (now) of one type on one
// node.
type Stats struct {
	Type string
	Role string
	// Hosting is false for proxies.
	Hosting bool

	// SentLocal counts messages of this node to shards on this node, SentRemote those to
	// shards on other nodes. SentBuffered counts messages that had to wait for a home
	// first. Redirected counts messages that a node returned since it was not the home, and
	// that were sent again.
	SentLocal, SentRemote, SentBuffered, Redirected uint64
	// NodeLost counts asks that failed because the connection to the home broke.
	NodeLost uint64
	// Received counts messages from other nodes.
	Received uint64
	// Handled counts handler calls that ended, in error or not. A call counts once all
	// calls of its batch have ended: an ask may be answered a moment before.
	Handled uint64
	// Dropped counts dropped messages by reason.
	Dropped [reasons]uint64
	// Stale counts messages and orders whose token is not the shard's.
	Stale uint64
	// TermsRefused counts messages, records and fences of members with a term that no view
	// can have had.
	TermsRefused uint64
	// HandoffsOut and HandoffsIn count shards stopped and started here by order of the
	// coordinator. Forced counts the stops that took longer than Type.StopTimeout.
	HandoffsOut, HandoffsIn, Forced uint64
	// StatesOut and StatesIn count states of entities sent with moving shards and received
	// with them.
	//
	// StatesLost counts states that a shard lost although it moved in order. Each is
	// counted once, where the loss was detected: at the old home if the states reached no
	// other node, at the new home if it did not accept them. It may count a state that was
	// not lost, if the coordinator passed over a new home that was silent. A state that
	// dies with the only node that had it is not counted.
	StatesOut, StatesIn, StatesLost uint64
	// StatesRecovered counts instances of a type with replicated state that began with a
	// kept state, StatesCold those without one.
	StatesRecovered, StatesCold uint64
	// StateLosses counts shards that started after so many standbys were lost that
	// acknowledged states may be missing. NotKept counts replies that became ErrNotKept.
	StateLosses, NotKept uint64
	// StateBytesIn and StateBytesOut count the bytes that state replication received and
	// sent.
	StateBytesIn, StateBytesOut uint64
	// Abandoned counts instances dropped without running user code.
	Abandoned uint64
	// Passivated counts instances that ended because they were idle, because of the limit,
	// or by their own wish, but not with their shard. CutLoose counts those of them that
	// had not ended after Type.StopTimeout, so that another instance could take their
	// place.
	Passivated, CutLoose uint64
	// SelfAsks counts asks rejected with ErrSelfAsk. MutualAsks counts asks that arrived at
	// an entity on this node from an entity that it had itself asked, without a reply so
	// far.
	SelfAsks, MutualAsks uint64
	// StatesReused counts replicated states whose slice the entity changed after its
	// Snapshot had returned it. This is an error of the entity, which should return a copy.
	StatesReused uint64
	// MessageShapes counts, on the coordinator's node, nodes that registered with messages
	// of another shape: a field is new, gone, renamed or of another kind. Custom codecs are
	// not compared.
	MessageShapes uint64
	// BlockedHandlers counts calls of entities' code that took longer than
	// Type.BlockedAfter.
	BlockedHandlers uint64
	// OldestHandler is how long the longest running call has run, to within half a second;
	// 0 if none runs.
	OldestHandler time.Duration
	// MailboxMessages is the number of messages that wait in mailboxes here, MailboxMost that
	// of the entity with the most. Entities that pause after a panic, or until the node has a
	// lease, are left out.
	MailboxMessages, MailboxMost int
	// Duplicates counts shards that were found to run twice: by the coordinator when it
	// took over, or by their host. It stays 0 as long as single instance holds.
	Duplicates uint64

	// Shards and Entities are the numbers hosted here now.
	Shards, Entities int
	// StateBytes is the size of replicated states on this node, as home and as standby.
	// StandbyShards is the number of shards for which this node is only a standby.
	StateBytes, StandbyShards int
	// Asks is the number of asks that wait for their reply now.
	Asks int
	// Buffered is the number of messages that wait for a home now, BufferedBytes their
	// size.
	Buffered, BufferedBytes int
	// HeldUp is the number of callers of Tell and Ask that wait now for room in an entity's
	// mailbox, here or on another node. Parked is the number of messages of other nodes
	// that wait here for room in a mailbox; back-pressure stops their senders before there
	// are too many.
	HeldUp, Parked int
	// Stopped is the number of slow entities at other nodes: their homes have parked
	// messages of this node, and callers for them wait here, apart from callers for other
	// entities.
	Stopped int
	// Blocked counts how often this node had used up all that a home had granted.
	Blocked uint64
	// Activated counts instances that began here.
	Activated uint64
	// Remembered describes remembered entities.
	Remembered struct {
		// Recalled counts entities that were started because they are remembered: in a shard that
		// moved here, or again after a panic.
		Recalled uint64
		// Dropped counts updates that were given up, since too many waited for the store: of
		// entities that had passivated themselves, and of shards that had left.
		Dropped uint64
		// Failed counts failed reads and writes of the store, which are retried.
		Failed uint64
		// Waiting is the number of updates that are not in the store yet.
		Waiting int
	}
	// Reliable describes reliable producers here, and messages of reliable producers that
	// arrived here.
	Reliable struct {
		// Unconfirmed is the number of messages in the windows of this node's producers now.
		Unconfirmed int
		// Confirmed counts messages whose handler ran. GivenUp counts messages that no home
		// could decode or carry. Resends counts retransmissions. All are those of this node's
		// producers.
		Confirmed, GivenUp, Resends uint64
		// Repeated counts copies that arrived here and had run before. Forgotten counts
		// producers that a shard here had to forget.
		Repeated, Forgotten uint64
	}
	// Coordinating is set while this node coordinates the type. Homeless is then the number of
	// shards that had a home and have none now, Moving that of shards that a handoff moves.
	Coordinating     bool
	Homeless, Moving int
	// KeepsState is set if the type has a Type.State, Remembers if it has Type.Remember.
	KeepsState, Remembers bool
}

// stats returns the counters and gauges of the type.
func (t *registered) stats() Stats {
	s := Stats{Type: t.Name, Role: t.place.Role, KeepsState: t.place.States != nil, Remembers: t.remembers}
	t.addDelivery(&s)
	t.addEntities(&s)
	t.addPlacement(&s)
	if t.remembers {
		s.Remembered = t.reconciler.Stats()
	}
	return s
}

// localShards returns the shards of the type that run on this node, with their ids.
func (t *registered) localShards() []ShardStats {
	if !t.Hosts() {
		return nil
	}
	var all []ShardStats
	for i := range ShardID(t.place.Shards) {
		if s := t.ShardAt(i); s != nil {
			ids := s.IDs()
			slices.Sort(ids)
			all = append(all, ShardStats{Shard: i, Token: Token(s.Token()), Entities: len(ids), IDs: ids})
		}
	}
	return all
}

// addDelivery adds the figures of messages.
func (t *registered) addDelivery(s *Stats) {
	c := t.Counters
	s.SentLocal, s.SentRemote = c.SentBy(figures.RouteLocal), c.SentBy(figures.RouteRemote)
	s.SentBuffered = c.SentBy(figures.RouteBuffered)
	for i := range s.Dropped {
		s.Dropped[i] += c.Dropped(delivery.Reason(i))
	}
	s.Redirected, s.Received = c.Redirected.Load(), c.Received.Load()
	s.HeldUp += c.HeldUp.Load()
	s.Blocked, s.Stopped = c.Blocked.Load(), c.Gates.Load()
	s.Stale += c.Stale.Load()
	s.SelfAsks, s.MutualAsks = c.SelfAsks.Load(), c.MutualAsks.Load()
	s.NodeLost, s.Asks = c.NodeLost.Load(), t.PendingAsks()
	s.HandoffsIn, s.HandoffsOut = c.In.Load(), c.Out.Load()
	s.Buffered, s.BufferedBytes = t.Held()
	f := t.ReliableFigures()
	s.Reliable.Unconfirmed, s.Reliable.Confirmed = f.Unconfirmed, f.Confirmed
	s.Reliable.GivenUp, s.Reliable.Resends = f.GivenUp, f.Resends
}

// addEntities adds the figures of the entities here.
func (t *registered) addEntities(s *Stats) {
	e := &t.Counters.Entities
	s.Handled, s.Passivated, s.Abandoned, s.Forced = e.Handled.Load(), e.Passivated.Load(), e.Abandoned.Load(), e.Forced.Load()
	s.Dropped[DropExpired] += e.Expired.Load()
	s.Dropped[DropPanicked] += e.Panicked.Load()
	s.Dropped[DropHandlerError] += e.HandlerErrors.Load()
	s.Dropped[DropAbandoned] += e.AbandonedTells.Load()
	s.StatesLost += e.StatesLost.Load()
	s.Entities = e.Entities.Load()
	s.HeldUp += e.Waiting.Load()
	s.Parked, s.BlockedHandlers = e.Parked.Load(), e.Blocked.Load()
	s.Activated, s.CutLoose = e.Activated.Load(), e.CutLoose.Load()
	s.Reliable.Repeated, s.Reliable.Forgotten = e.Repeated.Load(), e.Forgotten.Load()
	if t.Hosts() {
		s.Hosting, s.Shards, s.OldestHandler = true, t.ShardCount(), t.OldestCall()
		s.MailboxMessages, s.MailboxMost = t.WaitingMessages()
	}
}

// addPlacement adds the figures of the type's driver, and of states.
func (t *registered) addPlacement(s *Stats) {
	c := &t.placed
	s.TermsRefused, s.Duplicates, s.MessageShapes = c.TermsRefused.Load(), c.Duplicates.Load(), c.MessageShapes.Load()
	s.StatesIn, s.StatesOut = c.Transfers.In.Load(), c.Transfers.Out.Load()
	r := &c.Replication
	s.StatesLost += c.Transfers.Lost.Load() + r.Lost.Load()
	s.Stale += c.Stale.Load() + r.Stale.Load()
	s.StatesRecovered, s.StatesCold = r.Recovered.Load(), r.Cold.Load()
	s.StateLosses, s.NotKept = r.Losses.Load(), r.NotKept.Load()
	s.StateBytesIn, s.StateBytesOut = r.BytesIn.Load(), r.BytesOut.Load()
	s.StatesReused = r.Reused.Load()
	d := t.driver.Load()
	if d == nil || t.Current.Load() == nil {
		return
	}
	if s.Coordinating = d.OfficeTerm() != 0; s.Coordinating {
		s.Homeless, s.Moving = d.OpenShards()
	}
	if states := d.States(); states != nil {
		s.StateBytes, s.StandbyShards = states.StateBytes(), states.StandbyShards()
	}
}
