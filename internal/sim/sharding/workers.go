package sharding

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/entities"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// workers are those of a daemon on one process. They are started and ended as in
// internal/residency.
type workers struct {
	m         *base
	cores     *cores
	instances *instances
	inbox     inbox
	plans     plans
	// needHome requests the home of a shard that has none.
	needHome func(protocol.ShardID)
	// core is nil where no worker may run.
	core   *residency.Core
	driver *entities.Driver
	// at has the worker of each shard, from the order to start it until it has ended.
	at []*worker
}

// worker is the instance of a worker. It begins to run a while after it was ordered to start.
type worker struct {
	// plan is the plan under which it runs, zero before it does.
	plan  daemon.Plan
	token protocol.Token
	// ending is set once it must end, ended when it has.
	ending, ended bool
}

// host has the process run workers, if it hosts the daemon.
func (w *workers) host() {
	m, s := w.m, &w.m.run.Config
	if m.spec.Workers == 0 || w.cores.foreign || !s.Hosts(m.p.Slot, m.spec) || w.core != nil {
		return
	}
	w.at = make([]*worker, m.spec.Shards)
	w.core = residency.New(residency.Config{Shards: uint32(m.spec.Shards), Daemon: &residency.Daemon{First: m.spec.Workers, Max: m.spec.Shards}})
	w.driver = entities.NewDriver(w.core, residencyNode(m, w.cores, w.instances), workersShell{w})
}

// workersShell is the entities.Shell of a daemon.
type workersShell struct{ *workers }

func (w workersShell) Now() clock.Instant                  { return w.m.p.Now() }
func (w workersShell) NewTimer(fire func()) *virtual.Timer { return w.m.p.NewTimer(fire) }
func (w workersShell) Put(do func())                       { w.inbox.putWork(do) }

// PerformRemote performs an action that waits for other nodes.
func (w workersShell) PerformRemote(a *residency.Action, done func(residency.Outcome)) {
	w.plans.performRemote(a, done)
}

// shardStarted has the worker of a new shard start without delay.
func (w *workers) shardStarted() {
	if w.core != nil {
		w.driver.ShardStarted()
	}
}

// shardGone ends the worker of a shard that has ended.
func (w *workers) shardGone(shard protocol.ShardID) {
	if w.core != nil && w.at[shard] != nil {
		w.endWorker(shard, w.at[shard])
	}
}

// lookAtPlan takes what other processes have written, and sometimes wishes another number of workers.
func (w *workers) lookAtPlan() {
	if w.core == nil {
		return
	}
	if s, changed := w.plans.local(); changed {
		w.core.NotePlan(&s)
		w.driver.Wake()
	}
	if r := w.m.run; !r.Calm && r.Rand.Worker.Chance(4) {
		w.plans.wish(1 + r.Rand.Worker.IntN(w.m.spec.Shards))
	}
}

// PerformLocal performs an action that does not wait for other nodes.
func (w workersShell) PerformLocal(a *residency.Action) (o residency.Outcome) {
	switch a.Kind {
	case residency.WantHomes:
		for _, shard := range a.Shards {
			w.needHome(shard)
		}
	case residency.Start:
		o.OK = w.startWorker(a.Shard)
	case residency.StopAll:
		o.OK, o.Running = true, w.stopAll(a.Abandon)
	default:
		w.m.run.Fail("core", "%s: a daemon has action %d", w.m.p.Label, a.Kind)
	}
	return o
}

// startWorker starts the worker of a shard, unless it exists.
func (w *workers) startWorker(shard protocol.ShardID) bool {
	token := w.instances.openToken(shard)
	if token == (protocol.Token{}) || w.at[shard] != nil {
		return false
	}
	k := &worker{token: token}
	w.at[shard] = k
	w.beginWorker(shard, k)
	return true
}

// beginWorker has a worker run, if the plan still has it when the lease holds.
func (w *workers) beginWorker(shard protocol.ShardID, k *worker) {
	r := w.m.run
	w.m.later(r.Rand.Worker.Duration(0, 5*time.Millisecond), func() {
		if k.ended {
			return
		}
		if !w.instances.mayAct() {
			w.beginWorker(shard, k)
			return
		}
		p, mayStart := w.core.Plan()
		if !mayStart || !p.Runs(int(shard)) {
			w.endWorker(shard, k)
			return
		}
		k.plan = p
		r.Hit(coverage.WorkerRan)
		w.m.p.Event("worker runs", uint64(shard), func() string { return fmt.Sprintf("%d of %d", shard, p.Workers) })
		w.act(shard, k)
	})
}

