package sharding

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/residency"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Daemon describes a sharded daemon: Workers entities, numbered from 0, that run without
// messages and are spread over the nodes of Role. If a worker's node dies, the worker
// starts on another node. If a worker ends by itself, it starts again within a second.
//
// The workers divide a task among them. So two workers never run that were started with
// different numbers of workers: RunningDaemon.Scale ends all of them before it starts the
// first one again. A worker that does not end within StopTimeout is abandoned, as when a
// shard moves: its Context ends, and the other workers no longer wait for it.
//
// Name, Role, Workers, MaxWorkers and the codecs must be equal on all nodes. Fields without
// a comment are those of Type.
type Daemon[Req, Resp any] struct {
	// Name is the daemon's name in the cluster. It shares one name space with the types.
	Name string
	// Role selects the nodes that may host workers. Default: every node.
	Role string
	// Workers is the initial number of workers. At least 1 is required. A number set by Scale
	// replaces it until all nodes of the role have been down at the same time.
	Workers int
	// MaxWorkers bounds Scale. It is at most 32,768. Default: Workers.
	MaxWorkers int
	// New returns the instance of worker number worker, of workers.
	New         func(worker, workers int) Entity[Req, Resp]
	ReqCodec    Codec[Req]
	RespCodec   Codec[Resp]
	Control     func(Req) bool
	Supervision Supervision
	StopTimeout time.Duration
	Strategy    Strategy
	// MinMembers is the number of hosting nodes required before the first worker starts.
	// Default: 1.
	MinMembers   int
	Limits       Limits
	Interceptors []Interceptor
}

// Validate returns an error that lists every invalid setting.
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

// ErrNoWorker reports a worker that must not run: its number is too high, or the number of
// workers is being changed. The latter is temporary.
var ErrNoWorker error = failure.NoWorker

// RunningDaemon is the handle of a daemon on this node. It is valid as long as the
// Registry. All methods are safe for concurrent use.
type RunningDaemon[Req, Resp any] struct {
	region     *Region[Req, Resp]
	controller *residency.DaemonController
	registry   *Registry
}

// RegisterDaemon makes this node run its share of the workers if it has the role. Nodes
// without the role only send. It fails with *TypeError if the description is invalid or the
// name is taken.
//
// It follows Pekko's ShardedDaemonProcess. There, messages from other nodes keep workers
// alive every ten seconds; here, their homes do.
func RegisterDaemon[Req, Resp any](r *Registry, d Daemon[Req, Resp]) (*RunningDaemon[Req, Resp], error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	k := residency.NewDaemonController(d.Name, d.Workers, d.max())
	typ := Type[Req, Resp]{
		Name: d.Name, Role: d.Role, Shards: d.max(), Strategy: k.Strategy(cmp.Or[Strategy](d.Strategy, strategy.LeastShards{})),
		ShardOf:  workerShard,
		ReqCodec: d.ReqCodec, RespCodec: d.RespCodec, Control: d.Control,
		Supervision: d.Supervision, StopTimeout: d.StopTimeout, MinMembers: d.MinMembers, Limits: d.Limits,
		Interceptors: d.Interceptors,
		// A type with New hosts; newWorker is called in its place.
		New: func(string) Entity[Req, Resp] { return nil },
	}
	newWorker := func(id string) (Entity[Req, Resp], error) {
		n, of, err := k.StartWorker(id)
		if err != nil {
			return nil, err
		}
		return d.New(n, of), nil
	}
	region, err := addType(r, typ, additions[Req, Resp]{k.Reconciler, newWorker})
	if err != nil {
		return nil, err
	}
	return &RunningDaemon[Req, Resp]{region, k, r}, nil
}

// workerShard puts each worker into a shard of its own: it is its number.
func workerShard(id string) ShardID {
	n, err := strconv.ParseUint(id, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != id {
		return endpoint.NoShard
	}
	return ShardID(n)
}

// Worker returns the address of a worker. While the worker moves, its messages wait. They
// fail with ErrNoShard if n is negative or not below MaxWorkers. An Ask of a worker that
// must not run fails with ErrNoWorker.
func (d *RunningDaemon[Req, Resp]) Worker(n int) Ref[Req, Resp] {
	return d.region.Ref(strconv.Itoa(n))
}

// Tell is Worker(n).Tell.
func (d *RunningDaemon[Req, Resp]) Tell(ctx context.Context, n int, req Req) error {
	return d.Worker(n).Tell(ctx, req)
}

// Ask is Worker(n).Ask.
func (d *RunningDaemon[Req, Resp]) Ask(ctx context.Context, n int, req Req, opts ...AskOption) (Resp, error) {
	return d.Worker(n).Ask(ctx, req, opts...)
}

// Stats returns the counters and gauges of the daemon on this node.
func (d *RunningDaemon[Req, Resp]) Stats() Stats { return d.region.Stats() }

// Workers returns the current number of workers as this node has it. It returns 0 if this
// node has no number yet, or while all workers end because the number changes. Nodes
// without the daemon's role always return 0.
func (d *RunningDaemon[Req, Resp]) Workers() int {
	return d.controller.Workers()
}

// Scale changes the number of workers for the whole cluster. It returns once all workers of
// the old number have ended, and this node has the new number; the new workers start
// immediately. Of two calls the later one counts, and the earlier one may return nil once
// it was superseded.
//
// It fails with *TypeError if n is not in 1 to MaxWorkers, with ErrNotReady, with
// ErrNodeStopping on a closed node, with ErrNoRole on nodes without the role, with the
// errors of package replicator, and with ctx's error. After ctx's error, and after
// ErrNodeStopping because the node is closed meanwhile, the new number stays set, and is
// applied as soon as possible.
func (d *RunningDaemon[Req, Resp]) Scale(ctx context.Context, n int) error {
	return inGroup(d.scale(ctx, n))
}

func (d *RunningDaemon[Req, Resp]) scale(ctx context.Context, n int) error {
	t := d.region.reg
	if most := d.controller.MaxWorkers(); n < 1 || n > most {
		return &TypeError{Type: t.Name, Wrong: []string{fmt.Sprintf("workers must be 1 to %d, not %d", most, n)}}
	}
	s, _, err := d.registry.serving(t.Name)
	if err != nil {
		return err
	}
	store := s.drivers.Plans(t.place.Role)
	if store == nil {
		return ErrNoRole
	}
	done, err := d.controller.Scale(ctx, store, n, t.Ended())
	if !done {
		return ErrNodeStopping
	}
	return err
}
