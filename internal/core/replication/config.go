package replication

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// Config is what a Core needs to know at birth. The zero value of every field
// but Self means its documented default.
type Config struct {
	Self gossip.NodeID
	// Role selects the members of the view that hold replicas; "" is all of them.
	Role string
	// Timeout ends requests without a deadline. Default 5 s. A request whose
	// deadline passes while the process is stopped, so that it is noticed more than
	// ResendAfter late, is asked once more and given 4 times ResendAfter.
	Timeout time.Duration
	// SpreadMax bounds the wait after which a request turns to members beyond those
	// that its level needs: a fifth of its time, at most this. A lost peer makes it
	// turn to them immediately. Default 50 ms.
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
	// Expire ends keys that no write has changed for a while (prune.go).
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

// blunder plants one known bug, so that tests can prove that the checks catch it.
// Only tests set it.
type blunder uint8

const (
	blunderNone blunder = iota
	// blunderHasty commits when half of the others have answered.
	blunderHasty
	// blunderNoFloor takes state from before a commit.
	blunderNoFloor
	// blunderOldLog sends what was logged before a tombstone as it was.
	blunderOldLog
	// blunderNoRebase leaves a key that was created again in its generation.
	blunderNoRebase
	// blunderForgetKept forgets what old files may bring back.
	blunderForgetKept
	blunders

	// blunderOwnIdleness counts own changes only when it ends idle keys.
	blunderOwnIdleness
	// blunderNoTerms commits without the fences.
	blunderNoTerms
	// blunderGatherUnchanged leaves shares apart where one of them has gone since all
	// agreed to put them together.
	blunderGatherUnchanged
	// blunderNoWriteBack answers a read without making sure that what it returns
	// stands at the level.
	blunderNoWriteBack
	// blunderOldAnswers lets a read count answers from before the view was settled.
	blunderOldAnswers
	// blunderNoJoint counts majorities over the current view alone.
	blunderNoJoint
	// blunderNoLease ends requests without a lease.
	blunderNoLease
	// blunderLocalAck confirms a write that stands here.
	blunderLocalAck
	// blunderLiving counts majorities over those that can be reached.
	blunderLiving
	// blunderNoFence lets every term pass.
	blunderNoFence
	// blunderLaterView counts answers that were given in a later view.
	blunderLaterView
	// blunderSeenIsAck takes how far a stream has come for a confirmation.
	blunderSeenIsAck
	// blunderNoEcho confirms parts of a write that had no effect here.
	blunderNoEcho
	// blunderFewVoters lets a newcomer catch up with a majority of the voters.
	blunderFewVoters
	// blunderSkipMajority needs no more than a majority after a view that was missed.
	blunderSkipMajority
	// blunderSettledIsCaughtUp takes the others' having caught up for the own.
	blunderSettledIsCaughtUp
	// blunderTrustHelpers takes whatever a helper sends for what the source holds.
	blunderTrustHelpers
	// blunderNoHorizon takes in any file, however long it was away.
	blunderNoHorizon
	// blunderNewAges counts the age of deletions anew at every start.
	blunderNewAges
	// blunderWallAge lets deletions age while all members are down.
	blunderWallAge
	// blunderUnconfirmed takes deletions of which others may not have heard for old ones.
	blunderUnconfirmed
	// blunderNotFresh lets a replica that has just read its file take part immediately.
	blunderNotFresh
	// blunderNoBase begins new durable keys in generation 0.
	blunderNoBase
	// blunderAnyEven takes all for even, whatever they say of their deletions.
	blunderAnyEven
	// blunderNoCeiling forgets with each stop which ends of entries were forgotten.
	blunderNoCeiling
	// blunderClaimRefused ends a session as if nothing had been refused.
	blunderClaimRefused
	// blunderOwnStamps stamps above what this replica has, and not above the answers.
	blunderOwnStamps
	// blunderAdmitAll takes stamps however far they are ahead.
	blunderAdmitAll
	// blunderOwnClock stamps by the own clock alone.
	blunderOwnClock
	// blunderUnjudged sends what was stamped before another clock was heard.
	blunderUnjudged
	// blunderNoEra leaves what is ahead of the clocks in its era.
	blunderNoEra
	// blunderEraReplaces takes a state of a higher era in place of one of a lower era.
	blunderEraReplaces
	blundersAll
)
