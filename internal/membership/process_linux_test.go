package membership

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// processesEnv set to "all" runs every scenario; otherwise the quick ones run.
const processesEnv = "PEERAGE_PROCESSES"

// atOnce is how many scenarios run at a time: they mostly wait.
const atOnce = 4

// scenario is a sequence of faults for processes in one view, by seniority. Without hosts there
// are five processes, each on a host of its own. Afterwards the logs are checked for safety at
// all times.
type scenario struct {
	name     string
	quick    bool
	evidence gossip.CrashEvidence
	hosts    shares
	play     func(l *lab, ps []*proc)
}

// shares is a number of processes of which perHost run on each host.
type shares struct{ processes, perHost int }

func scenarios() []scenario {
	all := []scenario{
		{name: "kill member", play: func(l *lab, ps []*proc) { killed(l, ps, ps[2:3]) }},
		{name: "kill leader", quick: true, play: func(l *lab, ps []*proc) { killed(l, ps, ps[:1]) }},
		{name: "kill all but the youngest", play: func(l *lab, ps []*proc) { killed(l, ps, ps[:4]) }},
		{name: "drop, the leader in the minority", quick: true, play: func(l *lab, ps []*proc) { parted(l, ps[:2], ps[2:], dropped) }},
		{name: "drop, the leader in the majority", play: func(l *lab, ps []*proc) { parted(l, ps[3:], ps[:3], dropped) }},
		{name: "drop, joins and leaves on both sides", play: comingAndGoing},
		{name: "reject, evidence off", evidence: gossip.EvidenceOff, play: func(l *lab, ps []*proc) { parted(l, ps[:2], ps[2:], rejected) }},
		{name: "reject, evidence within quorum", quick: true, evidence: gossip.EvidenceWithinQuorum,
			play: func(l *lab, ps []*proc) { parted(l, ps[:2], ps[2:], rejected) }},
		{name: "rejected by the hosts themselves", play: rejectedInFull},
		{name: "one way, the leader receives nothing", play: func(l *lab, ps []*proc) { oneWay(l, ps, dropped(ps[1:], ps[:1])) }},
		{name: "one way, nothing from the leader arrives", play: func(l *lab, ps []*proc) { oneWay(l, ps, dropped(ps[:1], ps[1:])) }},
		{name: "one way, nothing from a member arrives", play: func(l *lab, ps []*proc) { oneWay(l, ps, dropped(ps[4:], ps[:4])) }},
		{name: "two members do not reach each other", play: indirect},
		{name: "a member and the leader do not reach each other", play: func(l *lab, ps []*proc) {
			oneWay(l, ps, append(dropped(ps[4:], ps[:1]), dropped(ps[:1], ps[4:])...))
		}},
		{name: "no datagrams", play: noDatagrams},
		{name: "a fifth of all packets is lost", play: lossy},
		{name: "kill the half that shares a host with the leader", hosts: shares{24, 12}, play: func(l *lab, ps []*proc) { hostKilled(l, ps, ps[0].host) }},
		{name: "kill the half that shares the other host", hosts: shares{24, 12}, play: func(l *lab, ps []*proc) {
			hostKilled(l, ps, ps[slices.IndexFunc(ps, func(p *proc) bool { return p.host != ps[0].host })].host)
		}},
	}
	for _, d := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 10 * time.Second} {
		all = append(all,
			scenario{name: "stop leader for " + d.String(), quick: d == 1500*time.Millisecond,
				play: func(l *lab, ps []*proc) { stopped(l, ps, ps[0], d) }},
			scenario{name: "stop member for " + d.String(), play: func(l *lab, ps []*proc) { stopped(l, ps, ps[3], d) }})
	}
	for _, r := range rejections() {
		all = append(all, scenario{name: "reject: " + r.name, play: func(l *lab, ps []*proc) { rejectedOnTheWay(l, ps, r) }})
	}
	return all
}

// Real processes, each on a host of its own, under faults of processes and networks. No
// time is measured; only a broken node misses a deadline.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes: not in short mode")
	}
	needNetwork(t)
	t.Parallel()
	var group sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, s := range scenarios() {
		if !s.quick && os.Getenv(processesEnv) != "all" {
			continue
		}
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(s.name, func(t *testing.T) {
				l := newLab(t, &network{perHost: s.hosts.perHost})
				ps := l.form(cmp.Or(s.hosts.processes, 5), s.evidence)
				pass(3 * time.Second) // as in the middle of a life
				s.play(l, ps)
			})
		})
	}
	group.Wait()
}

func without(ps, gone []*proc) []*proc {
	return slices.DeleteFunc(slices.Clone(ps), func(p *proc) bool { return slices.Contains(gone, p) })
}

// killed: the rest continues, and the killed return as new processes.
func killed(l *lab, ps, victims []*proc) {
	left := killAll(ps, victims)
	l.t.Logf("view without the dead after %v", l.settled(left...))
	startAgain(l, left, victims)
}

// killAll kills victims at the same time, and returns the rest of ps.
func killAll(ps, victims []*proc) []*proc {
	var ends sync.WaitGroup
	for _, p := range victims {
		ends.Go(p.kill)
	}
	ends.Wait()
	return without(ps, victims)
}

