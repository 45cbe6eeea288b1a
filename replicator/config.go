package replicator

import (
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator/core"
)

// Config is what a replicator needs. Self and Send are required; the zero value
// of every other field means its documented default.
type Config struct {
	// Self is this incarnation of the node.
	Self view.NodeID
	// Role selects the members that hold replicas; "" is every member.
	Role string
	// Send queues a frame; see SendFunc.
	Send SendFunc
	// Class is the connection that small frames take: transport.Control, the default, or
	// transport.Data. Transfers take transport.Bulk.
	Class transport.Class
	// Clock defaults to clock.Runtime().
	Clock clock.Clock
	// WallClock is the clock that calendar time is read from: stamps, and the age of
	// deletions. No timer follows it. It is called concurrently and may jump. Default:
	// time.Now.
	WallClock func() time.Time
	// Logger receives what operators should know; nil discards.
	Logger *slog.Logger
	// Observer is told about requests, frames and trace events.
	Observer Observer
	Limits   Limits

	// Timeout ends requests whose context has no deadline. Default 5 s. A request
	// whose deadline passes while the process is stopped, so that it is noticed more
	// than ResendAfter late, is asked once more and given 4 times ResendAfter.
	Timeout time.Duration
	// BatchEvery is how long a change waits for company on its way to members that
	// no request waits for. Longer saves frames, shorter spreads faster. Default
	// 3 ms.
	BatchEvery time.Duration
	// ResendAfter is how long an unacknowledged frame waits for its repetition.
	// Default 50 ms.
	ResendAfter time.Duration
	// GossipEvery is how often a digest goes to one peer. A divergence that the
	// streams of deltas cannot mend is found within GossipEvery times the number
	// of members: with 5 members and the default of 500 ms, within 2.5 s. At rest
	// it costs one frame of about 50 bytes and 12 per member every GossipEvery.
	GossipEvery time.Duration
	// PruneEvery is how often the most senior voter of the role looks for tombstones
	// and for remains of removed members that all replicas may forget. Longer keeps
	// them longer and says less; at rest it costs nothing. Default 1 s.
	PruneEvery time.Duration
	// Expire ends keys that nobody has changed for a while: at the latest PruneEvery
	// after the time for every 4,096 keys. Equal at all members of the role.
	Expire []Expiry
	// Durable keeps some keys in a file, see OpenDurable; nil keeps none. It is used by
	// one replicator at a time.
	Durable *Durable
	// LeaseValid reports whether this node holds a valid lease; gossip.Node.LeaseValid
	// does. A request at a level other than Local ends only while it is true, and else
	// waits, up to its deadline: a node that was removed and does not know it has no
	// lease, and could take others like it for a majority. It is called with locks held,
	// must be quick and must not call the replicator. Nil means always, which is for
	// those that have no views that change. See LeaseRegained.
	LeaseValid func() bool
	// Terms says that stamps are no times, so they are not judged, and that terms of fences
	// are epochs of views: a replica takes none above its own view's.
	Terms bool
	// Seed feeds the order in which peers are gossiped with. Default: from Self.
	Seed uint64
	// Direct lets HandleFrame deal with small frames itself, and so call Send, on the
	// goroutine of who calls it, when the replicator has nothing else to do. That is
	// quicker by a change of goroutine. It must be false where HandleFrame is called with
	// a lock held that Send takes.
	Direct bool
	// Inbox bounds the frames that wait for the replicator's goroutine; more are
	// dropped and counted, and come again. Default 4096.
	Inbox int
}

// Stats is a snapshot of what a replicator holds and has done.
type Stats struct {
	core.Stats
	Subscribers int
	// InboxDropped counts frames that came while the inbox was full.
	InboxDropped uint64
	// SendRefused counts frames that the transport did not take.
	SendRefused                   uint64
	FramesSent, BytesSent         uint64
	FramesReceived, BytesReceived uint64
	// DurableWrites counts syncs of the file of durable keys, DurableErrors those that
	// failed: nothing was acknowledged then, and it is tried again.
	DurableWrites, DurableErrors uint64
	// DurableFailing: durable keys cannot be stored now.
	DurableFailing bool
	// FramesBad counts frames that could not be decoded.
	FramesBad uint64
}

// Change is one state of a key as a subscriber sees it.
type Change struct {
	Key string
	// Value is a copy that belongs to the subscriber.
	Value crdt.Value
}
