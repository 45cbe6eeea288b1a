package replica

import (
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// Config holds the settings of a replicator. Self and Send are required; the zero value of
// every other field means its documented default.
type Config struct {
	// Self is this incarnation of the node.
	Self gossip.NodeID
	// Role selects the members that hold replicas; "" is every member.
	Role string
	// Send queues a frame for a peer and never blocks. The payload is valid only during the
	// call.
	Send func(to gossip.NodeID, c transport.Class, payload []byte) error
	// Class is the connection for small frames: transport.Control, the default, or
	// transport.Data. Transfers use transport.Bulk.
	Class transport.Class
	// Clock defaults to clock.Runtime().
	Clock clock.Clock
	// WallClock is the calendar clock: for stamps, and the age of deletions. No timer
	// follows it. It is called concurrently and may jump. Default: time.Now.
	WallClock func() time.Time
	// Logger receives messages for operators; nil discards.
	Logger *slog.Logger
	// Observer receives requests and frames.
	Observer figures.ReplicatorObserver
	// Limits bound memory and frames; zero fields mean their defaults.
	Limits replication.Limits

	// Timeout ends requests whose context has no deadline. Default 5 s. A request
	// whose deadline passes while the process is stopped, so that it is noticed more
	// than ResendAfter late, is asked once more and given 4 times ResendAfter.
	Timeout time.Duration
	// BatchEvery is how long a change waits to be batched on its way to members for which
	// no request waits. A longer time saves frames, a shorter time spreads changes faster.
	// Default 3 ms.
	BatchEvery time.Duration
	// ResendAfter is how long a frame may stay unacknowledged before it is retransmitted.
	// Default 50 ms.
	ResendAfter time.Duration
	// GossipEvery is the interval of digests, each to one peer. A divergence that deltas
	// cannot repair is found within GossipEvery times the number of members: with 5 members
	// and the default of 500 ms, within 2.5 s. At rest it costs one frame of about 50 bytes
	// and 12 per member every GossipEvery.
	GossipEvery time.Duration
	// PruneEvery is the interval at which the most senior voter of the role looks for
	// tombstones, and for remains of removed members, that all replicas may forget. A
	// longer interval keeps them longer and sends less; at rest it costs nothing.
	// Default 1 s.
	PruneEvery time.Duration
	// Expire deletes keys that no write has changed for a while: at the latest PruneEvery
	// after the time for every 4,096 keys. It must be equal on all members of the role.
	Expire []replicator.Expiry
	// Durable keeps some keys in a file, see OpenDurable; nil keeps none. One replicator at
	// a time uses it.
	Durable *Durable
	// LeaseValid reports whether this node holds a valid lease, as gossip.Node.LeaseValid
	// does; nil means always, for users without changing views. A request at a level other
	// than Local ends only while it is true, and otherwise waits, up to its deadline: a
	// removed node that has not learned of its removal has no lease, and could otherwise
	// form a majority with other removed nodes. LeaseValid is called with locks held, must
	// be quick and must not call the replicator. See LeaseRegained.
	LeaseValid func() bool
	// Terms means that stamps are terms or other numbers, not times: they are not compared
	// with clocks. The terms of fences are then epochs of views: a fence above the epoch of
	// this node's view bars no writer here until the view arrives.
	Terms bool
	// Seed determines the order of peers for gossip. Default: from Self.
	Seed uint64
	// Direct lets HandleFrame process small frames itself, and so call Send, on the
	// goroutine of its caller, if the replicator is idle. This saves a change of goroutine.
	// It must be false if HandleFrame is called with a lock held that Send takes.
	Direct bool
	// Inbox bounds the frames that wait for the replicator's goroutine. Further frames are
	// dropped and counted, and retransmitted later. Default 4096.
	Inbox int
}
