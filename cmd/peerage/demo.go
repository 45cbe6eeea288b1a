package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/clock"
)

// demoConfig holds the flags of `peerage demo`.
type demoConfig struct {
	nodes    int
	counters int
	shards   int
	every    time.Duration
	warmUp   time.Duration
	between  time.Duration
	atOnce   bool
	enforce  bool
	keep     bool
}

func (c *demoConfig) validate() error {
	var errs []error
	if c.nodes < 2 || c.nodes > 9 {
		errs = append(errs, fmt.Errorf("--nodes is %d: choose 2 to 9", c.nodes))
	}
	if c.counters < 1 || c.counters > 10_000 {
		errs = append(errs, fmt.Errorf("--counters is %d: choose 1 to 10000", c.counters))
	}
	if c.shards < 1 || c.shards > 4096 {
		errs = append(errs, fmt.Errorf("--shards is %d: choose 1 to 4096", c.shards))
	}
	if c.every < time.Millisecond || c.every > time.Second {
		errs = append(errs, fmt.Errorf("--every is %v: choose 1ms to 1s", c.every))
	}
	for name, d := range map[string]time.Duration{"warm-up": c.warmUp, "between": c.between} {
		if d < 100*time.Millisecond || d > 20*time.Second {
			errs = append(errs, fmt.Errorf("--%s is %v: choose 100ms to 20s", name, d))
		}
	}
	return errors.Join(errs...)
}

const demoUsage = `usage: peerage demo [flags]

Starts node processes on 127.0.0.1 that ask counters on each other, kills all processes
but one with SIGKILL, and shows which process takes each counter over. Prints a verdict.
Exit code 0 if no counter ever had two live instances, every counter answered after the
kills, and every request is accounted for.

`

func demo(args []string, stdout, stderr io.Writer) int {
	var cfg demoConfig
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, demoUsage); flags.PrintDefaults() }
	flags.IntVar(&cfg.nodes, "nodes", 5, "number of processes to start")
	flags.IntVar(&cfg.counters, "counters", 64, "number of counters to ask")
	flags.IntVar(&cfg.shards, "shards", 64, "number of shards of the counters")
	flags.DurationVar(&cfg.every, "every", 10*time.Millisecond, "interval of the asks to each counter")
	flags.DurationVar(&cfg.warmUp, "warm-up", 3*time.Second, "time before the first kill")
	flags.DurationVar(&cfg.between, "between", 2*time.Second, "time after each kill")
	flags.BoolVar(&cfg.atOnce, "at-once", false, "kill all but one at the same instant, not one after another")
	flags.BoolVar(&cfg.enforce, "enforce-bounds", false, "fail when an answer takes longer than the advertised bound (300 ms, 500 ms for an emergency takeover)")
	flags.BoolVar(&cfg.keep, "keep", false, "keep the recorded histories and print their directory")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if err := cfg.validate(); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// However the run hangs, it ends within a minute.
	ctx, cancel := context.WithTimeout(ctx, 55*time.Second)
	defer cancel()
	return runDemo(ctx, cfg, stdout, stderr)
}

func runDemo(ctx context.Context, cfg demoConfig, stdout, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "peerage-demo-")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if cfg.keep {
		fmt.Fprintln(stdout, "histories are kept in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	c := &demoCluster{cfg: cfg, dir: dir}
	defer c.stop()
	screen := newScreen(stdout, c)
	defer screen.close()

	kills, err := c.script(ctx, screen)
	screen.close()
	if err != nil {
		if context.Cause(ctx) != nil {
			err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		fmt.Fprintln(stderr, "demo:", err)
		return exitFailed
	}
	survivor := c.survivor()
	c.stop()
	v, err := c.verdict(kills, survivor)
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return exitFailed
	}
	return v.print(stdout, cfg)
}

// kill is one disturbance: the processes that were killed at one instant.
type kill struct {
	names []string
	at    clock.Instant
	// emergency is set when no majority of the view survived the kill.
	emergency bool
}

// demoCluster is the processes of one run.
type demoCluster struct {
	cfg demoConfig
	dir string

	mu    sync.Mutex // the screen looks on
	nodes []*process
}

// started returns the processes started so far, the most senior first.
func (c *demoCluster) started() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[:len(c.nodes):len(c.nodes)]
}

