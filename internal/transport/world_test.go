package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/leakcheck"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(echoEnv); mode != "" {
		echoMain(mode)
		return
	}
	os.Exit(leakcheck.Run(m))
}

// world is where a conformance test runs: on sockets, or in memory and in a
// bubble of virtual time.
type world struct {
	*testing.T
	net          *Network // nil on sockets
	tls          *tls.Config
	certificates *Certificates
	secrets      [][]byte
	unacked      time.Duration
	in           *netns // where the sockets are; nil for the process's own
}

// everywhere runs a test in both worlds.
func everywhere(t *testing.T, test func(w *world)) {
	t.Run("tcp", func(t *testing.T) { test(&world{T: t}) })
	t.Run("memory", func(t *testing.T) { inMemory(t, test) })
}

func inMemory(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(&world{T: t, net: NewNetwork(NetworkConfig{Seed: 1})}) })
}

// node is a transport under test with a record of its events and frames.
type node struct {
	Transport
	e *engine
	w *world

	mu      sync.Mutex
	events  []PeerEvent
	frames  []string // from:payload
	changed chan struct{}
	onFrame func(from gossip.NodeID, payload []byte)
}

func (n *node) ID() gossip.NodeID { return n.Self().ID }

// configure changes a config of a test.
type configure func(*Config)

// make builds a node that has not started. listen may be "".
func (w *world) make(id gossip.NodeID, listen string, with ...configure) *node {
	w.Helper()
	cfg := Config{ID: id, Name: fmt.Sprintf("node-%d", id), Cluster: "test", Settings: map[string]string{"lease": "1s"}}
	if w.net == nil && w.in == nil {
		patient(&cfg) // for a loaded machine
	}
	for _, f := range with {
		f(&cfg)
	}
	n := &node{w: w, changed: make(chan struct{})}
	if w.net == nil {
		var tr *TCP
		var err error
		w.in.do(func() {
			tr, err = NewTCP(TCPConfig{Config: cfg, Listen: listen, TLS: w.tls, Certificates: w.certificates, SharedSecrets: w.secrets, UnackedTimeout: w.unacked})
		})
		if err != nil {
			w.Fatal(err)
		}
		in := w.in.dialling(tr.net)
		tr.dialler.net, tr.datagrams.net = in, in
		n.Transport, n.e = tr, tr.engine
	} else {
		tr, err := w.net.Transport(MemoryConfig{Config: cfg, Listen: listen})
		if err != nil {
			w.Fatal(err)
		}
		n.Transport, n.e = tr, tr.engine
	}
	w.Cleanup(func() {
		if err := n.Close(); err != nil {
			w.Errorf("close: %v", err)
		}
	})
	n.Observe(func(ev PeerEvent) {
		n.note(func() { n.events = append(n.events, ev) })
	})
	take := func(from gossip.NodeID, payload []byte) {
		if n.onFrame != nil {
			n.onFrame(from, payload)
		}
		s := fmt.Sprintf("%d:%s", from, payload)
		n.note(func() { n.frames = append(n.frames, s) })
	}
	n.Handle(KindView, take)
	if w.net != nil { // one world for each of the two ways
		n.HandleBlocks(KindView, func(from gossip.NodeID, frames *Frames) {
			for p, ok := frames.Next(); ok; p, ok = frames.Next() {
				take(from, p)
			}
		})
	}
	return n
}

// start builds a node and starts it.
func (w *world) start(id gossip.NodeID, with ...configure) *node {
	w.Helper()
	n := w.make(id, "", with...)
	n.run()
	return n
}

// pair starts two nodes that have learnt each other and are connected both ways.
func (w *world) pair() (a, b *node) {
	w.Helper()
	a, b = w.start(1), w.start(2)
	a.Learn(b.Self())
	b.Learn(a.Self())
	a.awaitEvent(Connected, Control, 2)
	b.awaitEvent(Connected, Control, 1)
	return a, b
}

func (n *node) run() {
	n.w.Helper()
	if err := n.Start(); err != nil {
		n.w.Fatal(err)
	}
}

func (n *node) note(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// patience is how long a condition may take before a test fails: a fault of the
// program, not of the machine.
const patience = 30 * time.Second

// await blocks until cond, which is called with n.mu, holds.
func (n *node) await(what string, cond func() bool) {
	n.w.Helper()
	if !n.within(patience, cond) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.w.Fatalf("%s: never: %s\nevents: %s\n%d frames, the last: %.200q", n.Self().Name, what, n.story(),
			len(n.frames), n.frames[max(0, len(n.frames)-3):])
	}
}

// within is await with its own patience; it reports whether cond holds.
func (n *node) within(patience time.Duration, cond func() bool) bool {
	late := time.NewTimer(clock.Ahead(patience))
	defer late.Stop()
	for {
		n.mu.Lock()
		ok, changed := cond(), n.changed
		n.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-late.C:
			return false
		}
	}
}

// story prints the newest events. The caller holds mu.
func (n *node) story() string {
	var b strings.Builder
	for _, ev := range n.events[max(0, len(n.events)-20):] {
		fmt.Fprintf(&b, "\n  %v %v node-%d err=%v", ev.Type, ev.Class, ev.Peer.ID, ev.Err)
		if ev.Former != 0 {
			fmt.Fprintf(&b, " former=%d", uint64(ev.Former))
		}
	}
	return b.String()
}

// awaitEvent blocks until an event has come, and returns it.
func (n *node) awaitEvent(t PeerEventType, c Class, peer gossip.NodeID) PeerEvent {
	n.w.Helper()
	var found PeerEvent
	n.await(fmt.Sprintf("%v %v node-%d", t, c, peer), func() bool {
		for _, ev := range n.events {
			if ev.Type == t && ev.Class == c && ev.Peer.ID == peer {
				found = ev
				return true
			}
		}
		return false
	})
	return found
}

// count returns how many events of a kind have come.
func (n *node) count(t PeerEventType, c Class) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.countLocked(t, c)
}

func (n *node) countLocked(t PeerEventType, c Class) int {
	k := 0
	for _, ev := range n.events {
		if ev.Type == t && ev.Class == c {
			k++
		}
	}
	return k
}

// awaitFrames blocks until at least k frames have come.
func (n *node) awaitFrames(k int) []string {
	n.w.Helper()
	n.await(fmt.Sprintf("%d frames", k), func() bool { return len(n.frames) >= k })
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.frames...)
}

// poll blocks until cond holds, looking now and then: for counters.
func (w *world) poll(what string, cond func() bool) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-late:
			w.Fatalf("never: %s", what)
		}
	}
}

// send sends and fails the test on an error.
func (n *node) send(to *node, c Class, payload string) {
	n.w.Helper()
	if err := n.Send(to.ID(), c, KindView, []byte(payload)); err != nil {
		n.w.Fatalf("send %q: %v", payload, err)
	}
}

// ctx returns a context that ends with the test's patience.
func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	return ctx
}
