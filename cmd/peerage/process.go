package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// process is a node process that the demo started.
type process struct {
	name    string
	history string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  tail

	mu       sync.Mutex
	last     report
	heard    time.Time       // when last came
	ids      map[uint64]bool // every incarnation that the process has had
	ready    chan struct{}   // closed when the addresses are set
	gone     chan struct{}   // closed when the process was waited for
	killedAt clock.Instant   // zero while it lives
	waitErr  error
}

// freeAddrs returns one address of each host at which nothing listens now.
func freeAddrs(hosts ...string) (addrs []string, err error) {
	for _, host := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// startAt runs this program again as a node, after prepare has changed the command.
// The child ends when its standard input closes, so it never outlives this process,
// however this process ends.
func startAt(name, file, listen string, prepare func(*exec.Cmd), args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		name: name, history: file,
		ids: map[uint64]bool{}, ready: make(chan struct{}), gone: make(chan struct{}),
	}
	args = append([]string{"node", "--name", name, "--listen", listen, "--http", "127.0.0.1:0",
		"--print-addresses", "--print-stats", "50ms", "--until-stdin-closes", "--history", p.history, "--log", "warn"}, args...)
	p.cmd = exec.Command(self, args...)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = childAttr()
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

func (p *process) follow(out io.Reader) {
	err := readReports(out, p.got)
	waitErr := p.cmd.Wait()
	p.mu.Lock()
	if p.waitErr = waitErr; err != nil {
		p.waitErr = err
	}
	p.mu.Unlock()
	close(p.gone)
}

func (p *process) got(r report) {
	var id uint64
	if _, err := fmt.Sscanf(r.Node, "%x", &id); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[id] = true
	if r.Kind == "ready" {
		p.last = r
		close(p.ready)
		return
	}
	r.Listen, r.HTTP = p.last.Listen, p.last.HTTP
	p.last, p.heard = r, time.Now()
}

// kill ends the process with SIGKILL and notes when.
func (p *process) kill() error {
	p.mu.Lock()
	p.killedAt = clock.Boot().Now()
	p.mu.Unlock()
	return p.cmd.Process.Kill()
}

func (p *process) snapshot() (report, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.killedAt == 0
}

// lastHeard returns when the process wrote its newest report.
func (p *process) lastHeard() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// stop asks the process to end in order, and kills it if it does not within d.
func (p *process) stop(d time.Duration) {
	p.stdin.Close()
	select {
	case <-p.gone:
	case <-time.After(d):
		// Ignore Kill's result: the process has ended when Wait returns.
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}

// failure describes a process that ended by itself.
func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("node %s ended: %v\n%s", p.name, p.waitErr, p.stderr.String())
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
