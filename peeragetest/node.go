package peeragetest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage"
)

// Node is one node of a Cluster, from its start to its end; Restart makes a new one of the
// same name. The methods of peerage.Node are its own: Drain, Registry, Data, Status, and so
// on.
type Node[S any] struct {
	*peerage.Node
	// Service is what the function of Start returned beside the node.
	Service S
	// Name is the node's name, "a" for the first. Addr is its address in the network.
	Name, Addr string

	c       *Cluster[S]
	logs    *ring
	crashed atomic.Bool
	closed  atomic.Bool
}

// Crash ends the node's process as SIGKILL does: its connections end, dials are refused,
// and none of its messages leave. Handlers that run are cut short: their Context ends. A
// crash of a node that does not run has no effect.
func (n *Node[S]) Crash() {
	if !n.runs() {
		return
	}
	n.logs.logStep("the test crashes this node")
	n.crashed.Store(true)
	n.c.network.Crash(n.Addr)
	n.c.callers.Go(func() { _ = n.Close() }) // frees its goroutines; no peer receives anything
}

// Restart starts a new process of the same name, at the same address. A node that still
// runs crashes first. It returns the new node, and does not wait until it is ready.
func (n *Node[S]) Restart() *Node[S] {
	n.c.t.Helper()
	n.Crash()
	_ = n.Close() // its files must be free
	next := &Node[S]{c: n.c, Name: n.Name, Addr: n.Addr, logs: n.logs}
	n.logs.logStep("the test starts this node again")
	n.c.startNode(next, false)
	n.c.replace(next)
	return next
}

// replace makes n the newest node of its name.
func (c *Cluster[S]) replace(n *Node[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, old := range c.nodes {
		if old.Name == n.Name {
			c.nodes[i] = n
		}
	}
}

// Stop ends the node in order, as a service does at SIGTERM: Shutdown, within a minute. The
// test fails immediately if the node could not hand everything over.
func (n *Node[S]) Stop() {
	n.c.t.Helper()
	n.logs.logStep("the test stops this node")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.c.t.Context()), patience)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		n.c.fail("node %s does not stop in order: %v", n.Name, err)
	}
	_ = n.Close()
}

// Close is peerage.Node.Close: the process ends without handing anything over, but its peers
// receive a goodbye.
func (n *Node[S]) Close() error {
	n.closed.Store(true)
	return n.Node.Close()
}

// runs reports whether the node was neither crashed nor ended.
func (n *Node[S]) runs() bool {
	return !n.crashed.Load() && !n.closed.Load() && !n.Draining()
}

// Pause stops the node's traffic, as SIGSTOP does, until Resume: nothing is read, written or
// accepted, while its kernel keeps accepting connections and bytes. The node's own timers
// and handlers keep running; no process in memory can be stopped as a whole.
func (n *Node[S]) Pause() {
	n.logs.logStep("the test pauses this node")
	n.c.network.Pause(n.Addr)
}

// Resume ends Pause.
func (n *Node[S]) Resume() {
	n.logs.logStep("the test resumes this node")
	n.c.network.Resume(n.Addr)
}

// Cut drops all traffic between this node and the given ones, both ways, until
// Cluster.Heal. Without arguments it cuts this node off from all nodes, also from
// those that start later.
func (n *Node[S]) Cut(others ...*Node[S]) {
	n.logs.logStep("the test cuts this node off")
	if len(others) == 0 {
		n.c.links.cutOff(n.Addr)
	}
	for _, o := range others {
		n.c.links.cutPair(n.Addr, o.Addr)
	}
}

// Slow delays all messages to and from this node by latency, each way; 0 ends it. Of two
// slow nodes the slower one counts.
func (n *Node[S]) Slow(latency time.Duration) {
	n.logs.logStep("the test sets the latency of this node to " + latency.String())
	n.c.links.slowDown(n.Addr, latency)
}

// Split cuts the network between groups of nodes until Heal. Nodes in no group reach all.
func (c *Cluster[S]) Split(groups ...[]*Node[S]) {
	for i, group := range groups {
		others := slices.Concat(groups[i+1:]...)
		for _, n := range group {
			if len(others) > 0 {
				n.Cut(others...)
			}
		}
	}
}

// Heal ends all cuts. Slow nodes stay slow.
func (c *Cluster[S]) Heal() { c.links.openAll() }