// act has a running worker do its work, again and again, while the lease holds.
func (w *workers) act(shard protocol.ShardID, k *worker) {
	if k.ended {
		return
	}
	r := w.m.run
	if w.instances.mayAct() {
		r.Judge(w.m.checks.hosting.Acts(time.Duration(r.Now()), w.m.p.Node.ID, shard, k.token))
		w.m.site.inv.checkWorkers(w.m, shard, k)
	}
	w.m.later(r.Rand.Worker.Duration(5*time.Millisecond, 100*time.Millisecond), func() { w.act(shard, k) })
}

// endWorker ends a worker.
func (w *workers) endWorker(shard protocol.ShardID, k *worker) {
	k.ended = true
	if w.at[shard] == k {
		w.at[shard] = nil
		w.m.p.Event("worker ended", uint64(shard), func() string { return fmt.Sprintf("%d of %d", shard, k.plan.Workers) })
	}
}

// stopAll has all workers end, and returns how many still exist. If abandon is set, their shards
// are abandoned.
func (w *workers) stopAll(abandon bool) (running int) {
	for shard, k := range w.at {
		if k == nil {
			continue
		}
		running++
		shard := protocol.ShardID(shard)
		if !k.ending {
			k.ending = true
			w.m.later(w.drawStop(), func() { w.endWorker(shard, k) })
		}
		if abandon {
			w.m.run.Hit(coverage.WorkerForced)
			w.cores.put(func() { w.instances.supersede(protocol.ShardToken{Shard: shard, Token: k.token}) })
		}
	}
	return running
}

// drawStop draws how long a worker takes to end. Where only planned things happen, none is forced.
func (w *workers) drawStop() time.Duration {
	r := w.m.run
	if r.Rand.Worker.IntN(5) == 0 && !r.Config.Orderly {
		return r.Rand.Worker.Duration(0, 4*stopTimeout)
	}
	return r.Rand.Worker.Duration(0, 200*time.Millisecond)
}

// checkWorkers checks G11: while a worker acts, no worker runs that was started with another
// number of workers.
func (v *Invariants) checkWorkers(m *base, shard protocol.ShardID, k *worker) {
	for _, q := range v.running() {
		if q.p != m.p && (!v.judgesBeside(m, q) || !q.member.LeaseValid()) {
			continue
		}
		for other, o := range q.models[m.number].workers.at {
			if o != nil && o.plan.Workers != 0 && o.plan.Workers != k.plan.Workers {
				v.run.Fail("G11", "worker %d of %d acts at %s, while worker %d of %d runs at %s", shard, k.plan.Workers, m.p.Label, other, o.plan.Workers, q.p.Label)
			}
		}
	}
}

// describeWorkers returns what the hosts in q lack until the workers of one plan run, or "".
func (v *Invariants) describeWorkers(q map[int]bool) string {
	for number := range v.run.Config.Types {
		if t := &v.run.Config.Types[number]; t.Workers > 0 && v.canHost(q, t) {
			if lacks := v.describePlan(q, number); lacks != "" {
				return lacks
			}
		}
	}
	return ""
}

// newestPlan returns the newest plan of a daemon that a host in q knows, and the hosts in q that run it.
func (v *Invariants) newestPlan(q map[int]bool, number int) (newest daemon.Plan, hosts []*workers) {
	for slot, n := range v.nodes {
		if n == nil || !q[slot] || n.models[number].workers.core == nil {
			continue
		}
		w := &n.models[number].workers
		hosts = append(hosts, w)
		if p, _ := w.core.Plan(); newest.Rev.Compare(p.Rev) < 0 {
			newest = p
		}
	}
	return newest, hosts
}

// describePlan returns what the hosts in q lack until the workers of the newest plan of a daemon run. They
// may run under a plan of an earlier term with as many workers, which a coordinator wrote that was
// replaced: the next one may write it anew.
func (v *Invariants) describePlan(q map[int]bool, number int) string {
	newest, hosts := v.newestPlan(q, number)
	if !newest.Running {
		return fmt.Sprintf("the newest plan is %+v", newest)
	}
	for shard := range v.run.Config.Types[number].Shards {
		running := 0
		for _, w := range hosts {
			k := w.at[shard]
			if k != nil && (k.plan == newest || k.plan.Workers == newest.Workers && k.plan.Rev.Term < newest.Rev.Term) {
				running++
			}
		}
		if want := newest.Runs(shard); running > 1 || want != (running == 1) {
			return fmt.Sprintf("%d instances of worker %d of %d run", running, shard, newest.Workers)
		}
	}
	return ""
}
