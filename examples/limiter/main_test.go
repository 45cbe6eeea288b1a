package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/peeragetest"
)

// passed sends requests of a client to all running nodes in turn, and returns how many pass.
func passed(t *testing.T, c *peeragetest.Cluster[*buckets], client string, requests int) (n int) {
	t.Helper()
	nodes := c.Nodes()
	for i := range requests {
		if allowRequest(t.Context(), nodes[i%len(nodes)].Service, client) {
			n++
		}
	}
	return n
}

// All nodes together let the burst pass, then the rate.
func TestTheLimitHoldsOverAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startLimiter)
		for _, client := range []string{"ada", "bob"} {
			if n := passed(t, c, client, 60); n != burst {
				t.Errorf("%s: %d requests passed, want %d", client, n, burst)
			}
		}
		<-time.After(time.Second) // virtual
		if n := passed(t, c, "ada", 60); n != perSecond {
			t.Errorf("a second later %d requests passed, want %d", n, perSecond)
		}
	})
}

// A bucket that moves in an orderly leave takes its tokens along. After a crash it is full:
// one more burst passes for each crash, no more.
func TestACrashCostsOneBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startLimiter)
		for i := range 20 {
			passed(t, c, fmt.Sprint("client", i), burst)
		}
		c.Node("a").Stop()
		for i := range 20 {
			if n := passed(t, c, fmt.Sprint("client", i), burst); n > 1 { // the move takes a moment
				t.Errorf("client%d: %d more requests passed after an orderly leave", i, n)
			}
		}
		c.Node("b").Crash()
		full := 0
		for i := range 20 {
			switch n := passed(t, c, fmt.Sprint("client", i), 2*burst); {
			case n > burst+1:
				t.Errorf("client%d: %d more requests passed after a crash, the burst is %d", i, n, burst)
			case n >= burst:
				full++
			}
		}
		if full == 0 || full == 20 {
			t.Errorf("%d of 20 buckets were full after the crash of one of two nodes", full)
		}
		c.AssertSingleInstance()
	})
}

// Without its cluster, a node lets requests pass.
func TestACutNodeLetsRequestsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startLimiter)
		c.Node("a").Cut()
		<-time.After(2 * time.Second) // virtual: its lease ends
		if !allowRequest(t.Context(), c.Node("a").Service, "ada") {
			t.Error("a request at a node without lease was refused")
		}
	})
}

func TestTheExampleRuns(t *testing.T) {
	if code := trio.Main("limiter", startLimiter, sendRequests); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
