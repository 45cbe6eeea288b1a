package membership

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// lab runs node processes and keeps their logs.
type lab struct {
	t     *testing.T
	clock clock.Clock
	// net is nil when the nodes share the loopback interface.
	net   *network
	procs []*proc
	// parted is set if the scenario leads to two lineages: leases of both sides overlap,
	// and only the end is checked.
	parted bool
}

// proc is a node process, or what is left of it.
type proc struct {
	lab  *lab
	spec nodeSpec
	host *netns
	cmd  *exec.Cmd
	// stdin is held open: the process ends with it, however this one ends.
	stdin interface{ Close() error }
	read  chan struct{}
	tail  tail

	mu  sync.Mutex
	log []record
	// The state of the last records.
	node gossip.NodeID
	over string
	view *gossip.View
	last record
	// killed is when it was killed, clock.Never before.
	killed clock.Instant
}

// tail keeps the end of a process's log, for failures.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytesMax = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if extra := len(t.buf) - tailBytesMax; extra > 0 {
		t.buf = slices.Delete(t.buf, 0, extra)
	}
	return len(b), nil
}

// lines returns the last lines that are not memberlist's.
func (t *tail) lines(most int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.DeleteFunc(strings.Split(string(t.buf), "\n"), func(s string) bool { return strings.Contains(s, "memberlist: ") })
	return strings.Join(all[max(0, len(all)-most):], "\n")
}

// newLab returns a lab that ends with the test; all processes are compared then.
func newLab(t *testing.T, net *network) *lab {
	l := &lab{t: t, clock: clock.Boot(), net: net}
	t.Cleanup(l.close)
	return l
}

func (l *lab) close() {
	for _, p := range l.procs {
		p.accuse()
		p.kill()
	}
	found := contradictions(l.histories())
	if !l.parted {
		for i, text := range found {
			if i == 10 {
				l.t.Errorf("and %d more", len(found)-i)
				break
			}
			l.t.Error(text)
		}
	}
	if l.t.Failed() {
		l.t.Log(l.describe())
	}
	if l.net != nil {
		l.net.close()
	}
}

func (l *lab) histories() []history {
	var out []history
	for i, p := range l.procs {
		p.mu.Lock()
		out = append(out, history{fmt.Sprintf("%d %s", i, p.spec.Addr), slices.Clone(p.log), p.killed})
		p.mu.Unlock()
	}
	return out
}

func (l *lab) describe() string {
	var b strings.Builder
	now := l.clock.Now()
	for i, p := range l.procs {
		p.mu.Lock()
		fmt.Fprintf(&b, "%d %s node %v", i, p.spec.Addr, p.node)
		if p.killed != clock.Never {
			fmt.Fprintf(&b, " killed %v ago", now.Sub(p.killed))
		}
		if p.view != nil {
			fmt.Fprintf(&b, " cluster %x view %v of %d, lease held %v until %v from now", p.view.Cluster, p.view.Epoch, len(p.view.Members), p.last.Held, p.last.Lease.Until.Sub(now))
		}
		p.mu.Unlock()
		fmt.Fprintf(&b, "\n%s\n", p.tail.lines(15))
	}
	return b.String()
}

// start starts a process. host is where, nil for here.
func (l *lab) start(host *netns, spec nodeSpec) *proc {
	l.t.Helper()
	p := &proc{lab: l, spec: spec, host: host, read: make(chan struct{}), killed: clock.Never}
	text, _ := json.Marshal(spec)
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = append(os.Environ(), nodeEnv+"="+string(text))
	p.cmd.Stderr = &p.tail
	// Even a stopped process must not outlive the test.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	p.stdin = in
	if err := host.run(p.cmd.Start); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			p.take(lines.Bytes())
		}
	}()
	l.procs = append(l.procs, p)
	return p
}

// take handles a line of a process's log; a truncated one is ignored.
func (p *proc) take(line []byte) {
	var r record
	if json.NewDecoder(bytes.NewReader(line)).Decode(&r) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, r)
	switch r.Event {
	case recordStart:
		p.node, p.over, p.view = r.Node, "", nil
	case recordLease:
		p.last = r
	case recordView:
		p.view = r.View
	case recordOver:
		p.node, p.over, p.view = 0, r.Why, nil
	}
}

