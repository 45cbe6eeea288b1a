package peeragetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
)

// Cluster is the nodes of one test, and the network between them. S is the type of
// Node.Service. Start makes it; it ends with the test. Its methods are safe for concurrent
// use, but those that can end the test must be called from the test's goroutine.
type Cluster[S any] struct {
	t       testing.TB
	start   func(context.Context, peerage.Config) (*peerage.Node, S, error)
	network *peerage.Network
	links   *links
	names   *hosts
	virtual bool
	// seeds feeds the nodes, choices the test.
	seeds, choices *rand.Rand
	// list are the contact points of all nodes: the nodes with which the cluster starts.
	list []string
	// ending ends the goroutines of KeepCalling with the test.
	ending  chan struct{}
	callers sync.WaitGroup

	mu sync.Mutex
	// nodes has the newest node of each name, in the order of their first start.
	nodes []*Node[S]
}

// Start starts a cluster of n nodes, a, b, c, and so on, and waits until they are ready. It
// calls start once for each node, one after the other, and again at each Add and Restart.
//
// start returns the node that it has started with cfg, and what the test needs of it. It
// may change cfg: set roles or a DataDir, for example, by cfg.Name. Of these settings it
// must leave Network, Name, Listen, Join, Resolver and Bootstrap as they are. The other
// settings of cfg are those of peerage.TestConfig, with Strict on and a Logger that keeps
// the last lines for the report of a failure.
//
// With n = 0 the cluster is empty: Add then starts one node after the other. The test fails
// immediately if a node does not start, or if the nodes are not ready within a minute. When
// the test ends, all nodes are closed.
func Start[S any](t testing.TB, n int, start func(ctx context.Context, cfg peerage.Config) (*peerage.Node, S, error)) *Cluster[S] {
	t.Helper()
	seed := chooseSeed(t)
	network := peerage.NewNetwork(seed)
	c := &Cluster[S]{
		t: t, start: start, network: network, links: newLinks(network), names: newHosts(),
		seeds: newRand(seed, 1), choices: newRand(seed, 2), virtual: inBubble(), ending: make(chan struct{}),
	}
	for i := range max(n, 1) {
		c.list = append(c.list, nameOf(i)+":"+port)
		c.names.addName(nameOf(i), addrOf(i))
	}
	t.Cleanup(c.endTest)
	for range n {
		c.Add()
	}
	c.WaitReady()
	return c
}

// port is the port of all nodes.
const port = "7101"

// nameOf returns the name of the node with index i: a to z, then a1 and so on.
func nameOf(i int) string {
	name := string(rune('a' + i%26))
	if i >= 26 {
		name += fmt.Sprint(i / 26)
	}
	return name
}

// addrOf returns the address of the node with index i.
func addrOf(i int) string { return fmt.Sprintf("10.0.%d.%d:%s", i/250, i%250+1, port) }

// Add starts one more node, with the next name. It does not wait until the node is ready:
// see WaitReady. The contact points of the node are those of all nodes: the names of the
// nodes that Start started.
func (c *Cluster[S]) Add() *Node[S] {
	c.t.Helper()
	c.mu.Lock()
	i := len(c.nodes)
	c.mu.Unlock()
	n := &Node[S]{c: c, Name: nameOf(i), Addr: addrOf(i), logs: newRing()}
	c.names.addName(n.Name, n.Addr)
	c.links.addHost(n.Addr)
	c.startNode(n, i == 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, n)
	return n
}

// startNode starts the process of n.
func (c *Cluster[S]) startNode(n *Node[S], bootstrap bool) {
	c.t.Helper()
	cfg := peerage.TestConfig()
	cfg.Network, cfg.Name, cfg.Listen = c.network, n.Name, n.Addr
	cfg.Join, cfg.BootstrapExpect, cfg.Bootstrap = slices.Clone(c.list), len(c.list)/2+1, bootstrap
	cfg.Resolver, cfg.Logger, cfg.Strict = c.names, n.logs.logger(), true
	c.mu.Lock()
	cfg.Seed = c.seeds.Uint64() | 1
	c.mu.Unlock()
	var err error
	if n.Node, n.Service, err = c.start(c.t.Context(), cfg); err != nil {
		c.t.Fatalf("peeragetest: node %s does not start: %v", n.Name, err)
	}
}

// Nodes returns the nodes that run, in the order of their first start: those that were not
// crashed, stopped, drained or closed. Nodes that are paused or cut off are among them.
func (c *Cluster[S]) Nodes() []*Node[S] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node[S]) bool { return !n.runs() })
}

// Node returns the newest node of a name, whether it runs or not. The test fails
// immediately if there was never one.
func (c *Cluster[S]) Node(name string) *Node[S] {
	c.t.Helper()
	c.mu.Lock()
	i := slices.IndexFunc(c.nodes, func(n *Node[S]) bool { return n.Name == name })
	c.mu.Unlock()
	if i < 0 {
		c.t.Fatalf("peeragetest: there is no node %q", name)
	}
	return c.all()[i]
}

// all returns the newest node of each name.
func (c *Cluster[S]) all() []*Node[S] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Network returns the network between the nodes, for faults that the Cluster does not
// offer. Cut, Slow, Split and Heal set all paths anew.
func (c *Cluster[S]) Network() *peerage.Network { return c.network }

// Rand returns the source of random numbers that the seed feeds, for choices of the test. It
// must not be used concurrently.
func (c *Cluster[S]) Rand() *rand.Rand { return c.choices }

// endTest closes all nodes when the test ends.
func (c *Cluster[S]) endTest() {
	close(c.ending)
	c.callers.Wait()
	nodes := c.all()
	if c.t.Failed() {
		for _, n := range nodes {
			c.t.Logf("peeragetest: the last log lines of node %s:\n%s", n.Name, n.logs)
		}
	}
	for _, n := range nodes {
		if n.Node == nil {
			continue
		}
		if err := n.Close(); err != nil && !n.crashed.Load() {
			c.t.Errorf("peeragetest: closing node %s: %v", n.Name, err)
		}
	}
	if c.virtual {
		// memberlist's Shutdown does not wait for its probes, and a bubble for none.
		<-time.After(time.Minute)
	}
}
