package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
)

// childEnv carries a childSpec; a process that finds it set is a child process.
const childEnv = "PEERAGE_BENCH_MEMBERSHIP"

// childSpec is the role of a child process: a node at an address, or a burner.
type childSpec struct {
	Addr     string
	Contacts []string
	Burn     bool
	// Idle is set if only the node's own cost counts.
	Idle bool
}

// Kinds of report.
const (
	reportView    = "view"
	reportLease   = "lease"
	reportRemoved = "removed"
	reportStats   = "stats"
)

// report is one line that a node process writes.
type report struct {
	Kind string
	Time time.Time
	Node string
	// Members is the number of members of a view, Leader its leader.
	Members int    `json:",omitempty"`
	Epoch   string `json:",omitempty"`
	// Valid, of a lease.
	Valid  bool   `json:",omitempty"`
	Leader bool   `json:",omitempty"`
	Why    string `json:",omitempty"`
	// Counters of the process, over all its incarnations.
	Stats counted `json:",omitzero"`
}

// counted are counters of one process.
type counted struct {
	// Suspicions are memberlist's, Proofs our own of death; Back those taken back.
	Suspicions, Refutations, Proofs, Back, LeaseLost uint64
	// Standstill is the longest time that a timer of 20 ms came late: how long the
	// machine let the process wait.
	Standstill time.Duration
	// Sent counts the bytes that the node has sent to its peers: frames, datagrams and
	// memberlist's streams, without IP headers. CPU is the process's time.
	Sent uint64
	CPU  time.Duration
}

func (c *counted) addCounts(o counted) {
	c.Suspicions += o.Suspicions
	c.Refutations += o.Refutations
	c.Proofs += o.Proofs
	c.Back += o.Back
	c.LeaseLost += o.LeaseLost
	c.Sent += o.Sent
	c.Standstill = max(c.Standstill, o.Standstill)
}

// runChild is a child process; it ends with its standard input.
func runChild(text string) {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if spec.Burn {
		burn()
	}
	c := &child{spec: spec, out: json.NewEncoder(os.Stdout)}
	if !spec.Idle {
		go c.watchTimers()
	}
	for {
		c.live()
		<-time.After(rejoinAfter)
	}
}

// burn uses one core.
func burn() {
	for x := uint64(1); x != 0; {
		x = x*6364136223846793005 + 1
	}
}

// rejoinAfter is the pause between incarnations, as of package peerage.
const rejoinAfter = 200 * time.Millisecond

// child is a node process.
type child struct {
	spec childSpec

	mu         sync.Mutex
	out        *json.Encoder
	standstill time.Duration
	former     counted
}

// live is one incarnation: default settings but for addresses.
func (c *child) live() {
	n, err := membership.Start(context.Background(), membership.Config{
		Listen: c.spec.Addr, Join: c.spec.Contacts,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		c.writeReport(report{Kind: reportRemoved, Why: err.Error()})
		return
	}
	over := make(chan struct{})
	n.Subscribe(func(ev membership.Event) {
		c.onEvent(n, ev)
		if _, last := ev.(gossip.Removed); last {
			close(over)
		}
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for living := true; living; {
		select {
		case <-tick.C:
			c.stats(n, false)
		case <-over:
			living = false
		}
	}
	_ = n.Close()
	c.stats(n, true)
}

func (c *child) onEvent(n *membership.Node, ev membership.Event) {
	r := report{Node: n.Self().ID.String()}
	switch ev := ev.(type) {
	case gossip.ViewChanged:
		r.Kind, r.Members, r.Epoch = reportView, len(ev.View.Members), ev.View.Epoch.String()
	case gossip.LeaseChanged:
		r.Kind, r.Valid, r.Leader = reportLease, ev.Valid, ev.Leader
	case gossip.Removed:
		r.Kind, r.Why, r.Epoch = reportRemoved, ev.Reason, ev.Epoch.String()
	default:
		return
	}
	c.writeReport(r)
}

func (c *child) stats(n *membership.Node, last bool) {
	s := n.Stats()
	now := counted{Suspicions: s.Suspicions, Refutations: s.Refutations, Back: s.EvidenceBack, LeaseLost: s.LeaseLost}
	for _, proofs := range s.Evidence {
		now.Proofs += proofs
	}
	now.Sent = s.StreamOut.Bytes + n.Transport().Counters().PacketBytesSent.Load()
	for i := range n.Transport().Counters().Class {
		now.Sent += n.Transport().Counters().Class[i].BytesSent.Load()
	}
	c.mu.Lock()
	now.Standstill = c.standstill
	now.addCounts(c.former)
	now.CPU = processTime()
	if last {
		c.former = now
	}
	c.mu.Unlock()
	c.writeReport(report{Kind: reportStats, Node: n.Self().ID.String(), Stats: now})
}

func (c *child) writeReport(r report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Time = time.Now()
	if c.out.Encode(r) != nil {
		os.Exit(1) // the parent has gone
	}
}

// watchTimers measures how late timers come.
func (c *child) watchTimers() {
	const every = 20 * time.Millisecond
	for {
		began := time.Now()
		<-time.After(every)
		late := time.Since(began) - every
		c.mu.Lock()
		c.standstill = max(c.standstill, late)
		c.mu.Unlock()
	}
}
