package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// tally runs the child processes and counts what they report.
type tally struct {
	nodes int
	procs []*proc

	mu    sync.Mutex
	begun bool
	began time.Time
	sum   summary
	// views holds the epochs that lacked a member, so that each counts once.
	views map[string]bool
}

// proc is a child process.
type proc struct {
	spec  childSpec
	cmd   *exec.Cmd
	stdin io.Closer
	gone  chan struct{}
	// Of a node, guarded by the tally's mu.
	members   int
	epoch     string
	valid     bool
	leads     bool
	pausedAt  time.Time
	stats     counted
	before    counted
	stopping  bool
	isBurning bool
}

// summary is the result.
type summary struct {
	Nodes, Burners int
	Seconds        float64
	// Removed counts incarnations that were removed, ShortViews views that lacked a
	// living node, Ended processes that ended by themselves: all are false.
	Removed, ShortViews, Ended int
	// Pauses counts times that a node's lease was not valid, PauseLongest the longest;
	// LeaderChanges counts the times that the leader's lease passed to another node.
	Pauses        int
	PauseLongest  time.Duration
	LeaderChanges int
	// Suspicions are memberlist's; Proofs are proofs of death, ProofsBack withdrawn proofs.
	Suspicions, Refutations, Proofs, ProofsBack, LeaseLost uint64
	// Standstill is the longest delay of a node's timer, over all nodes since their start.
	Standstill time.Duration
	// MemberSent and LeaderSent are bytes per second that a node sent, on average and the
	// leader; MemberCPU and LeaderCPU shares of a core.
	MemberSent, LeaderSent, MemberCPU, LeaderCPU float64
	// Busy is the share of all cores' time that was not idle; 0 where unknown.
	Busy, LoadMean, LoadMost float64
	Reasons                  []string `json:",omitempty"`
}

// row is the line of the table in bench/README.md.
func (s *summary) row() string {
	return fmt.Sprintf("| %d nodes, %v, %.1f %% busy, load %.0f (most %.0f) | removals %d | short views %d | pauses %d (longest %v) | suspicions %d | proofs %d (%d taken back) | latest timer %v |\n",
		s.Nodes, (time.Duration(s.Seconds * float64(time.Second))).Round(time.Second), 100*s.Busy, s.LoadMean, s.LoadMost,
		s.Removed, s.ShortViews, s.Pauses, s.PauseLongest.Round(time.Millisecond), s.Suspicions, s.Proofs, s.ProofsBack, s.Standstill.Round(time.Millisecond))
}

// restRow is a line about what membership costs at rest.
func (s *summary) restRow() string {
	served := float64(max(s.Nodes-1, 1))
	return fmt.Sprintf("| %d nodes, %v, load %.1f | a member sends %.2f KB/s, %.2f %% of a core | the leader sends %.2f KB/s, %.2f for each member served, %.2f %% of a core |\n",
		s.Nodes, (time.Duration(s.Seconds * float64(time.Second))).Round(time.Second), s.LoadMean,
		s.MemberSent/1000, 100*s.MemberCPU, s.LeaderSent/1000, s.LeaderSent/1000/served, 100*s.LeaderCPU)
}

func newTally(nodes int) *tally { return &tally{nodes: nodes, views: map[string]bool{}} }

// startChild starts this program again as a child.
func (t *tally) startChild(spec childSpec) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, _ := json.Marshal(spec)
	p := &proc{spec: spec, cmd: exec.Command(self), gone: make(chan struct{}), isBurning: spec.Burn}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if spec.Burn {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=2") // one burns, one sees the end of stdin
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	t.mu.Lock()
	t.procs = append(t.procs, p)
	t.mu.Unlock()
	go t.followOutput(p, out)
	return nil
}

func (t *tally) followOutput(p *proc, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			t.took(p, r)
		}
	}
	err := p.cmd.Wait()
	t.mu.Lock()
	if !p.stopping {
		t.sum.Ended++
		t.why("a process ended: %v", err)
	}
	t.mu.Unlock()
	close(p.gone)
}