// kill kills the process, if it lives, and waits for its end.
func (p *proc) kill() {
	p.mu.Lock()
	lives := p.killed == clock.Never
	if lives {
		p.killed = p.lab.clock.Now()
	}
	p.mu.Unlock()
	if !lives {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.read
	_ = p.cmd.Wait() // the error is that of the kill
	_ = p.stdin.Close()
}

// accuse fails the test if the process ended by itself, or raced.
func (p *proc) accuse() {
	p.mu.Lock()
	lives := p.killed == clock.Never
	p.mu.Unlock()
	select {
	case <-p.read:
		if lives {
			p.lab.t.Errorf("%s ended by itself:\n%s", p.spec.Addr, p.tail.lines(60))
		}
	default:
	}
	if text := p.tail.lines(1 << 20); strings.Contains(text, "DATA RACE") {
		p.lab.t.Errorf("%s:\n%s", p.spec.Addr, text)
	}
}

func (p *proc) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.lab.t.Error(err)
	}
}

// standing returns the view of the process's living incarnation.
func (p *proc) standing() *gossip.View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

// leased reports whether the process holds a lease by its log.
func (p *proc) leased() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Held && p.last.Node == p.node && p.last.Lease.Valid(p.lab.clock.Now())
}

func (p *proc) id() gossip.NodeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// until polls a condition; most is generous: TestFigures measures times, where nothing
// else runs.
func (l *lab) until(most time.Duration, what string, ok func() bool) time.Duration {
	l.t.Helper()
	return eventually(l.t, most, what, ok)
}

// lately bounds every wait.
const lately = 40 * time.Second

// settled waits until exactly ps are in one view, all up and with a lease.
func (l *lab) settled(ps ...*proc) time.Duration {
	l.t.Helper()
	return l.until(lately, fmt.Sprintf("one view of %d", len(ps)), func() bool { return settled(ps) })
}

func settled(ps []*proc) bool {
	v := ps[0].standing()
	if v == nil || len(v.Members) != len(ps) {
		return false
	}
	for _, p := range ps {
		w := p.standing()
		if w == nil || w.Cluster != v.Cluster || w.Epoch != v.Epoch || !p.leased() {
			return false
		}
		if m := v.Member(p.id()); m == nil || m.Status != gossip.Up {
			return false
		}
	}
	return true
}

// bySeniority returns ps, the leader first.
func bySeniority(ps []*proc) []*proc {
	v := ps[0].standing()
	rank := func(p *proc) int {
		return slices.IndexFunc(v.Members, func(m gossip.Member) bool { return m.ID == p.id() })
	}
	out := slices.Clone(ps)
	slices.SortFunc(out, func(a, b *proc) int { return rank(a) - rank(b) })
	return out
}

// form starts n processes at the same time, waits until all are in one view, and returns
// them by seniority.
func (l *lab) form(n int, evidence gossip.CrashEvidence) []*proc {
	l.t.Helper()
	addrs, hosts := l.places(n)
	for i, a := range addrs {
		l.start(hosts[i], nodeSpec{Addr: a, Contacts: addrs, Evidence: evidence})
	}
	took := l.settled(l.procs...)
	l.t.Logf("%d processes stand in one view after %v", n, took)
	return bySeniority(l.procs)
}

// places returns where n nodes live.
func (l *lab) places(n int) (addrs []string, hosts []*netns) {
	l.t.Helper()
	if l.net == nil {
		return freeAddrs(l.t, n), make([]*netns, n)
	}
	addrs, hosts, err := l.net.places(n)
	if err != nil {
		l.t.Fatal(err)
	}
	return addrs, hosts
}

// onThread runs f on a thread of its own, so that f may change the thread's state; f must
// restore it, or the thread ends.
func onThread(f func() (restored bool, err error)) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		restored, err := f()
		if restored {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
