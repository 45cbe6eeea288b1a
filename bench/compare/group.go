package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// killAfter is how long entities are watched before a process is killed.
const killAfter = 3 * time.Second

// systems are the commands of a node, without its arguments.
var systems = map[string]func() ([]string, error){
	"raw":        self("raw"),
	"peerage":    self("peerage"),
	"protoactor": self("protoactor"),
	"pekko":      pekkoCommand,
}

func self(name string) func() ([]string, error) {
	return func() ([]string, error) {
		exe, err := os.Executable()
		return []string{exe, "node", name}, err
	}
}

// commonPool gives the pool that completes the answers of asks two threads. By default it has one
// thread less than processors, and below two it is replaced by a thread for each task.
const commonPool = "-Djava.util.concurrent.ForkJoinPool.common.parallelism=2"

// pekko is the directory with the Java program, beside the working directory.
const pekko = "pekko"

var pekkoBuild = sync.OnceValues(func() (classpath string, err error) {
	mvn := exec.Command("mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath")
	mvn.Dir = pekko
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn in %s: %w\n%s", pekko, err, out)
	}
	b, err := os.ReadFile(filepath.Join(pekko, "target", "classpath"))
	return filepath.Join(pekko, "target", "classes") + ":" + strings.TrimSpace(string(b)), err
})

func pekkoCommand() ([]string, error) {
	classpath, err := pekkoBuild()
	return []string{"java", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", commonPool, "-cp", classpath, "compare.Main"}, err
}

func removeBuilt() {
	// What Maven has built; if it stays, it does no harm.
	_ = os.RemoveAll(filepath.Join(pekko, "target"))
}

// process is a node.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	listen  string
}

// group is a cluster of processes of one system.
type group struct{ nodes []*process }

// startGroup starts one process for each role, and waits until all are ready.
func startGroup(ctx context.Context, name string, roles []string) (*group, error) {
	command, err := systems[name]()
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(2 * len(roles))
	if err != nil {
		return nil, err
	}
	listen, aux := addrs[:len(roles)], addrs[len(roles):]
	g := &group{}
	for i, role := range roles {
		args := append(command[1:len(command):len(command)], role, listen[i], strings.Join(listen, ","), strings.Join(aux, ","))
		p := &process{cmd: exec.CommandContext(ctx, command[0], args...), listen: listen[i]}
		if err := p.start(); err != nil {
			g.end()
			return nil, err
		}
		g.nodes = append(g.nodes, p)
	}
	for _, p := range g.nodes {
		if r, err := p.next(); err != nil || !r.Ready {
			g.end()
			return nil, fmt.Errorf("a node did not become ready: %w", err)
		}
	}
	return g, nil
}

// freeAddrs returns addresses whose ports were free a moment ago.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (p *process) start() error {
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	p.cmd.Stderr = os.Stderr
	p.answers = bufio.NewScanner(out)
	return p.cmd.Start()
}

// do sends a command and waits for its result.
func (p *process) do(line string) (result, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return result{}, err
	}
	return p.next()
}

func (p *process) next() (r result, err error) {
	for p.answers.Scan() {
		// Libraries print to the standard output, too.
		line := p.answers.Bytes()
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return r, fmt.Errorf("%q: %w", line, err)
		}
		if r.Error != "" {
			return r, errors.New(r.Error)
		}
		return r, nil
	}
	if err := p.answers.Err(); err != nil {
		return r, err
	}
	return r, errors.New("the process has ended")
}

// kill sends SIGKILL. A process that has ended by itself is dead, too.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// end kills all and waits for them.
func (g *group) end() {
	for _, p := range g.nodes {
		p.kill()
	}
	for _, p := range g.nodes {
		_ = p.cmd.Wait() // killed
	}
}

// metered is do with the processor time of all processes meanwhile.
func (g *group) metered(p *process, line string) (f figure, err error) {
	before, err := g.cpu()
	if err != nil {
		return f, err
	}
	if f.result, err = p.do(line); err != nil {
		return f, err
	}
	after, err := g.cpu()
	f.CPU = after - before
	return f, err
}

// cpu is the user and system time of all processes, in seconds.
func (g *group) cpu() (sum float64, err error) {
	for _, p := range g.nodes {
		proc, err := procfs.NewProc(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		s, err := proc.Stat()
		if err != nil {
			return 0, err
		}
		sum += s.CPUTime()
	}
	return sum, nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
