package figures

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Cluster holds what the members of a view report about themselves, as one node collected
// it.
type Cluster struct {
	// Cluster is the name of the cluster, Self the node that collected, At when it did.
	Cluster string        `json:"cluster"`
	Self    gossip.NodeID `json:"self"`
	At      time.Time     `json:"at"`
	// View is the view whose members were asked, nil while the node is in no cluster: only
	// its own figures are there then.
	View *gossip.View `json:"view,omitempty"`
	// Nodes are the members that answered in time, and the node itself.
	Nodes []Node `json:"nodes"`
}

// Node holds the figures that a node reports about itself to other members. Counters count
// since the start of the process.
type Node struct {
	ID         gossip.NodeID     `json:"id"`
	Name       string            `json:"name"`
	Addr       string            `json:"addr"`
	Roles      []string          `json:"roles,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	AppVersion string            `json:"app_version,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	// Version is the one of Peerage.
	Version string `json:"version"`
	// At is its wall clock, UpSeconds the age of the node, MemoryBytes what its Go runtime
	// has obtained.
	At          time.Time `json:"at"`
	UpSeconds   float64   `json:"up_seconds"`
	MemoryBytes uint64    `json:"memory_bytes,omitempty"`

	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"`
	Draining bool   `json:"draining,omitempty"`
	// State is that of its membership in one or a few words, as in GET /membership.
	State  string        `json:"state"`
	Epoch  gossip.Epoch  `json:"epoch,omitzero"`
	Leader gossip.NodeID `json:"leader,omitzero"`
	Lease  Lease         `json:"lease"`
	// Contests are the other clusters of the same name with which its cluster is in contest.
	Contests int       `json:"contests,omitempty"`
	Links    []Link    `json:"links,omitempty"`
	Types    []Type    `json:"types,omitempty"`
	Data     []DataSet `json:"data,omitempty"`
}

// Lease is the right of a node to run entities.
type Lease struct {
	Valid bool `json:"valid"`
	// Leader is set if it is the leader's own lease.
	Leader bool `json:"leader,omitempty"`
	// LeftSeconds is how long it is still valid, FullSeconds how long when it was renewed.
	LeftSeconds float64 `json:"left_seconds"`
	FullSeconds float64 `json:"full_seconds"`
}

// Link describes the connections of a node with another one.
type Link struct {
	Node gossip.NodeID `json:"node"`
	// Out and In report whether control connections in either direction are open.
	Out bool `json:"out"`
	In  bool `json:"in"`
	// Dead is the kind of proof that the peer's process has ended, "" without one.
	Dead string `json:"dead,omitempty"`
	// DownSeconds is how long there has been no control connection.
	DownSeconds float64 `json:"down_seconds,omitempty"`
}

