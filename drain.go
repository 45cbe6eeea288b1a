package peerage

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// drainage is the single drain of a node, shared by all callers of Drain.
type drainage struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// Drain takes the node out of its cluster in order, and keeps the process running:
//
//  1. Ready becomes false immediately, and the node announces to its peers that it leaves:
//     no shard is placed here from now on.
//  2. The node hands its shards over in bulk, with all messages that wait for them.
//     Senders on all nodes, including this one, keep sending, and their messages do not fail.
//  3. Once Config.LameDuck has passed since the call, the Regions of this node reject
//     new messages with sharding.ErrNodeStopping. Asks sent earlier still get their
//     replies, for at most 5 s.
//  4. The node leaves the view. It does not join again; Close and Shutdown end the rest.
//
// The last node of a cluster stops its entities in order, since no node is left to take its
// shards. A node without a lease waits for one lease time. If it gets no lease, it may not
// hand anything over, and ends.
//
// Drain returns once the node has left. If ctx ends first, Drain returns its error and the
// drain continues. Drain is idempotent: later and concurrent calls wait for the same drain.
// It fails with ErrClosed if the node was closed first, and with gossip.ErrRemoved if the
// cluster removed the node before all shards were handed over.
func (n *Node) Drain(ctx context.Context) error {
	d, err := n.beginDrain()
	if err != nil {
		return err
	}
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Node) beginDrain() (*drainage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drain != nil {
		return n.drain, nil
	}
	if n.closing {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.drain = &drainage{cancel: cancel, done: make(chan struct{})}
	close(n.lame)
	go n.runDrain(ctx, n.drain, n.stack.Load())
	return n.drain, nil
}

// Draining reports whether Drain or Shutdown was called.
func (n *Node) Draining() bool {
	select {
	case <-n.lame:
		return true
	default:
		return false
	}
}

func (n *Node) runDrain(ctx context.Context, d *drainage, s *stack) {
	defer close(d.done)
	defer d.cancel()
	if s != nil {
		d.err = s.leave(ctx, n.cfg.LameDuck)
		s.markLeft(gossip.Removed{Reason: "the node drains"})
	}
	n.registry.Close()
}

// leave takes the incarnation out of the cluster in order.
func (s *stack) leave(ctx context.Context, lameDuck time.Duration) error {
	until := time.Now().Add(lameDuck)
	if !s.regain(ctx) {
		return nil
	}
	s.announce(ctx)
	if err := s.handOver(ctx); err != nil {
		return err
	}
	serve := time.NewTimer(clock.Ahead(time.Until(until)))
	defer serve.Stop()
	select {
	case <-serve.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.node.registry.Close()
	answers, done := context.WithTimeout(ctx, answersPatience)
	s.sharding.WaitAnswered(answers)
	done()
	return s.gossip.Leave(ctx)
}

// answersPatience is how long a drain waits for replies to asks that this node has sent.
const answersPatience = 5 * time.Second

// regainPatience is the least time for which regain waits.
const regainPatience = time.Second

// regain waits for up to the duration of a lease until a lapsed lease is valid again. It
// returns false if no lease will come.
func (s *stack) regain(ctx context.Context) bool {
	if s.gossip.LeaseValid() {
		return true
	}
	if s.gossip.View() == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, max(s.gossip.Config().Lease, regainPatience))
	defer cancel()
	return poll(ctx, s.gossip.LeaseValid)
}

// announce announces the leave of this node to its peers, and waits up to announcePatience until
// the view shows it. Coordination then moves to another node before shards begin to move.
// If no such view arrives, the drain begins all the same.
func (s *stack) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	s.gossip.AnnounceLeave()
	self := s.gossip.Self().ID
	poll(ctx, func() bool {
		v := s.gossip.View()
		m := v.Member(self)
		return m == nil || m.Status == gossip.Leaving
	})
}

const announcePatience = 250 * time.Millisecond

// poll waits until ok returns true, or ctx ends. It returns whether ok returned true.
func poll(ctx context.Context, ok func() bool) bool {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// readyz answers readiness probes; see Handler.
func (n *Node) readyz(w http.ResponseWriter, _ *http.Request) {
	if n.Ready() {
		writeText(w, "ready\n")
		return
	}
	http.Error(w, "not ready: "+n.unready(), http.StatusServiceUnavailable)
}

// unready returns the reasons why the node is not ready, in words.
func (n *Node) unready() string {
	s := n.stack.Load()
	switch {
	case n.Draining():
		return "draining"
	case n.isClosing():
		return "closed"
	case s == nil:
		return n.outage.inWords()
	case s.fileConflict.Load() != nil:
		return s.fileConflict.Load().inWords()
	case !s.viewed.Load():
		return n.outage.inWords()
	case !s.gossip.LeaseValid():
		return "the node has no valid lease"
	}
	if f := s.contested(); len(f) > 0 {
		return fmt.Sprintf("another cluster of the same name exists (%016x): this one %s", f[0].Cluster, inWords(f[0].Verdict))
	}
	var waits []string
	if s.gossip.KeysDiffer() {
		waits = append(waits, "its SecretKeys differ from those of more than half of the other members; the log names these members")
	}
	if role := s.diskFailing(); role != "" {
		waits = append(waits, fmt.Sprintf("the disk of the durable keys of role %q fails", role))
	}
	for _, t := range s.sharding.Status() {
		switch {
		case t.Registered || t.Unregistered:
		case t.Refused != "":
			waits = append(waits, fmt.Sprintf("the coordinator rejects type %q: %s", t.Type, t.Refused))
		case t.Coordinator == 0:
			waits = append(waits, fmt.Sprintf("type %q: no member has its role, %q", t.Type, t.Role))
		default:
			waits = append(waits, fmt.Sprintf("type %q has not registered with its coordinator yet", t.Type))
		}
	}
	return strings.Join(waits, "; ")
}
