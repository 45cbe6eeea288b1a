package residency

import (
	"testing"

	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func planOf(seq uint64, workers int, running bool) daemon.Plan {
	return daemon.Plan{Rev: daemon.Rev{Term: 1, Seq: seq}, Workers: workers, Running: running}
}

func TestOlderPlansAreIgnored(t *testing.T) {
	k := NewDaemonController("d", 1, 9)
	k.adoptPlan(planOf(2, 3, true))
	k.adoptPlan(planOf(1, 5, true))
	k.adoptPlan(daemon.Plan{})
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
		k.adoptPlan(planOf(uint64(seq)+1, 3, running))
		if n := k.Workers(); n != want {
			t.Errorf("plan %d: %d workers, want %d", seq, n, want)
		}
	}
}

// A worker starts only after the plan was read from a majority, and if the plan has it.
func TestAWorkerStartsByThePlanOnly(t *testing.T) {
	k := NewDaemonController("d", 1, 9)
	k.adoptPlan(planOf(1, 3, true))
	if _, _, err := k.StartWorker("1"); err != failure.NoWorker {
		t.Errorf("before the plan was read: %v", err)
	}
	k.planRead.Store(true)
	if n, of, err := k.StartWorker("1"); n != 1 || of != 3 || err != nil {
		t.Errorf("worker %d of %d, %v", n, of, err)
	}
	for _, id := range []string{"3", "-1", "x"} {
		if _, _, err := k.StartWorker(id); err != failure.NoWorker {
			t.Errorf("worker %q: %v", id, err)
		}
	}
	if got := k.workersIn(3); got != nil {
		t.Errorf("shard 3 has %v", got)
	}
}

// A daemon's strategy counts only the shards whose workers run.
func TestWorkersThatDoNotRunAreNotCounted(t *testing.T) {
	k := NewDaemonController("d", 1, 9)
	d := k.Strategy(strategy.LeastShards{}).(daemonStrategy)
	st := &strategy.State{Shards: 4, Regions: []strategy.Region{{Node: 1, Shards: []strategy.ShardID{0, 1, 2, 3}}}}
	for workers := range 5 {
		k.adoptPlan(planOf(uint64(workers)+1, workers, true))
		if got := d.withoutIdle(st).Regions[0].Shards; len(got) != workers {
			t.Errorf("%d workers: counts shards %v", workers, got)
		}
	}
	if len(st.Regions[0].Shards) != 4 {
		t.Error("the coordinator's state was changed")
	}
}
