package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/sharding"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// world is one run: hosts, network and checkers under one schedule, and what breaks them.
type world struct {
	run     *run.Run
	net     *network.Network
	hosts   *hosts
	meeting *meeting
	judge   *membership.Judge
	storage *replica.Storage
	shards  *sharding.Invariants

	contacts  contacts
	faults    faults
	aimed     aimedFaults
	strangers strangers
	ending    ending
}

func newWorld(cfg *Config) *world {
	r := run.New(cfg.options())
	r.Trace = trace.New(cfg.Trace, cfg.Tail)
	if s := cfg.Script; s != nil && s.Faults != nil {
		r.Only = map[int]bool{}
		for _, f := range s.Faults {
			r.Only[f.Number] = true
		}
	}
	if cfg.Record {
		r.Record = record.New(r.Config.Nodes, r.Now)
	}
	w := &world{run: r}
	w.meeting = newMeeting(r)
	w.net = network.New(r, w.meeting.isParted)
	w.judge = membership.NewJudge(r, func() { w.shards.NoteDeath() })
	w.shards = sharding.NewInvariants(r, w.judge.Members(), w)
	w.storage = replica.NewStorage(r, w)
	w.hosts = &hosts{
		run: r, net: w.net, judge: w.judge, storage: w.storage, shards: w.shards, walls: newWalls(r), meeting: w.meeting,
		viewsOnly: cfg.ViewsOnly, aims: &w.aimed, onStart: w.contacts.informRepeatedly, all: make([]host, r.Config.Nodes), byID: map[nodeID]*node{},
	}
	w.contacts = contacts{run: r, hosts: w.hosts}
	w.faults = faults{run: r, rand: r.Rand.Fault, hosts: w.hosts, net: w.net}
	w.aimed = aimedFaults{run: r, rand: r.Rand.Fault, hosts: w.hosts, net: w.net, faults: &w.faults}
	w.strangers = strangers{run: r, hosts: w.hosts}
	w.ending = ending{
		run: r, hosts: w.hosts, net: w.net, judge: w.judge, meet: func() { w.meeting.joinSides(w.net) },
		checkLayers: func(q map[int]bool) { w.checkLayers(q) },
	}
	if r.Config.Policy != nil {
		r.Hit(coverage.Policy)
	}
	if r.Config.Apart {
		w.net.PartHosts()
		w.shards.ExpectApart(w.meeting.grace())
		w.meeting.planMeeting(w.net)
	}
	return w
}

// Newest returns the newest view that any process has held.
func (w *world) Newest() *gossip.View { return w.judge.Newest() }

// Present reports whether a node has been a member without a break until now.
func (w *world) Present(id nodeID) bool { return w.judge.Present(id) }

// Current reports whether a node is a member of the newest view of its lineage, and returns the
// view that the node holds.
func (w *world) Current(id nodeID) (held *gossip.View, current bool) {
	m := w.judge.Members()
	return m.Held(id), m.Member(id)
}

// PresentBeside reports whether a node has been a member without a break until now, in the
// lineage of another.
func (w *world) PresentBeside(id, other nodeID) bool { return w.judge.PresentBeside(id, other) }

// LabelAt returns the name of the process on a host, "" if there is none.
func (w *world) LabelAt(slot int) string { return w.hosts.LabelAt(slot) }

// Side returns the side of a cluster, in runs in which two clusters start apart.
func (w *world) Side(cluster uint64) int { return w.meeting.formedOn[cluster] }

// CoreTraced passes a trace event of a core to the faults that are aimed at it.
func (w *world) CoreTraced(p *process.Process, kind string, about nodeID) {
	w.aimed.onCoreTrace(p, kind, about)
}

// playSeed plays the seed to its end.
func (w *world) playSeed() {
	r := w.run
	r.Event("", "swarm", uint64(r.Config.Nodes), func() string { return fmt.Sprintf("%+v", r.Config) })
	w.startHosts()
	w.faults.planFaults()
	w.strangers.planMessages()
	w.storage.Disks.PlanFailures()
	w.storage.Clocks.PlanJumps()
	w.faults.planRestartAll()
	r.Until(virtual.Instant(r.Config.Duration))
	r.Calm = true
	w.storage.Disks.EndFailures()
	w.storage.Clocks.SetRight()
	w.ending.playEnding()
	w.shards.CheckEnd()
}

// startHosts starts the hosts, in runs with joins some of them late, and perhaps all
// late ones at one moment.
func (w *world) startHosts() {
	r, s := w.run, &w.run.Config
	rand := r.Rand.Setup
	moment := rand.Duration(s.Duration/4, s.Duration/2)
	for i := range w.hosts.all {
		at := &w.hosts.all[i]
		d := rand.Duration(0, 300*time.Millisecond)
		if late := rand.Coin(); s.Join && i > 0 && s.Duration > 4*time.Second && (late || s.Aim == seed.AimRaise) && (s.Aim != seed.AimRaise || i > 2) {
			at.stay = true
			d = rand.Duration(0, s.Duration/2)
			if s.Together {
				d = moment
				r.After(d+50*time.Millisecond, func() {
					if n := at.node; n != nil {
						n.p.Thread.Run(func() { w.contacts.inform(n) })
					}
				})
			}
		}
		at.expected = !at.stay
		r.After(d, func() {
			at.stay = false
			if at.node == nil {
				w.hosts.startNew(i)
			}
		})
	}
}

// checkLayers asks the layers above the views for liveness on the hosts in q.
func (w *world) checkLayers(q map[int]bool) {
	if w.hosts.viewsOnly {
		return
	}
	w.shards.CheckLiveness(q)
	w.storage.CheckLiveness(q)
}

// describeProcesses renders every process side by side.
func (w *world) describeProcesses() string {
	var b strings.Builder
	names := &w.run.Names
	for i := range w.hosts.all {
		n, paths := w.hosts.all[i].node, w.net.Paths(i)
		if n == nil {
			fmt.Fprintf(&b, "  %-3s -- down (power off: %v)  paths %v\n", trace.Label(i, 0), w.net.PoweredOff(i), paths)
			continue
		}
		lease := "no lease"
		if n.member.LeaseValid() {
			held := n.member.Lease()
			lease = fmt.Sprintf("lease %v", held.Until.Sub(n.p.Now()).Round(time.Millisecond))
			if held.Leader {
				lease += " (leader)"
			}
		}
		above := ""
		if n.types != nil {
			above = n.types.Describe()
		}
		fmt.Fprintf(&b, "  %-3s %016x paused=%-5v over=%-5v %-24s %-30s paths %v unreachable [%s] %s\n", n.p.Label, uint64(n.p.ID()), n.p.Thread.Paused(), n.p.Removed(), lease,
			names.View(n.member.View()), paths, names.List(n.member.Unreachable()), above)
	}
	return b.String()
}
