package peeragetest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

const (
	// patience bounds waits without a bound of their own.
	patience = time.Minute
	// pollEvery is the pause between two checks of a condition.
	pollEvery = time.Millisecond
)

// WaitUntil checks ok every millisecond until it returns true. The test fails immediately
// if that takes longer than within; what names the condition in the failure, for example
// "the cart answers".
func (c *Cluster[S]) WaitUntil(within time.Duration, what string, ok func() bool) {
	c.t.Helper()
	c.waitFor(within, ok, func() string { return what })
}

// waitFor fails with what describe returns at the end.
func (c *Cluster[S]) waitFor(within time.Duration, ok func() bool, describe func() string) {
	c.t.Helper()
	for began := time.Now(); !ok(); <-time.After(pollEvery) {
		if time.Since(began) > within {
			c.fail("not within %v: %s", within, describe())
		}
	}
}

// WaitReady waits until all nodes that run are ready and have one view, of them alone. The
// test fails immediately if that takes more than a minute. Before it is called, heal what
// cuts a node off.
func (c *Cluster[S]) WaitReady() {
	c.t.Helper()
	c.waitFor(patience, c.isReady, func() string { return "all running nodes are ready, in one view of them alone" })
}

func (c *Cluster[S]) isReady() bool {
	nodes := c.Nodes()
	var first *gossip.View
	for i, n := range nodes {
		v := n.View()
		if v == nil || !n.Ready() || len(v.Members) != len(nodes) {
			return false
		}
		if i == 0 {
			first = v
		}
		if v.Epoch != first.Epoch {
			return false
		}
	}
	return true
}

// WaitConverged waits until read returns equal values on all nodes that run, by
// reflect.DeepEqual, and returns the value. It is meant for replicated data, and for
// anything else that nodes agree on in the end. The test fails immediately if that takes
// longer than within; the failure lists what each node had, or the error of its read.
func WaitConverged[S, V any](c *Cluster[S], within time.Duration, what string, read func(n *Node[S]) (V, error)) V {
	c.t.Helper()
	var value V
	var seen []string
	equal := func() bool {
		seen = nil
		same := true
		for i, n := range c.Nodes() {
			v, err := read(n)
			if i == 0 {
				value = v
			}
			same = same && err == nil && reflect.DeepEqual(v, value)
			seen = append(seen, fmt.Sprintf("\n  %s: %s", n.Name, inWords(v, err)))
		}
		return same
	}
	c.waitFor(within, equal, func() string { return what + " is equal on all nodes:" + strings.Join(seen, "") })
	return value
}

func inWords(v any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%+v", v)
}

// fail ends the test with the state of all nodes.
func (c *Cluster[S]) fail(format string, args ...any) {
	c.t.Helper()
	var b strings.Builder
	for _, n := range c.all() {
		fmt.Fprintf(&b, "\n  node %s", n.inOneLine())
	}
	c.t.Fatalf("peeragetest: "+format+"\nThe nodes:%s", append(args, b.String())...)
}

// inOneLine returns the state of a node in one line.
func (n *Node[S]) inOneLine() string {
	if n.crashed.Load() {
		return n.Name + " (" + n.Addr + ") has crashed"
	}
	st := n.Status()
	text := fmt.Sprintf("%s (%s) is ready", n.Name, n.Addr)
	if !st.Ready {
		text = fmt.Sprintf("%s (%s) is not ready: %s", n.Name, n.Addr, st.NotReady)
	}
	text += "; lease: " + st.Lease.String()
	if st.View == nil {
		return text + "; no view"
	}
	var names []string
	for _, m := range st.View.Members {
		names = append(names, m.Name)
	}
	return fmt.Sprintf("%s; view %v of %s", text, st.View.Epoch, strings.Join(names, ", "))
}