// startAgain: the killed return to the rest as new processes.
func startAgain(l *lab, left, killed []*proc) {
	for _, p := range killed {
		left = append(left, l.start(p.host, p.spec))
	}
	l.t.Logf("all are back after %v", l.settled(left...))
}

// hostKilled: all processes of one of two hosts die, half of all. The kernel of that host
// sends the other one six ICMP errors, then one a second, so most proofs stay weak. Beside the
// leader the rest is a quorum and continues. Without it the rest waits for those that return.
func hostKilled(l *lab, ps []*proc, host *netns) {
	onHost := func(p *proc) bool { return p.host == host }
	victims := slices.DeleteFunc(slices.Clone(ps), func(p *proc) bool { return !onHost(p) })
	if 2*len(victims) != len(ps) {
		l.t.Fatalf("%d of %d share the host", len(victims), len(ps))
	}
	if !onHost(ps[0]) {
		killed(l, ps, victims)
		return
	}
	left := killAll(ps, victims)
	pass(5 * time.Second)
	l.t.Logf("the rest goes on by proofs alone: %v", settled(left))
	startAgain(l, left, victims)
}

// stopped: a process that is stopped for long is removed, and returns.
func stopped(l *lab, ps []*proc, victim *proc, d time.Duration) {
	victim.signal(syscall.SIGSTOP)
	pass(d)
	if d > 5*time.Second {
		l.t.Logf("view without the stopped one after %v more", l.settled(without(ps, []*proc{victim})...))
	}
	victim.signal(syscall.SIGCONT)
	l.t.Logf("all are in one view %v after it goes on", l.settled(ps...))
}

// parted: the majority continues, the minority holds no lease, and after the heal there
// is one cluster.
func parted(l *lab, minority, majority []*proc, how func(a, b []*proc) []string) {
	l.wall(append(how(minority, majority), how(majority, minority)...)...)
	l.t.Logf("the majority goes on after %v", l.settled(majority...))
	l.until(lately, "the minority stops", func() bool { return !minority[0].leased() && !minority[1].leased() })
	pass(2 * time.Second)
	for _, p := range minority {
		if p.leased() {
			l.t.Errorf("%s holds a lease in the minority", p.spec.Addr)
		}
	}
	l.wall()
	l.t.Logf("one cluster %v after the healing", l.settled(append(majority, minority...)...))
}

// comingAndGoing (A38): the leader leaves as it is cut off, with one that dies and
// rejoins; on the other side one leaves and returns. In the end all are in one view.
func comingAndGoing(l *lab, ps []*proc) {
	a, b := ps[:2], ps[2:]
	l.wall(append(dropped(a, b), dropped(b, a)...)...)
	ps[0].signal(syscall.SIGUSR1)
	ps[4].signal(syscall.SIGUSR1)
	ps[1].kill()
	ps[1] = l.start(ps[1].host, ps[1].spec)
	l.t.Logf("the majority goes on after %v", l.settled(b...))
	for _, p := range a {
		if p.leased() {
			l.t.Errorf("%s holds a lease in the minority", p.spec.Addr)
		}
	}
	l.wall()
	l.t.Logf("one cluster %v after the healing", l.settled(ps...))
}

// oneWay: the views of the meantime do not matter; in the end all are in one.
func oneWay(l *lab, ps []*proc, rules []string) {
	l.wall(rules...)
	lone := ps[0]
	if strings.HasPrefix(rules[0], "ip saddr "+ips(ps[4:])) {
		lone = ps[4]
	}
	others := without(ps, []*proc{lone})
	l.t.Logf("the others go on after %v", l.settled(others...))
	l.until(lately, "the lone one stops", func() bool { return !lone.leased() })
	l.wall()
	l.t.Logf("all are in one view %v after the healing", l.settled(ps...))
}

// indirect: all reach the leader, so all stay, and keep their leases (doc.go).
func indirect(l *lab, ps []*proc) {
	l.wall(append(dropped(ps[3:4], ps[4:]), dropped(ps[4:], ps[3:4])...)...)
	epoch := ps[0].standing().Epoch
	pass(10 * time.Second) // longer than connections live without an acknowledgement
	l.settled(ps...)
	if now := ps[0].standing().Epoch; now != epoch {
		l.t.Logf("view %v became %v", epoch, now)
	}
	l.wall()
	l.settled(ps...)
}

// noDatagrams: only memberlist uses UDP, and membership does not depend on it.
func noDatagrams(l *lab, ps []*proc) {
	l.wall("meta l4proto udp drop")
	epoch := ps[0].standing().Epoch
	pass(5 * time.Second)
	l.settled(ps...)
	l.t.Logf("view %v became %v", epoch, ps[0].standing().Epoch)
	killed(l, ps, ps[:1])
}

// lossy: membership still changes, however slowly.
func lossy(l *lab, ps []*proc) {
	l.wall("numgen random mod 5 == 0 drop")
	pass(5 * time.Second)
	ps[1].kill()
	left := without(ps, ps[1:2])
	l.until(lately, "the dead is in no view", func() bool {
		return !slices.ContainsFunc(left, func(p *proc) bool { return p.standing() == nil || p.standing().Member(ps[1].id()) != nil })
	})
	l.wall()
	l.t.Logf("all others are in one view %v after the last loss", l.settled(left...))
}
