package replication

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// Message is a message of the replicator protocol. Messages are immutable once
// sent: the simulator hands the same value to several receivers. Epoch is that of
// the sender's view in every message that has one; Floor and Sweep are those of the
// state that it carries (prune.go, retain.go).
type Message interface{ isMessage() }

// Deltas is a piece of the sender's own stream: entries From, From+1, ...
type Deltas struct {
	Epoch   gossip.Epoch
	Floor   uint64
	Sweep   uint64
	From    uint64
	Entries []*Entry
}

// Ack answers Deltas: From..To are applied here, all up to Seen are, and so are
// Lo..Hi beyond that if Lo is not 0. Refused entries are applied too, but they do
// not count for their writer.
type Ack struct {
	Epoch    gossip.Epoch
	From, To uint64
	Seen     uint64
	Lo, Hi   uint64
	Refused  []Refusal
}

// Refusal is the reason why entry Seq does not count, or a notice for its writer. If
// Higher is not 0, the entry carried a fence below it. Otherwise Why is the reason, for
// Entry of the item with number Item.
type Refusal struct {
	Seq    uint64
	Higher uint64
	Why    why
	Item   int
	Entry  string
	// Have is the stamp that stands, or that is ahead of Wall.
	Have crdt.Stamp
	Wall uint64
}

// why is the reason of a Refusal.
type why uint8

const (
	// whyFence stands for fences, and for all cases without a reason of their own.
	whyFence why = iota
	// whyAhead means that a stamp is ahead of the clocks. The entry was not applied, and
	// does not count.
	whyAhead
	// whyStale means that a newer stamp stands. The entry counts.
	whyStale
)

// ReadRequest asks for values that differ from the asker's, whose fingerprints
// stand beside the keys.
type ReadRequest struct {
	Epoch gossip.Epoch
	ID    RequestID
	// Round tells the times apart at which one request asks (askAgain).
	Round  uint64
	Fence  replicator.Fence
	Keys   []string
	Prints []uint64
	// Large are the numbers of keys whose values the asker can compare in parts.
	Large []int
}

// ReadResult answers a ReadRequest, in its order. Items hold the values whose
// fingerprints differ from the asker's and that exist here.
type ReadResult struct {
	Epoch  gossip.Epoch
	Floor  uint64
	Sweep  uint64
	ID     RequestID
	Round  uint64
	Prints []uint64
	Items  []Item
	// Withheld are the numbers of keys whose values differ, and must be compared in
	// parts.
	Withheld []int
	// Higher, if not 0, refuses the read: the fence's group is at that term.
	Higher uint64
	// Lost is the sender's Core.Lost.
	Lost gossip.Epoch
}

// Repair brings a replica that a read found stale up to date.
type Repair struct {
	ID    RequestID
	Floor uint64
	Sweep uint64
	Items []Item
}

// RepairAck confirms that a Repair has been applied.
type RepairAck struct {
	Epoch gossip.Epoch
	ID    RequestID
}

// Seen is how much of a node's stream a replica has applied: all up to Seen, and
// nothing above Top.
type Seen struct {
	Node      gossip.NodeID
	Seen, Top uint64
}

// Status is the small message of an anti-entropy round.
type Status struct {
	Epoch gossip.Epoch
	Floor uint64
	Sweep uint64
	// CaughtUp is the epoch as of which the sender holds everything that a quorum
	// of any former view has confirmed (members.go).
	CaughtUp gossip.Epoch
	Root     uint64
	Keys     uint64
	// Vector has the sender's own stream too. It is sorted by node.
	Vector []Seen
	Fences []replicator.Fence
	// Reply asks for the receiver's Status.
	Reply bool
	// MinGeneration, MaxForgottenStamp and Fresh are the sender's (retain.go).
	MinGeneration, MaxForgottenStamp uint64
	Fresh                            bool
	// Lost is the sender's Core.Lost.
	Lost gossip.Epoch
	// Dots is the highest sequence number of the sender's own changes (values.go).
	Dots uint64
	// Wall is the sender's wall clock (clocks.go).
	Wall uint64
}

// Compare carries the sums of the sender's buckets and asks which keys differ,
// beginning with bucket Start. Ask numbers the questions of a session: its answer
// repeats it, so that a duplicate answer is ignored.
type Compare struct {
	Session uint64
	Ask     uint64
	Start   int
	Sums    []uint64
}