// took counts a report.
func (t *tally) took(p *proc, r report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Kind {
	case reportView:
		p.members, p.epoch = r.Members, r.Epoch
		if t.begun && r.Members < t.nodes && !t.views[r.Epoch] {
			t.views[r.Epoch] = true
			t.sum.ShortViews++
			t.why("%s: a view of %d, %s", r.Time.Format(time.TimeOnly), r.Members, r.Epoch)
		}
	case reportLease:
		t.lease(p, r)
	case reportRemoved:
		p.members, p.epoch, p.valid = 0, "", false
		if t.begun && !p.stopping {
			t.sum.Removed++
			t.why("%s: %s removed: %s", r.Time.Format(time.TimeOnly), cmp.Or(r.Node, p.spec.Addr), r.Why)
		}
	case reportStats:
		p.stats = r.Stats
	}
}

func (t *tally) lease(p *proc, r report) {
	switch {
	case p.valid && !r.Valid:
		p.pausedAt = r.Time
		if t.begun {
			t.sum.Pauses++
			t.why("%s: %s paused", r.Time.Format(time.TimeOnly), r.Node)
		}
	case !p.valid && r.Valid && !p.pausedAt.IsZero():
		t.sum.PauseLongest = max(t.sum.PauseLongest, r.Time.Sub(p.pausedAt))
		p.pausedAt = time.Time{}
	}
	if t.begun && r.Valid && r.Leader {
		t.sum.LeaderChanges++
	}
	p.valid, p.leads = r.Valid, r.Valid && r.Leader
}

// reasonsMax bounds the number of reasons in the result.
const reasonsMax = 40

func (t *tally) why(format string, args ...any) {
	if len(t.sum.Reasons) < reasonsMax {
		t.sum.Reasons = append(t.sum.Reasons, fmt.Sprintf(format, args...))
	}
}

// allSettled reports whether all nodes have the same view of all nodes, each with a lease.
func (t *tally) allSettled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	epochs := map[string]bool{}
	for _, p := range t.procs {
		if p.isBurning {
			continue
		}
		if p.members != t.nodes || !p.valid {
			return false
		}
		epochs[p.epoch] = true
	}
	return len(epochs) == 1
}

// beginMeasuring discards everything counted so far.
func (t *tally) beginMeasuring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
	t.begun, t.sum = true, summary{Reasons: t.sum.Reasons, Ended: t.sum.Ended}
	for _, p := range t.procs {
		p.before = p.stats
	}
}

// summary returns what was counted since begin.
func (t *tally) summary() summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sum
	s.Reasons = slices.Clone(s.Reasons)
	seconds, members := max(time.Since(t.began).Seconds(), 1e-9), 0
	for _, p := range t.procs {
		s.Suspicions += p.stats.Suspicions - p.before.Suspicions
		s.Refutations += p.stats.Refutations - p.before.Refutations
		s.Proofs += p.stats.Proofs - p.before.Proofs
		s.ProofsBack += p.stats.Back - p.before.Back
		s.LeaseLost += p.stats.LeaseLost - p.before.LeaseLost
		s.Standstill = max(s.Standstill, p.stats.Standstill)
		sent, cpu := float64(p.stats.Sent-p.before.Sent)/seconds, (p.stats.CPU-p.before.CPU).Seconds()/seconds
		switch {
		case p.isBurning:
		case p.leads:
			s.LeaderSent, s.LeaderCPU = sent, cpu
		default:
			s.MemberSent, s.MemberCPU, members = s.MemberSent+sent, s.MemberCPU+cpu, members+1
		}
		if !p.pausedAt.IsZero() {
			s.PauseLongest = max(s.PauseLongest, time.Since(p.pausedAt))
		}
	}
	if members > 0 {
		s.MemberSent, s.MemberCPU = s.MemberSent/float64(members), s.MemberCPU/float64(members)
	}
	return s
}

// stopChildren ends all children and waits for them.
func (t *tally) stopChildren() {
	t.mu.Lock()
	for _, p := range t.procs {
		p.stopping = true
	}
	procs := t.procs
	t.mu.Unlock()
	for _, p := range procs {
		_ = p.stdin.Close()
	}
	for _, p := range procs {
		<-p.gone
	}
}

// freeAddrs returns addresses of the loopback interface that were free a moment ago.
func freeAddrs(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}
