package membership

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// figuresEnv names the file that gets the table of figures, in Markdown; without it
// they are not measured. figuresRunsEnv is the number of runs, by default 30.
//
//	PEERAGE_FIGURES=/tmp/membership.md go test -run TestFigures -timeout 1h -v ./internal/membership
const (
	figuresEnv     = "PEERAGE_FIGURES"
	figuresRunsEnv = "PEERAGE_FIGURES_RUNS"
)

// figure is a time that is measured again and again, on new processes each time.
type figure struct {
	name  string
	goal  string
	nodes int
	once  func(l *lab, n int) time.Duration
	// walls is set if every node is a host of its own, behind a firewall.
	walls bool
}

func figures() []figure {
	var out []figure
	for n, goal := range map[int]string{3: "at most 1 s", 10: "at most 2 s", 30: "at most 4 s"} {
		out = append(out, figure{"forming", goal, n, formingTime, false})
	}
	for _, n := range []int{3, 5, 10} {
		const goal = "p50 <= 60 ms, p99 <= 200 ms"
		out = append(out,
			figure{"SIGKILL member", goal, n, func(l *lab, n int) time.Duration { return killTime(l, n, 1, 2) }, false},
			figure{"SIGKILL leader", goal, n, func(l *lab, n int) time.Duration { return killTime(l, n, 0, 1) }, false},
			figure{"SIGKILL n-1", goal, n, func(l *lab, n int) time.Duration { return killTime(l, n, 0, n-1) }, false})
	}
	out = append(out,
		figure{"SIGSTOP member", "at most 2.3 s", 5, func(l *lab, n int) time.Duration { return stopTime(l, n, 1) }, false},
		figure{"SIGSTOP leader", "at most 3.3 s", 5, func(l *lab, n int) time.Duration { return stopTime(l, n, 0) }, false})
	out = append(out, wallFigures()...)
	slices.SortStableFunc(out, func(a, b figure) int { return cmp.Or(cmp.Compare(a.name, b.name), a.nodes-b.nodes) })
	return out
}

// TestFigures measures the times of membership, with real processes on the loopback
// interface, one figure at a time. It asserts nothing, since the times depend on the
// machine.
func TestFigures(t *testing.T) {
	path := os.Getenv(figuresEnv)
	if path == "" {
		t.Skip("set " + figuresEnv + " to the file for the table; it takes half an hour")
	}
	runs := 30
	if text := os.Getenv(figuresRunsEnv); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	table := tableHead(runs)
	for _, f := range figures() {
		t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(f.name, " ", "_"), f.nodes), func(t *testing.T) {
			var all []time.Duration
			for i := range runs {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					var net *network
					if f.walls {
						needNetwork(t)
						net = &network{}
					}
					all = append(all, f.once(newLab(t, net), f.nodes))
				})
			}
			row := f.row(all)
			t.Log(row)
			table += row
			if err := os.WriteFile(path, []byte(table), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func tableHead(runs int) string {
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%d runs each, new processes in each, all on one machine with %d cores, %s, at a load of %s before; "+
		"until every survivor stands in the new view, up and with a lease.\n\n"+
		"| | nodes | p50 | p90 | p99 | most | wanted |\n|---|---|---|---|---|---|---|\n",
		runs, runtime.NumCPU(), runtime.Version(), strings.Join(strings.Fields(string(load))[:3], " "))
}

