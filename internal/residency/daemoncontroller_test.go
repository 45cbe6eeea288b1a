package residency

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func planOf(seq uint64, workers int, running bool) daemon.Plan {
	return daemon.Plan{Rev: daemon.Rev{Term: 1, Seq: seq}, Workers: workers, Running: running}
}

// adopt makes the state of this node's replica a plan.
func adopt(k *DaemonController, p daemon.Plan) { k.onReplica(daemon.State{Plan: p}) }

// fakePlans has a plan that has not changed; no other node writes.
type fakePlans struct {
	placement.PlanStore
	plan daemon.Plan
}

func (p fakePlans) ReadPlan(context.Context, string, gossip.Epoch) (daemon.State, error) {
	return daemon.State{Plan: p.plan}, nil
}
func (fakePlans) AckPlan(context.Context, string, gossip.NodeID, daemon.Ack) error { return nil }
func (fakePlans) WatchPlan(string, func(daemon.State)) (cancel func())             { return func() {} }

func TestOlderPlansAreIgnored(t *testing.T) {
	k := NewDaemonController("d", 1, 9)
	adopt(k, planOf(2, 3, true))
	adopt(k, planOf(1, 5, true))
	adopt(k, daemon.Plan{})
	if n := k.Workers(); n != 3 {
		t.Errorf("%d workers, want 3", n)
	}
}

// No worker counts as running before the first plan, and while the number of workers changes.
func TestWorkersAreThoseThatRun(t *testing.T) {
	k := NewDaemonController("d", 1, 9)
	if n := k.Workers(); n != 0 {
		t.Errorf("%d workers before any plan", n)
	}
	for seq, running := range []bool{true, false, true} {
		want := 0
		if running {
			want = 3
		}
		adopt(k, planOf(uint64(seq)+1, 3, running))
		if n := k.Workers(); n != want {
			t.Errorf("plan %d: %d workers, want %d", seq, n, want)
		}
	}
}

// A worker starts only after the plan was read from a majority, if the plan has it, and until
// the incarnation ends.
func TestAWorkerStartsByThePlanOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewDaemonController("d", 1, 9)
		adopt(k, planOf(1, 3, true))
		if _, _, err := k.StartWorker("1"); err != failure.NoWorker {
			t.Errorf("before the plan was read: %v", err)
		}
		shards := map[strategy.ShardID]*fakeShard{0: {}, 2: {}, 3: {}}
		h := fakeHome(t.Context(), shards, fakeStore{})
		h.Self, h.Plans = 1, fakePlans{plan: planOf(1, 3, true)}
		h.Members = func() daemon.Members { return daemon.Members{Epoch: 1, Nodes: []gossip.NodeID{1}} }
		time.AfterFunc(CheckEvery/2, func() {
			if n, of, err := k.StartWorker("1"); n != 1 || of != 3 || err != nil {
				t.Errorf("worker %d of %d, %v", n, of, err)
			}
			for _, id := range []string{"3", "-1", "x"} {
				if _, _, err := k.StartWorker(id); err != failure.NoWorker {
					t.Errorf("worker %q: %v", id, err)
				}
			}
		})
		serveFor(k.Reconciler, h, CheckEvery)
		if got := shards[3].entities; got != nil || !slices.Equal(shards[2].entities, []string{"2"}) {
			t.Errorf("shard 3 has %v, shard 2 %v", got, shards[2].entities)
		}
		if _, _, err := k.StartWorker("1"); err != failure.NoWorker {
			t.Errorf("after the incarnation: %v", err)
		}
	})
}

// A daemon's strategy counts only the shards whose workers run.
func TestWorkersThatDoNotRunAreNotCounted(t *testing.T) {
	k := NewDaemonController("d", 1, 9)
	d := k.Strategy(strategy.LeastShards{}).(daemonStrategy)
	st := &strategy.State{Shards: 4, Regions: []strategy.Region{{Node: 1, Shards: []strategy.ShardID{0, 1, 2, 3}}}}
	for workers := range 5 {
		adopt(k, planOf(uint64(workers)+1, workers, true))
		if got := d.withoutIdle(st).Regions[0].Shards; len(got) != workers {
			t.Errorf("%d workers: counts shards %v", workers, got)
		}
	}
	if len(st.Regions[0].Shards) != 4 {
		t.Error("the coordinator's state was changed")
	}
}