// script is the demo's story: start, warm up, kill, let the survivor serve.
func (c *demoCluster) script(ctx context.Context, screen *screen) ([]kill, error) {
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	screen.event("%d nodes are up: asking %d counters every %v", c.cfg.nodes, c.cfg.counters, c.cfg.every)
	if err := c.settle(ctx, c.cfg.nodes); err != nil {
		return nil, err
	}
	if err := pause(ctx, c.cfg.warmUp); err != nil {
		return nil, err
	}
	var kills []kill
	for left := c.cfg.nodes; left > 1; {
		n := 1
		if c.cfg.atOnce {
			n = left - 1
		}
		k, err := c.killSenior(n, left)
		if err != nil {
			return nil, err
		}
		kills = append(kills, k)
		screen.event("SIGKILL: %v", k.names)
		left -= n
		if err := c.settle(ctx, left); err != nil {
			return nil, err
		}
		screen.event("failover: %d left, agreed and holding leases %v after the kill", left, clock.Boot().Now().Sub(k.at).Round(time.Millisecond))
		if err := pause(ctx, c.cfg.between); err != nil {
			return nil, err
		}
	}
	return kills, nil
}

func (c *demoCluster) start(ctx context.Context) error {
	args := []string{"--load-counters", strconv.Itoa(c.cfg.counters), "--shards", strconv.Itoa(c.cfg.shards),
		"--min-members", strconv.Itoa(c.cfg.nodes), "--load-every", c.cfg.every.String()}
	list, err := freeAddrs(slices.Repeat([]string{"127.0.0.1"}, c.cfg.nodes)...)
	if err != nil {
		return err
	}
	args = append(args, "--join", strings.Join(list, ",")) // the same for all
	for i, addr := range list {
		name := string(rune('a' + i))
		p, err := startAt(name, filepath.Join(c.dir, name+".history"), addr, func(*exec.Cmd) {}, args...)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.nodes = append(c.nodes, p)
		c.mu.Unlock()
		if err := p.waitReady(ctx); err != nil {
			return err
		}
	}
	if err := c.settle(ctx, c.cfg.nodes); err != nil {
		return err
	}
	return c.orderBySeniority(ctx)
}

// orderBySeniority puts the processes in the order in which they have joined.
func (c *demoCluster) orderBySeniority(ctx context.Context) error {
	first, _ := c.nodes[0].snapshot()
	body, err := fetch(ctx, http.MethodGet, "http://"+first.HTTP+"/status")
	if err != nil {
		return err
	}
	var s peerage.Status
	if err := json.Unmarshal(body, &s); err != nil || s.View == nil {
		return fmt.Errorf("%s answers, but not like a member: %v", first.HTTP, err)
	}
	place := map[string]int{}
	for i, m := range s.View.Members {
		place[m.Name] = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.SortedFunc(slices.Values(c.nodes), func(a, b *process) int { return place[a.name] - place[b.name] })
	return nil
}

// settle waits until every living node sees exactly n members and holds a lease.
func (c *demoCluster) settle(ctx context.Context, n int) error {
	for {
		settled := true
		for _, p := range c.nodes {
			r, alive := p.snapshot()
			if !alive {
				continue
			}
			select {
			case <-p.gone:
				return p.failure()
			default:
			}
			settled = settled && r.Members == n && r.Lease
		}
		if settled {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until all of %d nodes see each other: %w", n, err)
		}
	}
}

// killSenior kills the n most senior of the left living nodes at one instant.
func (c *demoCluster) killSenior(n, left int) (kill, error) {
	k := kill{emergency: 2*(left-n) < left || left == 2}
	var victims []*process
	for _, p := range c.nodes {
		if _, alive := p.snapshot(); alive && len(victims) < n {
			victims = append(victims, p)
			k.names = append(k.names, p.name)
		}
	}
	k.at = clock.Boot().Now()
	for _, p := range victims {
		if err := p.kill(); err != nil {
			return k, fmt.Errorf("killing %s: %w", p.name, err)
		}
	}
	return k, nil
}

// survivor returns the newest report of the process that was not killed.
func (c *demoCluster) survivor() report {
	for _, p := range c.nodes {
		if r, alive := p.snapshot(); alive {
			return r
		}
	}
	return report{}
}

// stop ends every process that still runs. It may be called again.
func (c *demoCluster) stop() {
	for _, p := range c.nodes {
		p.stop(5 * time.Second)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
