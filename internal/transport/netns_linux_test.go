package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// netns is a network namespace without a name: it ends with its last descriptor, however
// the test ends.
type netns struct{ ns *os.File }

// newNetns needs the right to make one; without it the test is skipped.
func newNetns(t *testing.T) *netns {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the program ip (iproute2) to connect network namespaces")
	}
	n := &netns{}
	var err error
	onThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			n.ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
	})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("needs root (CAP_SYS_ADMIN) to make network namespaces")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.ns.Close() })
	n.ip(t, "link set lo up")
	return n
}

// onThread runs f on a thread of its own, which ends with f: changes of the thread affect
// no other goroutine.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		f()
	}()
	<-done
}

// do runs f in the namespace. Sockets that f opens stay in it.
func (n *netns) do(f func()) {
	if n == nil {
		f()
		return
	}
	onThread(func() {
		if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		f()
	})
}

// ip runs the program ip in the namespace.
func (n *netns) ip(t *testing.T, args string) {
	t.Helper()
	var out []byte
	var err error
	n.do(func() { out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput() })
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
}

// dialling returns below, dialling from the namespace.
func (n *netns) dialling(below network) network {
	if n == nil {
		return below
	}
	return &netnsNetwork{below, n}
}

type netnsNetwork struct {
	network
	n *netns
}

func (w *netnsNetwork) dial(ctx context.Context, addr string) (conn net.Conn, err error) {
	w.n.do(func() { conn, err = w.network.dial(ctx, addr) })
	return conn, err
}

// lan is two namespaces with a router between them.
type lan struct {
	t            *testing.T
	a, b, router *netns
}

const (
	lanA = "10.99.1.2"
	lanB = "10.99.2.2"
)

func newLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{t, newNetns(t), newNetns(t), newNetns(t)}
	for i, n := range []*netns{l.a, l.b} {
		l.router.ip(t, fmt.Sprintf("link add r%d type veth peer name eth0 netns /proc/%d/fd/%d", i+1, os.Getpid(), n.ns.Fd()))
		l.router.ip(t, fmt.Sprintf("addr add 10.99.%d.1/24 dev r%d", i+1, i+1))
		l.router.ip(t, fmt.Sprintf("link set r%d up", i+1))
		n.ip(t, fmt.Sprintf("addr add 10.99.%d.2/24 dev eth0", i+1))
		n.ip(t, "link set eth0 up")
		n.ip(t, fmt.Sprintf("route add default via 10.99.%d.1", i+1))
	}
	// A router limits the rate of its ICMP errors, so a dial may get none when other
	// packets are rejected, too: here the limit is off.
	var err error
	l.router.do(func() {
		err = errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/ipv4/icmp_ratemask", []byte("0"), 0))
	})
	if err != nil {
		t.Skipf("needs to route between network namespaces: %v", err)
	}
	return l
}

// rule makes the router treat packets to host in a way: "blackhole" drops them,
// "unreachable" answers with ICMP, "" forwards them.
func (l *lan) rule(host, way string) {
	l.t.Helper()
	if way == "" {
		l.router.ip(l.t, "route flush table main root "+host+"/32")
		return
	}
	l.router.ip(l.t, "route replace "+way+" "+host+"/32")
}

// nodes starts a node on each side.
func (l *lan) nodes() (a, b *node) {
	w := &world{T: l.t, unacked: time.Second, in: l.a}
	// connect returns a router's ICMP error once the kernel gives up.
	patient := func(c *Config) { c.DialTimeout = 3 * w.unacked }
	a = w.make(1, lanA+":0", patient)
	w.in = l.b
	b = w.make(2, lanB+":0", patient)
	a.run()
	b.run()
	a.Learn(b.Self())
	b.Learn(a.Self())
	a.awaitEvent(Connected, Control, 2)
	b.awaitEvent(Connected, Control, 1)
	a.send(b, Message, "x")
	b.send(a, Message, "x")
	a.awaitFrames(1)
	b.awaitFrames(1)
	return a, b
}

