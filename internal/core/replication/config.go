package replication

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/replicator"
)

// Config holds the settings of a Core, which never change. The zero value of every field
// but Self means its documented default.
type Config struct {
	Self gossip.NodeID
	// Role selects the members of the view that hold replicas; "" is all of them.
	Role string
	// Timeout ends requests without a deadline. Default 5 s. If a deadline passes while
	// the process is stopped, so that the core notices it more than ResendAfter late, the
	// core sends the request once more and extends it by 4 times ResendAfter.
	Timeout time.Duration
	// SpreadMax bounds the wait after which a request turns to members beyond those
	// that its level needs: a fifth of its time, at most this. When a peer is lost, the
	// request turns to them immediately. Default 50 ms.
	SpreadMax time.Duration
	// BatchEvery is how long a change waits for further changes before it is sent to
	// members that no request waits for. Longer saves messages, shorter spreads faster.
	// Default 3 ms.
	BatchEvery time.Duration
	// ResendAfter is how long an unacknowledged message waits for its first
	// repetition; the wait doubles up to 16 times that. Default 50 ms.
	ResendAfter time.Duration
	// GossipEvery is how often a digest goes to one peer. All peers are compared
	// once in GossipEvery times their number. Default 500 ms.
	GossipEvery time.Duration
	// PruneEvery is how often the most senior voter looks for state that all replicas may
	// forget (prune.go). Default 1 s.
	PruneEvery time.Duration
	// Expire deletes keys that no write has changed for a while (prune.go).
	Expire []replicator.Expiry
	// Keep selects the durable keys, of which old copies may come back; nil selects none.
	// Their traces of removed members are never forgotten. Their deletions, and those of
	// entries of their maps, are forgotten after Retain. One member that keeps a key
	// makes all members keep it.
	Keep func(key string) bool
	// Retain is the least time for which a deletion under a key in Keep is remembered,
	// and so the time for which a file with old copies may be away and still be accepted
	// (retain.go). Default 7 days; a negative Retain never ends.
	Retain time.Duration
	// Wall returns the wall clock in milliseconds of Unix time, by which stamps are made
	// and judged (clocks.go). Step calls it. Nil means that stamps are not times, and are
	// not judged.
	Wall func() uint64
	// Epochs means that the term of a fence is the epoch of a view, at most that of its
	// sender's view. A replica then rejects terms above the epoch of its own view (fence.go).
	Epochs bool
	// LeaseValid reports whether this node holds a valid lease (request.go). Step calls it
	// when a request at a level other than Local could end; it must be quick. Nil means
	// that the lease is always valid.
	LeaseValid func() bool
	// Seed feeds the order in which peers are gossiped with.
	Seed   uint64
	Limits Limits
	// NoStream and NoGossip switch one of the two ways of dissemination off. They
	// exist to show that each of them converges alone.
	NoStream, NoGossip bool
	// NoPack sends everything uncompressed.
	NoPack bool

	// Tests and the simulator lower these two bounds, so that faults show with little data:
	// the keys of one Fetch, and the size from which a value is compared in parts.
	FetchKeys, PartialMin int
	// overEvery is short in tests in which days must pass quickly.
	overEvery time.Duration
}

// Limits bound the state of a Core. Zero means the default. At a limit a core refuses own
// writes; it accepts state of other replicas up to twice the limit, since an earlier
// refusal would only make replicas differ.
type Limits struct {
	KeyBytes     int // of one key's name; default 512, at most 4096
	Keys         int // default 1,000,000
	Tombstones   int // deleted durable keys and entries of durable maps; above it they are forgotten earlier; default 100,000
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
	orDefault(&c.FetchKeys, fetchKeysMax)
	orDefault(&c.PartialMin, partialMin)
	if c.Retain == 0 {
		c.Retain = 7 * 24 * time.Hour
	}
	orDefault(&c.overEvery, overEvery)
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

// keyBytesMax bounds the name of a key on the wire, independent of a peer's Limits.
const keyBytesMax = 4096

// env is shared by all parts of a core: the settings, the time and the effects of the
// step under way, and the counters.
type env struct {
	cfg   Config
	stats figures.Replicator
	// now is the time of the step under way, steps counts the steps.
	now   clock.Instant
	steps uint64
	// out is the effects of the step under way.
	out *Effects
	// onDisk is set while a message or reply that rests on the disk is sent (disk.go).
	onDisk bool
	ids    uint64 // of sessions and transfers
}

func (ev *env) traceEvent(e TraceEvent) { ev.out.Trace = append(ev.out.Trace, e) }

func (ev *env) kept(key string) bool {
	return ev.cfg.Keep != nil && ev.cfg.Keep(key)
}

func (ev *env) wait(backoff int) time.Duration { return ev.cfg.ResendAfter << min(backoff, backoffMax) }

func (ev *env) nowMillis() int64 { return int64(ev.now) / int64(time.Millisecond) }
