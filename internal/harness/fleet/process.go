package fleet

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
)

// Process is a node process that this one started.
type Process struct {
	Name    string
	History string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  tail
	log     *os.File // what was written to standard error

	mu       sync.Mutex
	last     harness.Report
	Ids      map[uint64]bool // every incarnation that the process has had
	ready    chan struct{}   // closed when the addresses are set
	Gone     chan struct{}   // closed when the process was waited for
	killedAt clock.Instant   // zero while it lives
	waitErr  error
	// readyURL is where a process of a service answers whether it is ready, "" for a node.
	readyURL string
	costs    []CostAt
}

// CostAt is what a process had taken at an instant.
type CostAt struct {
	At clock.Instant
	harness.Cost
}

// Costs returns what the process had taken, at the instants of its reports.
func (p *Process) Costs() []CostAt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.costs)
}

// Start runs this program again as a node, after prepare has changed the command.
// The child ends when its standard input closes, so it never outlives this process,
// however this process ends.
func Start(name, file, listen string, prepare func(*exec.Cmd), args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{
		Name: name, History: file,
		Ids: map[uint64]bool{}, ready: make(chan struct{}), Gone: make(chan struct{}),
	}
	args = append([]string{"node", "--name", name, "--listen", listen, "--http", "127.0.0.1:0",
		"--print-addresses", "--print-stats", "50ms", "--until-stdin-closes", "--history", p.History, "--log", "info"}, args...)
	p.cmd = exec.Command(self, args...)
	p.cmd.Env = childEnv(os.Environ())
	if err := p.keepLog(strings.TrimSuffix(file, filepath.Ext(file)) + LogExt); err != nil {
		return nil, err
	}
	p.cmd.SysProcAttr = ChildAttr()
	prepare(p.cmd)
	p.stdin, err = p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.follow(out)
	return p, nil
}

// childEnv returns the environment without the variables that are settings of a node: the
// child has its own.
func childEnv(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return strings.HasPrefix(v, "PEERAGE_") })
}

// LogExt ends the names of the files with the logs of processes.
const LogExt = ".log"

// keepLog writes what the process writes to standard error to a file, beside its tail in memory.
func (p *Process) keepLog(name string) (err error) {
	p.log, err = os.Create(name)
	p.cmd.Stderr = io.MultiWriter(&p.stderr, p.log)
	return err
}

func (p *Process) follow(out io.Reader) {
	err := harness.ReadReports(out, p.got)
	waitErr := p.cmd.Wait()
	p.log.Close()
	p.mu.Lock()
	if p.waitErr = waitErr; err != nil {
		p.waitErr = err
	}
	p.mu.Unlock()
	close(p.Gone)
}

func (p *Process) got(r harness.Report) {
	var id uint64
	if _, err := fmt.Sscanf(r.Node, "%x", &id); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Ids[id] = true
	if r.Kind == "ready" {
		p.last = r
		close(p.ready)
		return
	}
	r.Listen, r.HTTP = p.last.Listen, p.last.HTTP
	p.last = r
	if r.Cost != nil {
		p.costs = append(p.costs, CostAt{clock.Boot().Now(), *r.Cost})
	}
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process with SIGKILL and notes when.
func (p *Process) Kill() error {
	p.mu.Lock()
	p.killedAt = clock.Boot().Now()
	p.mu.Unlock()
	return p.cmd.Process.Kill()
}

// Snapshot returns the newest report, and whether the process was not killed.
func (p *Process) Snapshot() (harness.Report, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.killedAt == 0
}

// Stop asks the process to end in order, and kills it if it does not within d.
func (p *Process) Stop(d time.Duration) {
	if p.readyURL != "" {
		_ = p.stopService(d) // it has ended in either case
		return
	}
	p.stdin.Close()
	select {
	case <-p.Gone:
	case <-time.After(d):
		// Ignore Kill's result: the process has ended when Wait returns.
		_ = p.cmd.Process.Kill()
		<-p.Gone
	}
}

// Finish ends the process in order, and fails if it did not end well.
func (p *Process) Finish() error {
	if p.readyURL != "" {
		return p.stopService(harness.StopPatience + 5*time.Second)
	}
	p.Stop(harness.StopPatience + 5*time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waitErr != nil {
		return fmt.Errorf("%s did not end in order: %w\n%s", p.Name, p.waitErr, p.stderr.String())
	}
	return nil
}

// OfService reports whether the process is of a service, which reports nothing by itself.
func (p *Process) OfService() bool { return p.readyURL != "" }

// Hold stops the process where it is.
func (p *Process) Hold() error { return hold(p.cmd.Process) }

// Release lets a held process go on.
func (p *Process) Release() error { return release(p.cmd.Process) }

// Failure describes a process that ended by itself.
func (p *Process) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("node %s ended: %v\n%s", p.Name, p.waitErr, p.stderr.String())
}

// WaitReady waits until the process listens.
func (p *Process) WaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.Gone:
		return p.Failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitForReadiness polls /readyz until it reports readiness.
func (p *Process) WaitForReadiness(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, SettlePatience)
	defer cancel()
	r, _ := p.Snapshot()
	url := cmp.Or(p.readyURL, "http://"+r.HTTP+"/readyz")
	for {
		_, err := harness.Fetch(ctx, "GET", url)
		if err == nil {
			return nil
		}
		if harness.Pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%s never became ready: %w", p.Name, err)
		}
	}
}

func (p *Process) waitedFor() bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}

// ids returns the incarnations of the process.
func (p *Process) NodeIDs() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []uint64
	for id := range p.Ids {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// command writes a line to the standard input of the process.
func (p *Process) command(line string) error {
	_, err := io.WriteString(p.stdin, line)
	return err
}

// tail keeps the last part of the bytes that are written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// SettlePatience bounds how long processes may take to agree.
const SettlePatience = 30 * time.Second
