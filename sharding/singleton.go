package sharding

import (
	"time"

	"github.com/peerage-go/peerage/internal/residency"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Singleton describes an entity of which the cluster has exactly one. It lives on the most
// senior node of Role and starts without a message. If it ends, it starts again within a
// second. If its node leaves or dies, it moves to the next most senior node. The guarantees
// of entities hold for it: at most one instance at any time, and its snapshot moves with it
// when it is handed over.
//
// Name, Role and the codecs must be equal on all nodes. Fields without a comment are those
// of Type.
type Singleton[Req, Resp any] struct {
	// Name is the singleton's name in the cluster. It shares one name space with the types.
	Name string
	// Role selects the nodes that may host it. Default: every node.
	Role string
	// New returns the instance; nil on a node that only sends.
	New         func() Entity[Req, Resp]
	ReqCodec    Codec[Req]
	RespCodec   Codec[Resp]
	Control     func(Req) bool
	Supervision Supervision
	StopTimeout time.Duration
	// State makes its state survive a crash of its node. Default: it does not.
	State Replicated
	// MinMembers is the number of hosting nodes required before it first starts. Default: 1.
	MinMembers   int
	Limits       Limits
	Interceptors []Interceptor
}

// singletonID is the id of the only entity of a singleton's type.
const singletonID = "singleton"

// RegisterSingleton makes this node a host of the singleton if it has the role, and returns
// the singleton's address. Nodes without the role, or with a nil New, only send. While the
// singleton is handed over, its messages wait, as for all entities. RegisterSingleton fails
// as Register does.
//
// It follows Pekko's Cluster Singleton with its proxy. There the hosts agree by messages
// among themselves; here the singleton is the only shard of a type.
func RegisterSingleton[Req, Resp any](r *Registry, t Singleton[Req, Resp]) (Ref[Req, Resp], error) {
	typ := Type[Req, Resp]{
		Name: t.Name, Role: t.Role, Shards: 1, Strategy: strategy.Senior{},
		ReqCodec: t.ReqCodec, RespCodec: t.RespCodec, Control: t.Control,
		Supervision: t.Supervision, StopTimeout: t.StopTimeout, State: t.State, MinMembers: t.MinMembers, Limits: t.Limits,
		Interceptors: t.Interceptors,
	}
	if t.New != nil {
		typ.New = func(string) Entity[Req, Resp] { return t.New() }
	}
	always := residency.NewAlwaysOn(1, func(ShardID) string { return singletonID })
	region, err := addType(r, typ, additions[Req, Resp]{reconciler: always})
	if err != nil {
		return Ref[Req, Resp]{}, err
	}
	return region.Ref(singletonID), nil
}
