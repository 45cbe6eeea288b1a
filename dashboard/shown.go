package dashboard

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// shown is the state of the page, as JSON.
type shown struct {
	Cluster string       `json:"cluster"`
	Seen    string       `json:"seen"`
	View    string       `json:"view"`
	At      time.Time    `json:"at"`
	Health  health       `json:"health"`
	Totals  totals       `json:"totals"`
	Members []memberRow  `json:"members"`
	Types   []typeRow    `json:"types"`
	Data    []dataRow    `json:"data"`
	Map     *shardMap    `json:"map,omitempty"`
	Fail    *failover    `json:"failover,omitempty"`
	Events  []event      `json:"events"`
	Streams streamCounts `json:"streams"`
	// Allowed names the actions that the options allow.
	Allowed []string `json:"allowed,omitempty"`
}

// health is the first thing that the page says.
type health struct {
	// Level is "ok", "warn", "bad" or "empty".
	Level string `json:"level"`
	Text  string `json:"text"`
	// Details are further findings, the most severe first.
	Details []string `json:"details,omitempty"`
}

// totals are figures of the whole cluster. Rates are -1 before the second poll, latencies -1
// if no asks were measured.
type totals struct {
	AskRate   float64 `json:"ask_rate"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Measured  bool    `json:"measured"`
	Entities  int     `json:"entities"`
	Shards    int     `json:"shards"`
	Moving    int     `json:"moving"`
	Doubles   uint64  `json:"doubles"`
	Losses    uint64  `json:"losses"`
	Buffered  int     `json:"buffered"`
	Handoffs  float64 `json:"handoff_rate"`
	Answering int     `json:"answering"`
}

type memberRow struct {
	ID   gossip.NodeID `json:"id"`
	Name string        `json:"name"`
	Addr string        `json:"addr"`
	// Color is the node's for life.
	Color   int      `json:"color"`
	Status  string   `json:"status"`
	Version string   `json:"version,omitempty"`
	Roles   []string `json:"roles,omitempty"`
	Zone    string   `json:"zone,omitempty"`
	Leader  bool     `json:"leader,omitempty"`
	Self    bool     `json:"self,omitempty"`
	// Coordinates are the types that it coordinates.
	Coordinates []string `json:"coordinates,omitempty"`
	// Answers is false if the node did not send its figures in time. The fields below are then
	// empty.
	Answers  bool    `json:"answers"`
	Ready    bool    `json:"ready"`
	NotReady string  `json:"not_ready,omitempty"`
	Lease    float64 `json:"lease"` // part that is left, -1 without a lease
	LeaseMS  float64 `json:"lease_ms"`
	// Links is the number of members with which its connections are open, Down names the others.
	Links    int      `json:"links"`
	Down     []string `json:"down,omitempty"`
	Shards   int      `json:"shards"`
	Entities int      `json:"entities"`
	Rate     float64  `json:"rate"`
	Memory   uint64   `json:"memory"`
	Up       float64  `json:"up"`
	// Gone is why a former member has left, "" for members; GoneAt when.
	Gone   string    `json:"gone,omitempty"`
	GoneAt time.Time `json:"gone_at,omitzero"`
}

type typeRow struct {
	Name        string   `json:"name"`
	Role        string   `json:"role"`
	Coordinator string   `json:"coordinator"`
	Shards      int      `json:"shards"`
	Total       int      `json:"total"`
	Moving      int      `json:"moving"`
	Entities    int      `json:"entities"`
	Rate        float64  `json:"rate"`
	P50         float64  `json:"p50_ms"`
	P99         float64  `json:"p99_ms"`
	Asks        int      `json:"asks"`
	Waiting     int      `json:"waiting"`
	Oldest      float64  `json:"oldest_s"`
	Dropped     float64  `json:"drop_rate"`
	StateBytes  int      `json:"state_bytes"`
	Standby     int      `json:"standby"`
	Remembered  int      `json:"remembered_waiting"`
	Unconfirmed int      `json:"unconfirmed"`
	Problems    []string `json:"problems,omitempty"`

	asks     growth
	doubles  uint64
	losses   uint64
	handoffs float64
	sampled  bool
}

type dataRow struct {
	Role string `json:"role"`
	// Replicas are the nodes that reported, Keys and Bytes those of the largest.
	Replicas   int    `json:"replicas"`
	Keys       int    `json:"keys"`
	Tombstones int    `json:"tombstones"`
	Bytes      int    `json:"bytes"`
	Pending    int    `json:"pending"`
	Lag        uint64 `json:"lag"`
	Behind     string `json:"behind,omitempty"`
	Unsettled  int    `json:"unsettled"`
	Failing    int    `json:"failing"`
	// WriteP50 and WriteP99 are of majority writes that ended since the last poll, -1 if none did.
	WriteP50 float64 `json:"write_p50_ms"`
	WriteP99 float64 `json:"write_p99_ms"`

	// ReadP50 and ReadP99 are of majority reads likewise.
	ReadP50 float64 `json:"read_p50_ms"`
	ReadP99 float64 `json:"read_p99_ms"`

	writes, reads growth
}

// shardMap shows where the shards of one type run.
type shardMap struct {
	Type  string `json:"type"`
	Total int    `json:"total"`
	// Homes has the index in Members of each shard's home: -1 none, -2 its home does not
	// answer. Entities has the number of entities of each shard.
	Homes    []int16  `json:"homes"`
	Entities []uint32 `json:"entities"`
	// Moving are shards on their way; Recent are those whose home changed a moment ago.
	Moving []uint32 `json:"moving"`
	Recent []uint32 `json:"recent"`
	Error  string   `json:"error,omitempty"`
}

type failover struct {
	Name   string    `json:"name"`
	At     time.Time `json:"at"`
	Why    string    `json:"why"`
	Shards int       `json:"shards"`
	Hosted int       `json:"hosted"`
	Types  int       `json:"types"`
	// Phases are in order; their lengths are milliseconds.
	Phases []phase `json:"phases"`
	Total  float64 `json:"total_ms"`
	// Undetected is set if Total lacks the time until the loss was detected and agreed on, since
	// no page was open then.
	Undetected bool `json:"undetected,omitempty"`
}

type phase struct {
	Name   string  `json:"name"`
	Millis float64 `json:"ms"`
}

// event is a line of the event stream.
type event struct {
	ID     uint64    `json:"id"`
	At     time.Time `json:"at"`
	Level  string    `json:"level"`
	Text   string    `json:"text"`
	Detail string    `json:"detail,omitempty"`
}