func (f figure) row(all []time.Duration) string {
	slices.Sort(all)
	at := func(percent int) string {
		i := max((len(all)*percent+99)/100-1, 0)
		return all[i].Round(100 * time.Microsecond).String()
	}
	if len(all) == 0 {
		return fmt.Sprintf("| %s | %d | failed | | | | |\n", f.name, f.nodes)
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s |\n", f.name, f.nodes, at(50), at(90), at(99), at(100), f.goal)
}

// formingTime is from the start of the first process to one view of all.
func formingTime(l *lab, n int) time.Duration {
	began := l.clock.Now()
	ps := l.form(n, gossip.EvidenceFull)
	return since(ps, began, func(v *gossip.View) bool { return len(v.Members) == n })
}

// killTime is from the kill of those with seniority first to last-1 to a view of the
// rest.
func killTime(l *lab, n, first, last int) time.Duration {
	ps := l.form(n, gossip.EvidenceFull)
	pass(time.Second) // as in the middle of a life
	began := l.clock.Now()
	for _, p := range ps[first:last] {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range ps[first:last] {
		p.kill()
	}
	left := without(ps, ps[first:last])
	l.settled(left...)
	return since(left, began, func(v *gossip.View) bool { return len(v.Members) == len(left) })
}

// stopTime is from the stop of one to a view of the rest.
func stopTime(l *lab, n, which int) time.Duration {
	ps := l.form(n, gossip.EvidenceFull)
	pass(time.Second)
	began := l.clock.Now()
	ps[which].signal(syscall.SIGSTOP)
	left := without(ps, ps[which:which+1])
	l.settled(left...)
	return since(left, began, func(v *gossip.View) bool { return len(v.Members) == len(left) })
}

// wallFigures are those of networks that fail: of five nodes, one is cut off, or one is
// killed in a network that is bad for all.
func wallFigures() []figure {
	cut := func(name, goal string, which int, rules func(one, rest []*proc) []string) figure {
		return figure{name, goal, 5, func(l *lab, n int) time.Duration { return cutTime(l, n, which, rules) }, true}
	}
	both := func(how func(a, b []*proc) []string) func(one, rest []*proc) []string {
		return func(one, rest []*proc) []string { return append(how(one, rest), how(rest, one)...) }
	}
	bad := func(name, rule string) figure {
		return figure{name, "", 5, func(l *lab, n int) time.Duration { return badTime(l, n, rule) }, true}
	}
	return []figure{
		cut("DROP member", "at most 2.3 s", 1, both(dropped)),
		cut("DROP leader", "at most 3.3 s", 0, both(dropped)),
		cut("REJECT member", "", 1, both(rejected)),
		cut("REJECT leader", "", 0, both(rejected)),
		cut("one way, member not heard", "at most 2.3 s", 1, dropped),
		bad("SIGKILL member, no UDP", "meta l4proto udp drop"),
		bad("SIGKILL member, 20 % lost", "numgen random mod 5 == 0 drop"),
	}
}

// cutTime is from the moment that one is cut off to a view of the others.
func cutTime(l *lab, n, which int, rules func(one, rest []*proc) []string) time.Duration {
	ps := l.form(n, gossip.EvidenceFull)
	pass(time.Second)
	one, left := ps[which:which+1], without(ps, ps[which:which+1])
	began := l.clock.Now()
	l.wall(rules(one, left)...)
	l.settled(left...)
	return since(left, began, func(v *gossip.View) bool { return len(v.Members) == len(left) })
}

// badTime is from the kill of a member to a view of the others, under a rule that was
// there before.
func badTime(l *lab, n int, rule string) time.Duration {
	ps := l.form(n, gossip.EvidenceFull)
	l.wall(rule)
	pass(2 * time.Second)
	began := l.clock.Now()
	ps[1].kill()
	left := without(ps, ps[1:2])
	out := func(v *gossip.View) bool { return len(v.Members) == len(left) }
	l.until(lately, "the dead is in no view", func() bool { return since(left, began, out) < lately })
	return since(left, began, out)
}

// since returns when the last of ps, which are settled, recorded a wanted view and a lease.
func since(ps []*proc, began clock.Instant, wanted func(*gossip.View) bool) time.Duration {
	var last clock.Instant
	for _, p := range ps {
		p.mu.Lock()
		last = max(last, standsAt(p.log, wanted))
		p.mu.Unlock()
	}
	return last.Sub(began)
}

// standsAt returns when a process first stood in a wanted view with a lease.
func standsAt(log []record, wanted func(*gossip.View) bool) clock.Instant {
	in := false
	var lease record
	for _, r := range log {
		switch r.Event {
		case recordView:
			m := r.View.Member(r.Node)
			in = m != nil && m.Status == gossip.Up && wanted(r.View)
		case recordLease:
			lease = r
		}
		if in && lease.Held && lease.Lease.Valid(r.At) {
			return r.At
		}
	}
	return clock.Never
}