// lostTo waits for the event of a connection that the kernel gave up. When the kernel at
// the far end gives up its half, it sends a reset, which passes a cut that is one way.
func (n *node) lostTo(peer *node, t PeerEventType, c Class) {
	n.w.Helper()
	ev := n.awaitEvent(t, c, peer.ID())
	if !errors.Is(ev.Err, syscall.ETIMEDOUT) && (t == Lost || !errors.Is(ev.Err, syscall.ECONNRESET)) {
		n.w.Errorf("%v %v: %v, want ETIMEDOUT", ev.Type, ev.Class, ev.Err)
	}
}

// heal lets everything through again and waits until nodes are connected.
func (l *lan) heal(nodes ...*node) {
	l.t.Helper()
	l.rule(lanA, "")
	l.rule(lanB, "")
	for _, n := range nodes {
		n.await("connected again", func() bool {
			connected := false
			for _, ev := range n.events {
				if ev.Class == Control && (ev.Type == Connected || ev.Type == Lost) {
					connected = ev.Type == Connected
				}
			}
			return connected
		})
	}
}

// A firewall that drops, in kernels and not in a model: both sides give up dialled
// connections within UnackedTimeout of a write, and accepted ones by keep-alives; no event
// indicates a crash; after the heal all connections return. Without TCP_USER_TIMEOUT the
// first would take the kernel a quarter of an hour.
func TestARealDropIsNoticedAndHeals(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the kernel's timers several seconds")
	}
	t.Parallel()
	var both sync.WaitGroup // beside each other, however few tests run in parallel: both only wait
	defer both.Wait()
	for name, cut := range map[string][]string{"both ways": {lanA, lanB}, "one way": {lanA}} {
		play := func(t *testing.T) {
			l := newLAN(t)
			a, b := l.nodes()
			since := time.Now()
			for _, host := range cut {
				l.rule(host, "blackhole")
			}
			a.send(b, Message, "lost?") // one way only, it arrives without an acknowledgement
			b.send(a, Message, "lost")
			a.lostTo(b, Lost, Message)
			b.lostTo(a, Lost, Message)
			t.Logf("written: lost after %v", time.Since(since))
			for _, n := range []struct{ here, there *node }{{a, b}, {b, a}} {
				n.here.lostTo(n.there, Lost, Control) // idle: keep-alives
				n.here.lostTo(n.there, AcceptedLost, Control)
				n.here.lostTo(n.there, AcceptedLost, Message)
				n.here.awaitEvent(DialFailed, Control, n.there.ID())
				if k := n.here.count(Refused, Control) + n.here.count(OtherNode, Control); k != 0 {
					t.Errorf("%d proofs of a crash out of silence: %s", k, n.here.story())
				}
			}
			t.Logf("idle: lost after %v", time.Since(since))
			l.heal(a, b)
			a.send(b, Message, "healed")
			b.await("a frame after the healing", func() bool { return b.frames[len(b.frames)-1] == "1:healed" })
		}
		both.Go(func() { t.Run(name, play) })
	}
}

// "host unreachable" from a router is no proof of a crash, either: ICMP does not end an
// open connection, and the dial that it ends counts as failed, not as refused.
func TestARealRejectByICMPIsNoRefusal(t *testing.T) {
	t.Parallel()
	l := newLAN(t)
	a, b := l.nodes()
	l.rule(lanB, "unreachable")
	if number := b.sever(1, Control, 0); number == 0 {
		t.Fatal("no connection to break")
	}
	a.await("a dial that the router ended", func() bool {
		for _, ev := range a.events {
			if ev.Type == DialFailed && errors.Is(ev.Err, syscall.EHOSTUNREACH) {
				return true
			}
		}
		return false
	})
	if k := a.count(Refused, Control); k != 0 {
		t.Errorf("%d refusals: %s", k, a.story())
	}
	l.heal(a)
}
