package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const refusalsAreTold = true

// inquire asks from the namespace.
func (w *netnsNetwork) inquire(ctx context.Context, p Peer, nonce beaconNonce) (q Inquiry) {
	w.n.do(func() { q = w.network.inquire(ctx, p, nonce) })
	return q
}

// nft loads a ruleset in the namespace, in place of all others.
func (n *netns) nft(t *testing.T, rules string) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs the program nft (nftables) for firewalls")
	}
	var out []byte
	var err error
	n.do(func() {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader("flush ruleset\n" + rules + "\n")
		out, err = cmd.CombinedOutput()
	})
	if err != nil {
		t.Fatalf("nft: %v\n%s\n%s", err, out, rules)
	}
}

// far is a node in one namespace, asked from another.
type far struct {
	t    *testing.T
	from *netns
	peer Peer
	node *sockets
}

// listening opens the sockets of a node in a namespace, and answers beacons there.
func listening(t *testing.T, in, from *netns, addr string) *far {
	t.Helper()
	f := &far{t: t, from: from}
	var err error
	in.do(func() { f.node, err = listen(&TCPConfig{Config: Config{ID: 7}.withDefaults(), Listen: addr}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	f.peer = Peer{ID: 7, Addr: f.node.tcp.Addr().String()}
	go func() {
		b := make([]byte, 64<<10)
		for {
			if _, _, err := f.node.readPacket(b); err != nil {
				return
			}
		}
	}()
	return f
}

func (f *far) close() {
	_ = f.node.closeListener()
	_ = f.node.closePackets()
}

func (f *far) ask(most time.Duration) (q Inquiry) {
	ctx, cancel := context.WithTimeout(f.t.Context(), most)
	defer cancel()
	f.from.do(func() { q = (&sockets{}).inquire(ctx, f.peer, newBeaconNonce()) })
	return q
}

const soon = 400 * time.Millisecond

// Sealed refusals rely on the kernel: the host of a dead process names itself in the error,
// with the TTL that the process's own datagrams have, and quotes the whole question; a
// router names itself.
func TestTheKernelNamesTheSenderOfAnError(t *testing.T) {
	l := newLAN(t)
	f := listening(t, l.b, l.a, lanB+":7101")
	base := f.ask(30 * time.Second)
	if base.Outcome != Answered || base.By != netip.MustParseAddr(lanB) || base.Asked != base.By || base.TTL != 63 {
		t.Fatalf("a living process: %+v", base)
	}
	reject := func(hook, how string) string {
		return "table inet x {\nchain c {\ntype filter hook " + hook + " priority 0;\nmeta l4proto udp " + how + "\n}\n}"
	}
	for _, how := range []string{"reject with icmp port-unreachable", "reject with icmp host-unreachable", "reject with icmp admin-prohibited", "drop"} {
		l.router.nft(t, reject("forward", how))
		if q := f.ask(soon); q.Outcome == PortUnreachable && q.By == q.Asked || q.Outcome == Answered {
			t.Errorf("the router: %s: %+v", how, q)
		}
	}
	l.router.nft(t, "")
	if q := f.ask(30 * time.Second); q != base {
		t.Errorf("after the router: %+v", q)
	}
	// The documented case: it cannot be distinguished from a dead process.
	l.b.nft(t, reject("input", "reject with icmp port-unreachable"))
	if q := f.ask(30 * time.Second); q.Outcome != PortUnreachable || q.By != base.By || q.TTL != base.TTL {
		t.Errorf("the host's own firewall: %+v", q)
	}
	l.b.nft(t, "")
	f.close()
	if q := f.ask(30 * time.Second); q.Outcome != PortUnreachable || q.By != base.By || q.TTL != base.TTL {
		t.Errorf("a process that is gone: %+v", q)
	}
}

// A translated address has no baseline: the answer names the address at which the process
// received the question.
func TestATranslatedAddressHasNoBaseline(t *testing.T) {
	l := newLAN(t)
	f := listening(t, l.b, l.a, lanB+":7101")
	l.router.nft(t, "table ip x {\nchain c {\ntype nat hook prerouting priority -100;\nip daddr 10.99.9.9 dnat to "+lanB+"\n}\n}")
	f.peer.Addr = "10.99.9.9:7101"
	if q := f.ask(30 * time.Second); q.Outcome != Answered || q.By == q.Asked {
		t.Errorf("a living process behind the translation: %+v", q)
	}
	f.close()
	// The error's outer source is rewritten as well, so it looks right.
	if q := f.ask(30 * time.Second); q.Outcome != PortUnreachable || q.By != q.Asked {
		t.Logf("this kernel does not rewrite the source of errors: %+v", q)
	}
}

// Kernels send one host a few errors, then one a second: questions above that rate are not
// answered, which proves nothing. On loopback there is no limit.
func TestTheAllowanceOfErrors(t *testing.T) {
	l := newLAN(t)
	f := listening(t, l.b, l.a, lanB+":7101")
	f.close()
	got := 0
	const questions = 12
	for range questions {
		if q := f.ask(soon); q.Outcome == PortUnreachable {
			got++
		}
	}
	t.Logf("%d of %d questions were answered by an error", got, questions)
	if got < 4 || got == questions {
		t.Errorf("the allowance is %d of %d", got, questions)
	}
	here := listening(t, l.a, l.a, "127.0.0.1:7101")
	if q := here.ask(30 * time.Second); q.Outcome != Answered || q.By != q.Asked || q.TTL != 64 {
		t.Errorf("loopback: %+v", q)
	}
	here.close()
	for i := range 20 {
		if q := here.ask(30 * time.Second); q.Outcome != PortUnreachable || q.By != q.Asked || q.TTL != 64 {
			t.Fatalf("loopback, question %d: %+v", i, q)
		}
	}
}

// Listening on every address: the answer leaves from the address that was asked.
func TestBeaconsOnEveryAddress(t *testing.T) {
	in := newNetns(t)
	in.ip(t, "addr add 192.0.2.1/32 dev lo")
	in.ip(t, "addr add 2001:db8::1/128 dev lo nodad")
	f := listening(t, in, in, ":7101")
	for _, ip := range []string{"192.0.2.1", "127.0.0.1", "2001:db8::1", "::1"} {
		f.peer.Addr = net.JoinHostPort(ip, "7101")
		q := f.ask(time.Second)
		for range 30 { // the kernel enables a new IPv6 address asynchronously
			if q.Outcome == Answered {
				break
			}
			q = f.ask(time.Second)
		}
		if q.Outcome != Answered || q.By != netip.MustParseAddr(ip) || q.Asked != q.By || q.TTL != 64 {
			t.Errorf("%s: %+v", ip, q)
		}
	}
	f.close()
	for _, ip := range []string{"192.0.2.1", "2001:db8::1"} {
		f.peer.Addr = net.JoinHostPort(ip, "7101")
		if q := f.ask(30 * time.Second); q.Outcome != PortUnreachable || q.By != netip.MustParseAddr(ip) || q.TTL != 64 {
			t.Errorf("%s, gone: %+v", ip, q)
		}
	}
}

// A bridge that rejects forges the host's address, with the TTL that the host would have:
// the other documented case that cannot be distinguished from a dead process.
func TestABridgeForgesTheHost(t *testing.T) {
	bridge, a, b := newNetns(t), newNetns(t), newNetns(t)
	bridge.ip(t, "link add br0 type bridge")
	bridge.ip(t, "link set br0 up")
	for i, n := range []*netns{a, b} {
		bridge.ip(t, fmt.Sprintf("link add p%d type veth peer name eth0 netns /proc/%d/fd/%d", i, os.Getpid(), n.ns.Fd()))
		bridge.ip(t, fmt.Sprintf("link set p%d master br0 up", i))
		n.ip(t, fmt.Sprintf("addr add 10.99.3.%d/24 dev eth0", i+1))
		n.ip(t, "link set eth0 up")
	}
	f := listening(t, b, a, "10.99.3.2:7101")
	base := f.ask(30 * time.Second)
	if base.Outcome != Answered || base.By != base.Asked {
		t.Fatalf("a living process: %+v", base)
	}
	var out []byte
	var err error
	bridge.do(func() {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader("table bridge x {\nchain c {\ntype filter hook prerouting priority 0;\nip daddr 10.99.3.2 meta l4proto udp reject with icmp port-unreachable\n}\n}\n")
		out, err = cmd.CombinedOutput()
	})
	if err != nil {
		t.Skipf("this kernel's bridges do not reject: %v: %s", err, out)
	}
	if q := f.ask(soon); q.Outcome != PortUnreachable || q.By != base.By || q.TTL != base.TTL {
		t.Logf("this kernel's bridge does not look like the host: %+v, the host like %+v", q, base)
	}
}
