package sharding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Daemon describes a sharded daemon: Workers entities, numbered from 0, that are
// kept alive without messages and spread over the nodes of Role. When a worker's node
// dies it is started elsewhere; when it ends by itself it is started again within a
// second.
//
// The workers divide something among them, so no two ever run that were told
// different numbers of workers: RunningDaemon.Scale ends all before the first begins
// anew. A worker that does not end for StopTimeout then is abandoned, as one is whose
// shard moves: its Context ends, and the others wait for it no longer.
//
// Name, Role, Workers, MaxWorkers and the codecs must be equal on all nodes. The
// fields without a comment are those of Type.
type Daemon[Req, Resp any] struct {
	// Name is its name in the cluster, among those of the types.
	Name string
	// Role names the nodes that may host workers; "" is every node.
	Role string
	// Workers is how many there are to begin with. What Scale said last counts from then
	// on, until all nodes of the role have been down at once.
	Workers int
	// MaxWorkers bounds Scale; 0 means Workers.
	MaxWorkers int
	// New makes worker number worker of workers.
	New         func(worker, workers int) Entity[Req, Resp]
	ReqCodec    Codec[Req]
	RespCodec   Codec[Resp]
	Control     func(Req) bool
	Supervision Supervision
	StopTimeout time.Duration
	Strategy    Strategy
	// MinMembers is the number of hosting nodes to wait for before the first worker
	// starts.
	MinMembers int
	Limits     Limits
}

// Validate reports everything that is wrong with the daemon at once.
func (d *Daemon[Req, Resp]) Validate() error {
	var wrong []string
	if d.Workers < 1 {
		wrong = append(wrong, fmt.Sprintf("Workers must be at least 1, is %d", d.Workers))
	}
	if d.MaxWorkers != 0 && d.MaxWorkers < d.Workers || d.max() > shardsMax {
		wrong = append(wrong, fmt.Sprintf("MaxWorkers must be 0, or Workers to %d, is %d", shardsMax, d.MaxWorkers))
	}
	if d.New == nil {
		wrong = append(wrong, "New is nil")
	}
	if wrong == nil {
		return nil
	}
	return &TypeError{Type: d.Name, Wrong: wrong}
}

func (d *Daemon[Req, Resp]) max() int { return max(d.Workers, d.MaxWorkers) }

// ErrNoWorker is the error of a worker that is not to run: its number is too high,
// or the number of workers is being changed. The latter passes.
var ErrNoWorker = errors.New("sharding: no such worker now")

// RunningDaemon is the handle of a daemon on this node. It lives as long as the
// Registry. All methods are safe for concurrent use.
type RunningDaemon[Req, Resp any] struct {
	region *Region[Req, Resp]
	keeper *workerKeeper
}

// RegisterDaemon makes this node run its share of the workers if it carries the
// role; nodes without it send only. It fails with *TypeError on a description that
// is wrong or a name that is taken.
//
// After Pekko's ShardedDaemonProcess; there workers are kept alive by messages from
// other nodes every ten seconds, here by their homes.
func RegisterDaemon[Req, Resp any](r *Registry, d Daemon[Req, Resp]) (*RunningDaemon[Req, Resp], error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	k := &workerKeeper{name: d.Name, first: d.Workers, max: d.max()}
	typ := Type[Req, Resp]{
		Name: d.Name, Role: d.Role, Shards: d.max(), Strategy: staffed{cmp.Or[Strategy](d.Strategy, strategy.LeastShards{}), k},
		ShardOf:  workerShard,
		ReqCodec: d.ReqCodec, RespCodec: d.RespCodec, Control: d.Control,
		Supervision: d.Supervision, StopTimeout: d.StopTimeout, MinMembers: d.MinMembers, Limits: d.Limits,
		// It hosts; make is asked instead.
		New: func(string) Entity[Req, Resp] { return nil },
		make: func(id string) (Entity[Req, Resp], error) {
			n, of, err := k.begins(id)
			if err != nil {
				return nil, err
			}
			return d.New(n, of), nil
		},
		residents: &residents{of: k.of, also: k.serve},
	}
	k.residents = typ.residents
	region, err := add(r, typ)
	if err != nil {
		return nil, err
	}
	k.registry, k.ended = r, region.p.ended
	return &RunningDaemon[Req, Resp]{region, k}, nil
}

// workerShard puts each worker into a shard of its own: it is its number.
func workerShard(id string) ShardID {
	n, err := strconv.ParseUint(id, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != id {
		return noShard
	}
	return ShardID(n)
}

// Worker returns the address of a worker. Messages wait while it moves, and fail
// with ErrNoShard if its number is negative or not below MaxWorkers. An Ask of one
// that is not to run fails with ErrNoWorker.
func (d *RunningDaemon[Req, Resp]) Worker(n int) Ref[Req, Resp] {
	return d.region.Ref(strconv.Itoa(n))
}

// Stats returns the counters and gauges of the daemon on this node.
func (d *RunningDaemon[Req, Resp]) Stats() Stats { return d.region.Stats() }

// Workers returns how many workers are to run, as far as this node knows: 0 while
// it does not know, or all are ending because the number changes. Nodes without the
// daemon's role never know.
func (d *RunningDaemon[Req, Resp]) Workers() int {
	p := d.keeper.plan.Load()
	if p == nil || !p.Running {
		return 0
	}
	return p.Workers
}

// Scale changes the number of workers, for the whole cluster, and returns when all
// of the old number have ended and this node knows that those of the new number are
// to run; they start at once. Of two calls the later counts, and the earlier may
// return nil when it was overtaken. It fails with *TypeError if n is not 1 to
// MaxWorkers, ErrNotReady, ErrNodeStopping on a closed node, ErrNoRole on nodes without the
// role, with the errors of package replicator, and with ctx's error: after that, and after
// ErrNodeStopping when the node is closed meanwhile, the wish stands, and is carried out
// when it can be.
func (d *RunningDaemon[Req, Resp]) Scale(ctx context.Context, n int) error {
	return d.keeper.scale(ctx, n)
}

// runs reports whether a worker is to run by the plan that this node has seen.
func runs(p *daemon.Plan, worker int) bool { return p != nil && p.Runs(worker) }
