package transport

import (
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func nodeID(i int) gossip.NodeID { return gossip.NodeID(i) }

func TestValidateReportsAllProblems(t *testing.T) {
	err := Config{
		Settings:         map[string]string{"": "x"},
		Message:          classLimits{FrameBytesMax: 100, QueueBytesMax: 100},
		HandshakeTimeout: -1,
		BackoffMin:       time.Minute,
		PeersMax:         -1,
	}.Validate()
	for _, want := range []string{"ID is zero", "Name", "Cluster", "Settings", "message: QueueBytesMax 100", "HandshakeTimeout -1ns", "BackoffMax 1s is below BackoffMin 1m0s", "PeersMax -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q in:\n%v", want, err)
		}
	}
	if err := (Config{ID: 1, Name: "a", Cluster: "c"}).Validate(); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

func TestBackoffGrowsToItsLimit(t *testing.T) {
	for _, spread := range []uint64{0, 1, 12345} {
		if d := backoff(10*time.Millisecond, time.Second, 0, spread); d != 0 {
			t.Errorf("the first attempt waits for %v", d)
		}
		for n, most := range map[int]time.Duration{1: 10 * time.Millisecond, 2: 20 * time.Millisecond, 7: 640 * time.Millisecond,
			8: time.Second, 60: time.Second, 1 << 40: time.Second} {
			d := backoff(10*time.Millisecond, time.Second, n, spread)
			if d > most || d < most*3/4 {
				t.Errorf("after %d setbacks: %v, want %v less up to a quarter", n, d, most)
			}
		}
	}
}

func TestForgottenNodesAreABoundedNumber(t *testing.T) {
	var table peerTable
	table.initTable(&Config{ForgottenMax: 3}, nil)
	for id := gossip.NodeID(1); id <= 5; id++ {
		table.remember(id)
		table.remember(id)
	}
	for id := gossip.NodeID(1); id <= 5; id++ {
		if got, want := table.isForgotten(id), id > 2; got != want {
			t.Errorf("node %d forgotten: %v, want %v", id, got, want)
		}
	}
	if len(table.forgotten) != 3 {
		t.Errorf("%d are remembered", len(table.forgotten))
	}
}

func TestKnownNodesAreABoundedNumber(t *testing.T) {
	w := &world{T: t}
	a := w.make(1, "", func(c *Config) { c.PeersMax = 2 })
	for i := range 5 {
		a.Learn(Peer{ID: nodeID(i), Addr: "127.0.0.1:1"}) // the zero NodeID and the node itself do not count
	}
	if n := a.Counters().Peers.Load(); n != 2 {
		t.Errorf("%d known", n)
	}
	a.Learn(Peer{ID: 2, Addr: "127.0.0.1:2"}) // never reached at the learnt address
	if addr, n := a.e.peers.peerOf(2).Addr, a.Counters().Peers.Load(); addr != "127.0.0.1:2" || n != 2 {
		t.Errorf("a node is looked for at %s, %d known", addr, n)
	}
	a.e.peers.peerOf(2).reached.Store(true)
	a.Learn(Peer{ID: 2, Addr: "127.0.0.1:3"})
	if addr := a.e.peers.peerOf(2).Addr; addr != "127.0.0.1:2" {
		t.Errorf("a node that was reached changed its address to %s", addr)
	}
}

func TestEveryLabelIsItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for r := range drops {
		if s := r.String(); s == "" || seen["drop "+s] {
			t.Errorf("drop reason %d is %q", r, s)
		} else {
			seen["drop "+s] = true
		}
	}
	for f := range failures {
		if s := f.String(); s == "" || seen["failure "+s] {
			t.Errorf("failure %d is %q", f, s)
		} else {
			seen["failure "+s] = true
		}
	}
}
