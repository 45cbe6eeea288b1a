package sharding

import (
	"time"

	"github.com/peerage-go/peerage/sharding/strategy"
)

// Singleton describes an entity of which the cluster has exactly one, always: it
// lives on the most senior node of Role, is started without a message, started
// again within a second when it ends, and handed over to the next most senior node
// when its own leaves or dies. What is said of entities holds for it: at most one
// instance at any time, whatever happens (DESIGN 4.3); state that it snapshots goes
// with it when it is handed over.
//
// Name, Role and the codecs must be equal on all nodes. The other fields are those
// of Type.
type Singleton[Req, Resp any] struct {
	// Name is its name in the cluster, among those of the types.
	Name string
	// Role names the nodes that may host it; "" is every node.
	Role string
	// New makes the instance; nil on a node that only sends.
	New         func() Entity[Req, Resp]
	ReqCodec    Codec[Req]
	RespCodec   Codec[Resp]
	Control     func(Req) bool
	Supervision Supervision
	StopTimeout time.Duration
	// State asks that its state survives a crash of its node.
	State Replicated
	// MinMembers is the number of hosting nodes to wait for before it first starts.
	MinMembers int
	Limits     Limits
}

// singletonID is the id of the only entity of a singleton's type.
const singletonID = "singleton"

// RegisterSingleton makes this node a host of the singleton if it carries the
// role, and returns the singleton's address; nodes without the role, or without New,
// send only. Messages wait while it is handed over, as for all entities. It fails as
// Register does.
//
// After Pekko's Cluster Singleton with its proxy; there the hosts agree by messages
// among themselves, here it is the only shard of a type.
func RegisterSingleton[Req, Resp any](r *Registry, t Singleton[Req, Resp]) (Ref[Req, Resp], error) {
	typ := Type[Req, Resp]{
		Name: t.Name, Role: t.Role, Shards: 1, Strategy: strategy.Senior{},
		ReqCodec: t.ReqCodec, RespCodec: t.RespCodec, Control: t.Control,
		Supervision: t.Supervision, StopTimeout: t.StopTimeout, State: t.State, MinMembers: t.MinMembers, Limits: t.Limits,
		residents: &residents{of: func(ShardID) []string { return []string{singletonID} }},
	}
	if t.New != nil {
		typ.New = func(string) Entity[Req, Resp] { return t.New() }
	}
	region, err := add(r, typ)
	if err != nil {
		return Ref[Req, Resp]{}, err
	}
	return region.Ref(singletonID), nil
}
