package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// kill is one disturbance: the processes that were killed at one instant.
type kill struct {
	names []string
	at    clock.Instant
	// emergency is set when no majority of the view survived the kill.
	emergency bool
}

// cluster is the processes of one run.
type cluster struct {
	cfg Config
	dir string
	// release ends the reservation of the addresses, nil without one.
	release func()

	mu    sync.Mutex // the screen looks on
	nodes []*fleet.Process
}

// started returns the processes started so far, the most senior first.
func (c *cluster) started() []*fleet.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[:len(c.nodes):len(c.nodes)]
}

// pids returns the numbers of the processes started so far.
func (c *cluster) pids() (pids []int) {
	for _, p := range c.started() {
		pids = append(pids, p.PID())
	}
	return pids
}

func (c *cluster) start(ctx context.Context) error {
	args := []string{"--load-counters", strconv.Itoa(c.cfg.Counters), "--shards", strconv.Itoa(c.cfg.Shards),
		"--min-members", strconv.Itoa(c.cfg.Nodes), "--load-every", c.cfg.Every.String()}
	list, release, err := fleet.FreeAddrs(slices.Repeat([]string{"127.0.0.1"}, c.cfg.Nodes)...)
	if err != nil {
		return err
	}
	c.release = release
	args = append(args, "--join", strings.Join(list, ",")) // the same for all
	for i, addr := range list {
		name := string(rune('a' + i))
		p, err := fleet.Start(name, filepath.Join(c.dir, name+".history"), addr, func(*exec.Cmd) {}, args...)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.nodes = append(c.nodes, p)
		c.mu.Unlock()
		if err := p.WaitReady(ctx); err != nil {
			return err
		}
	}
	if err := c.settle(ctx, c.cfg.Nodes); err != nil {
		return err
	}
	return c.orderBySeniority(ctx)
}

// orderBySeniority puts the processes in the order in which they have joined.
func (c *cluster) orderBySeniority(ctx context.Context) error {
	first, _ := c.nodes[0].Snapshot()
	body, err := harness.Fetch(ctx, http.MethodGet, "http://"+first.HTTP+"/status")
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
	c.nodes = slices.SortedFunc(slices.Values(c.nodes), func(a, b *fleet.Process) int { return place[a.Name] - place[b.Name] })
	return nil
}

// settle waits until every living node sees exactly n members and holds a lease.
func (c *cluster) settle(ctx context.Context, n int) error {
	for {
		settled := true
		for _, p := range c.nodes {
			r, alive := p.Snapshot()
			if !alive {
				continue
			}
			select {
			case <-p.Gone:
				return p.Failure()
			default:
			}
			settled = settled && r.Members == n && r.Lease
		}
		if settled {
			return nil
		}
		if err := harness.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until all of %d nodes see each other: %w", n, err)
		}
	}
}

// senior returns the n most senior living processes.
func (c *cluster) senior(n int) (out []*fleet.Process) {
	for _, p := range c.nodes {
		if _, alive := p.Snapshot(); alive && len(out) < n {
			out = append(out, p)
		}
	}
	return out
}

// victims returns the names of those that are killed next, of the left living ones.
func (c *cluster) victims(left int) (names []string) {
	for _, p := range c.senior(c.cfg.killedTogether(left)) {
		names = append(names, p.Name)
	}
	return names
}

// killSenior kills the n most senior of the left living nodes at one instant.
func (c *cluster) killSenior(n, left int) (kill, error) {
	k := kill{emergency: 2*(left-n) < left || left == 2}
	victims := c.senior(n)
	for _, p := range victims {
		k.names = append(k.names, p.Name)
	}
	k.at = clock.Boot().Now()
	for _, p := range victims {
		if err := p.Kill(); err != nil {
			return k, fmt.Errorf("killing %s: %w", p.Name, err)
		}
	}
	return k, nil
}

// survivor returns the newest report of the process that was not killed.
func (c *cluster) survivor() harness.Report {
	for _, p := range c.nodes {
		if r, alive := p.Snapshot(); alive {
			return r
		}
	}
	return harness.Report{}
}

// stopNodes ends every process that still runs. It may be called again.
func (c *cluster) stopNodes() {
	for _, p := range c.nodes {
		p.Stop(5 * time.Second)
	}
	if c.release != nil {
		c.release()
	}
}
