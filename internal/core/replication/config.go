package replication

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
)

// Config is what a Core needs to know at birth. The zero value of every field
// but Self means its documented default.
type Config struct {
	Self view.NodeID
	// Role selects the members of the view that hold replicas; "" is all of them.
	Role string
	// Timeout ends requests without a deadline. Default 5 s. A request whose
	// deadline passes while the process is stopped, so that it is noticed more than
	// ResendAfter late, is asked once more and given 4 times ResendAfter.
	Timeout time.Duration
	// SpreadMax bounds the wait after which a request turns to members beyond those
	// that its level needs: a fifth of its time, at most this. A lost peer makes it
	// turn to them at once. Default 50 ms.
	SpreadMax time.Duration
	// BatchEvery is how long a change waits for company on its way to members
	// that no request waits for. Longer saves messages, shorter spreads faster.
	// Default 3 ms.
	BatchEvery time.Duration
	// ResendAfter is how long an unacknowledged message waits for its first
	// repetition; the wait doubles up to 16 times that. Default 50 ms.
	ResendAfter time.Duration
	// GossipEvery is how often a digest goes to one peer. All peers are compared
	// once in GossipEvery times their number. Default 500 ms.
	GossipEvery time.Duration
	// PruneEvery is how often the most senior voter looks for what all replicas may
	// forget (prune.go). Default 1 s.
	PruneEvery time.Duration
	// Expire ends keys that nobody has changed for a while (expire.go).
	Expire []replicator.Expiry
	// Keep names keys of which old copies may come back; nil is none. What they have of
	// removed members is never forgotten; that they, or entries of their maps, were
	// deleted, after Retain. One member that keeps a key makes all keep it.
	Keep func(key string) bool
	// Retain is for how long a deletion under a key in Keep is remembered at least, and so
	// how long a file with old copies may be away and still be taken in (retain.go).
	// Default 7 days; a negative one is for ever.
	Retain time.Duration
	// WallMillis is the wall clock, in milliseconds of Unix time, when the clock of the
	// Instants stood at 0. Only Retain needs it.
	WallMillis uint64
	// Wall returns the wall clock in milliseconds of Unix time, by which stamps are made and
	// judged (clocks.go). It is asked within Step. Nil means that stamps are no times: they
	// are not judged.
	Wall func() uint64
	// Epochs means that the term of a fence is the epoch of a view, at most that of its
	// sender's view. A replica then rejects terms above the epoch of its own view (fence.go).
	Epochs bool
	// LeaseValid reports whether this node holds a valid lease (lease.go). It is asked
	// within Step, for the present, when a request at a level other than Local could end,
	// and must be quick. Nil means that it always does.
	LeaseValid func() bool
	// Seed feeds the order in which peers are gossiped with.
	Seed   uint64
	Limits Limits
	// NoStream and NoGossip switch one of the two ways of dissemination off. They
	// exist to show that each of them converges alone.
	NoStream, NoGossip bool
	// NoPack sends everything uncompressed.
	NoPack bool

	// Tests make small what only shows its faults when there is much of it: how many
	// keys are asked for at a time, and from which size on a value is compared in parts.
	fetchKeys, partialMin int
	// evenMargin is short where days must pass quickly.
	evenMargin time.Duration
}

// Limits bound what a Core holds. Zero means the default. Writers are refused at
// a limit; what others have accepted is taken up to twice the limit, since
// refusing it earlier would only make replicas differ.
type Limits struct {
	KeyBytes     int // of one key's name; default 512, at most 4096
	Keys         int // default 1,000,000
	Tombstones   int // deleted durable keys and entries of durable maps, which are forgotten earlier above it; default 100,000
	ValueBytes   int // of one value; default 16 MiB
	TotalBytes   int // of all values; default 1 GiB
	RequestOps   int // keys in one request; default 4096
	RequestBytes int // of one request's deltas; default 16 MiB
	Pending      int // requests under way; default 16,384
	LogBytes     int // of own changes kept for repetition; default 4 MiB
	LogEntries   int // default 16,384
	FrameBytes   int // of one message; larger ones are cut into parts; default 256 KiB
	RoundBytes   int // of values that one anti-entropy exchange may move; default 4 MiB
	FenceGroups  int // default 1024
	Transfers    int // large messages under way per peer and direction; default 4
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.Timeout, 5*time.Second)
	orDefault(&c.SpreadMax, 50*time.Millisecond)
	orDefault(&c.BatchEvery, 3*time.Millisecond)
	orDefault(&c.ResendAfter, 50*time.Millisecond)
	orDefault(&c.GossipEvery, 500*time.Millisecond)
	orDefault(&c.PruneEvery, time.Second)
	orDefault(&c.fetchKeys, fetchKeysMax)
	orDefault(&c.partialMin, partialMin)
	if c.Retain == 0 {
		c.Retain = 7 * 24 * time.Hour
	}
	orDefault(&c.evenMargin, evenMargin)
	l := &c.Limits
	orDefault(&l.KeyBytes, 512)
	l.KeyBytes = min(l.KeyBytes, keyBytesMax)
	orDefault(&l.Keys, 1_000_000)
	orDefault(&l.Tombstones, 100_000)
	orDefault(&l.ValueBytes, 16<<20)
	orDefault(&l.TotalBytes, 1<<30)
	orDefault(&l.RequestOps, 4096)
	orDefault(&l.RequestBytes, 16<<20)
	orDefault(&l.Pending, 16384)
	orDefault(&l.LogBytes, 4<<20)
	orDefault(&l.LogEntries, 16384)
	orDefault(&l.FrameBytes, 256<<10)
	orDefault(&l.RoundBytes, 4<<20)
	orDefault(&l.FenceGroups, 1024)
	orDefault(&l.Transfers, 4)
	return c
}

// keyBytesMax bounds the name of a key on the wire, whatever a peer's Limits.
const keyBytesMax = 4096