// Type holds the figures of one entity type on one node.
type Type struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	// Hosting is false for proxies. Unregistered is set if the node has the role and does not
	// run the type; all that follows is then zero.
	Hosting      bool `json:"hosting,omitempty"`
	Unregistered bool `json:"unregistered,omitempty"`
	// Coordinating is set on the coordinator of the type; Refused is why the coordinator does
	// not register this node.
	Coordinating bool   `json:"coordinating,omitempty"`
	Refused      string `json:"refused,omitempty"`
	ShardsTotal  int    `json:"shards_total"`

	Shards        int `json:"shards,omitempty"`
	Entities      int `json:"entities,omitempty"`
	StandbyShards int `json:"standby_shards,omitempty"`
	StateBytes    int `json:"state_bytes,omitempty"`

	// Asks and Buffered are gauges: asks in flight, messages that wait for a home. Waiting
	// are callers and messages that wait for room in a mailbox.
	Asks     int `json:"asks,omitempty"`
	Buffered int `json:"buffered,omitempty"`
	Waiting  int `json:"waiting,omitempty"`
	// OldestHandlerSeconds is the age of the longest running call of an entity's code.
	OldestHandlerSeconds float64 `json:"oldest_handler_seconds,omitempty"`

	Sent        uint64 `json:"sent,omitempty"`
	Handled     uint64 `json:"handled,omitempty"`
	Dropped     uint64 `json:"dropped,omitempty"`
	Redirected  uint64 `json:"redirected,omitempty"`
	HandoffsIn  uint64 `json:"handoffs_in,omitempty"`
	HandoffsOut uint64 `json:"handoffs_out,omitempty"`
	Forced      uint64 `json:"forced,omitempty"`
	Duplicates  uint64 `json:"duplicates,omitempty"`
	StateLosses uint64 `json:"state_losses,omitempty"`
	StatesLost  uint64 `json:"states_lost,omitempty"`

	// RememberedWaiting are updates of remembered entities that are not stored yet,
	// RememberedFailed counts failed reads and writes of their store.
	RememberedWaiting int    `json:"remembered_waiting,omitempty"`
	RememberedFailed  uint64 `json:"remembered_failed,omitempty"`
	// Unconfirmed are messages of reliable producers in flight, Resends and GivenUp count
	// their retransmissions and those that no home could take.
	Unconfirmed int    `json:"unconfirmed,omitempty"`
	Resends     uint64 `json:"resends,omitempty"`
	GivenUp     uint64 `json:"given_up,omitempty"`

	// AskBuckets counts ended asks of this node by duration: those up to each of
	// LatencyBounds, and in the last entry all. nil if the node has no metrics.
	AskBuckets []uint64 `json:"ask_buckets,omitempty"`
	// Moves and Open are reported by the coordinator: its newest moves, and the shards that do
	// not run at their new homes yet, up to OpenMax.
	Moves []Moves  `json:"moves,omitempty"`
	Open  []uint32 `json:"open,omitempty"`
}

// OpenMax bounds Type.Open.
const OpenMax = 4096

// LatencyBounds returns the upper bounds of the buckets of durations, in seconds.
func LatencyBounds() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// Moves are shards that a coordinator moved for one reason. The times are milliseconds after
// Began, by the coordinator's clock: when the last of the shards had a new home, when the
// record of it was replicated, and when the shard ran there; -1 as long as none has.
type Moves struct {
	From   gossip.NodeID `json:"from,omitzero"`
	Why    string        `json:"why"`
	Shards int           `json:"shards"`
	Hosted int           `json:"hosted"`
	Began  time.Time     `json:"began"`

	ChosenMillis  float64 `json:"chosen_ms"`
	WrittenMillis float64 `json:"written_ms"`
	DoneMillis    float64 `json:"done_ms"`
}

// DataSet holds the figures of the replicated data of one role on one node.
type DataSet struct {
	Role       string `json:"role"`
	Keys       int    `json:"keys"`
	Tombstones int    `json:"tombstones,omitempty"`
	Bytes      int    `json:"bytes,omitempty"`
	// Pending are reads and writes that wait for other replicas.
	Pending int `json:"pending,omitempty"`
	// Lag is the number of changes of this node that the slowest replica has not confirmed,
	// Behind the replica that is farthest behind.
	Lag    uint64        `json:"lag,omitempty"`
	Behind gossip.NodeID `json:"behind,omitzero"`
	// Settled reports whether the replica has caught up with the view.
	Settled        bool   `json:"settled"`
	DurableFailing bool   `json:"durable_failing,omitempty"`
	Updates        uint64 `json:"updates,omitempty"`
	Reads          uint64 `json:"reads,omitempty"`
	QuorumErrors   uint64 `json:"quorum_errors,omitempty"`
	// WriteBuckets counts ended updates of this node at a majority by duration, as
	// Type.AskBuckets counts asks. Those that failed are included.
	WriteBuckets []uint64 `json:"write_buckets,omitempty"`
	// ReadBuckets counts ended reads of this node at a majority likewise.
	ReadBuckets []uint64 `json:"read_buckets,omitempty"`
}

// Durations are the histograms of metrics as dashboards need them, in the form of
// Type.AskBuckets. nil maps: the node has no metrics.
type Durations struct {
	// Asks are ended asks by entity type.
	Asks map[string][]uint64
	// MajorityWrites and MajorityReads are ended updates and reads at a majority, by the metric
	// label of their replicator's role.
	MajorityWrites, MajorityReads map[string][]uint64
}