// Differ answers Compare with the fingerprints of all keys in the buckets that
// differ. Next is the bucket to go on with, bucketCount when there is none. The state
// with these fingerprints contains the entries of Vector.
type Differ struct {
	Session uint64
	Ask     uint64
	Epoch   gossip.Epoch
	Next    int
	Vector  []Seen
	Fences  []replicator.Fence
	Keys    []string
	Prints  []uint64
}

// Fetch asks for the values of keys, of which the answer may have Credit bytes, or
// one value that is larger.
type Fetch struct {
	Session uint64
	Ask     uint64
	Credit  int
	Keys    []string
}

// Values answers Fetch with as many of its keys, from the first on, as fit.
type Values struct {
	Floor   uint64
	Sweep   uint64
	Session uint64
	Ask     uint64
	// Answered is how many of the keys this answers; not all of them need to exist.
	Answered int
	Items    []Item
}

// Part is a piece of a message that is larger than a frame.
type Part struct {
	Transfer uint64
	Index    int
	// Total is the size of the whole message in bytes.
	Total int
	Data  []byte
}

// partAck confirms that the parts before Next have arrived.
type partAck struct {
	Transfer uint64
	Next     int
}

// Prepare asks which of Drops the receiver holds too.
type Prepare struct {
	Epoch   gossip.Epoch
	Floor   uint64
	Sweep   uint64
	Attempt uint64
	Drops   []Drop
	// Sweeps asks for the next sweep, in which Deletions become agreed (retain.go).
	Sweeps    bool
	Deletions []uint64
}

// Prepared answers Prepare, in its order: Agreed has the drops, then the deletions.
type Prepared struct {
	Epoch   gossip.Epoch
	Floor   uint64
	Attempt uint64
	Agreed  []bool
	// MaySweep is set if the sender agrees to the sweep.
	MaySweep bool
	Fences   []replicator.Fence
}

// Commit orders its receiver to forget Drops, by which it comes to stand at Floor.
type Commit struct {
	MinGeneration uint64
	// MaxForgottenStamp is the newest time of a forgotten deletion of a map entry
	// (prune.go).
	MaxForgottenStamp uint64
	Floor             uint64
	Sweep             uint64
	Drops             []Drop
	// Sweeps is set if this is a sweep: Agreed and Forgotten are its deletions (retain.go).
	Sweeps            bool
	Agreed, Forgotten []uint64
	Fences            []replicator.Fence
}

func (*Deltas) isMessage()      {}
func (*Ack) isMessage()         {}
func (*ReadRequest) isMessage() {}
func (*ReadResult) isMessage()  {}
func (*Repair) isMessage()      {}
func (*RepairAck) isMessage()   {}
func (*Status) isMessage()      {}
func (*Compare) isMessage()     {}
func (*Differ) isMessage()      {}
func (*Fetch) isMessage()       {}
func (*Values) isMessage()      {}
func (*Part) isMessage()        {}
func (*partAck) isMessage()     {}
func (*Prepare) isMessage()     {}
func (*Prepared) isMessage()    {}
func (*Commit) isMessage()      {}

// Name returns a message's name for the labels of metrics; a packed one has the name of
// its content.
func Name(m Message) string {
	switch m := m.(type) {
	case *Deltas:
		return "deltas"
	case *Ack:
		return "ack"
	case *ReadRequest:
		return "read"
	case *ReadResult:
		return "read_result"
	case *Repair:
		return "repair"
	case *RepairAck:
		return "repair_ack"
	case *Status:
		return "status"
	case *Compare:
		return "compare"
	case *Differ:
		return "differ"
	case *Fetch:
		return "fetch"
	case *FetchParts:
		return "fetch_parts"
	case *Values:
		return "values"
	case *ReadParts:
		return "read_parts"
	case *PartsResult:
		return "parts_result"
	case *Part:
		return "part"
	case *Prepare:
		return "prepare"
	case *Prepared:
		return "prepared"
	case *Commit:
		return "commit"
	case *StampQuery:
		return "stamps"
	case *StampAnswer:
		return "stamps_result"
	case *Packed:
		return m.name()
	}
	return "part_ack"
}
