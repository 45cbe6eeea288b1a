package membership

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// network is a router and a host for every perHost nodes, each a network namespace. The
// namespaces have no name: they live by the descriptors that this process and the
// nodes hold, so nothing is left over, however the test ends. Addresses are of
// 198.18.0.0/15, which is set apart for tests, and exist inside only.
type network struct {
	// perHost is how many nodes share a host, one if zero.
	perHost int
	router  *netns
	hosts   []*netns
}

// netns is a network namespace.
type netns struct{ fd int }

const nodePort = 7101

// needNetwork skips a test that cannot have a network of its own here.
func needNetwork(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing (Debian: iproute2, nftables)", tool)
		}
	}
	ns, err := newNetns()
	if err != nil {
		t.Skipf("this kernel, or container, gives no network namespaces: %v", err)
	}
	defer ns.close()
	if err := ns.tool("nft", "table inet probe {\nchain c {\ntype filter hook forward priority 0;\n"+
		"ip saddr 198.18.0.2 meta l4proto tcp reject with tcp reset\nnumgen random mod 5 == 0 drop\n}\n}"); err != nil {
		t.Skipf("nftables does not work here: %v", err)
	}
	if err := ns.tool("ip", "link add v1 type veth peer name v2"); err != nil {
		t.Skipf("no virtual network cards here: %v", err)
	}
}

func currentNetns() (int, error) {
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func newNetns() (*netns, error) {
	ns := &netns{}
	err := onThread(func() (restored bool, err error) {
		back, err := currentNetns()
		if err != nil {
			return true, err
		}
		defer unix.Close(back)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return true, err
		}
		ns.fd, err = currentNetns()
		return unix.Setns(back, unix.CLONE_NEWNET) == nil, err
	})
	return ns, err
}

// run calls f inside; processes that it starts live inside too. A nil namespace is
// the one we are in.
func (ns *netns) run(f func() error) error {
	if ns == nil {
		return f()
	}
	return onThread(func() (restored bool, err error) {
		back, err := currentNetns()
		if err != nil {
			return true, err
		}
		defer unix.Close(back)
		if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
			return true, err
		}
		err = f()
		return unix.Setns(back, unix.CLONE_NEWNET) == nil, err
	})
}

// tool feeds a script to ip or nft inside.
func (ns *netns) tool(name, script string) error {
	return ns.run(func() error {
		cmd := exec.Command(name, map[string][]string{"ip": {"-batch", "-"}, "nft": {"-f", "-"}}[name]...)
		cmd.Stdin = strings.NewReader(script + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s\n%s", name, err, out, script)
		}
		return nil
	})
}

// path names the namespace to tools.
func (ns *netns) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.fd) }

func (ns *netns) close() { _ = unix.Close(ns.fd) }

// hostIP returns the address of host i.
func hostIP(i int) string { return fmt.Sprintf("198.18.%d.2", i) }

// places makes the hosts for n nodes, and returns each node's address and host.
func (w *network) places(n int) (addrs []string, hosts []*netns, err error) {
	per := max(w.perHost, 1)
	if err := w.build((n + per - 1) / per); err != nil {
		return nil, nil, err
	}
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("%s:%d", hostIP(i/per), nodePort+i%per))
		hosts = append(hosts, w.hosts[i/per])
	}
	return addrs, hosts, nil
}

// build makes a router and n hosts, each behind a cable of its own.
func (w *network) build(n int) error {
	var err error
	if w.router, err = newNetns(); err != nil {
		return err
	}
	var plug strings.Builder
	for i := range n {
		host, err := newNetns()
		if err != nil {
			return err
		}
		w.hosts = append(w.hosts, host)
		fmt.Fprintf(&plug, "link add v%d type veth peer name eth0 netns %s\n", i, host.path())
		fmt.Fprintf(&plug, "addr add 198.18.%d.1/24 dev v%d\nlink set v%d up\n", i, i, i)
	}
	if err := w.router.tool("ip", plug.String()); err != nil {
		return err
	}
	for i, host := range w.hosts {
		if err := host.tool("ip", fmt.Sprintf("link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\nroute add default via 198.18.%d.1", hostIP(i), i)); err != nil {
			return err
		}
	}
	forward := func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }
	return errors.Join(w.router.run(forward),
		w.router.tool("nft", "table inet peerage {\nchain wall {\ntype filter hook forward priority 0;\n}\n}"))
}

func (w *network) close() {
	for _, ns := range append(w.hosts, w.router) {
		if ns != nil {
			ns.close()
		}
	}
}

// wall atomically replaces the rules of the router's firewall. None: all traffic passes.
func (l *lab) wall(rules ...string) {
	l.t.Helper()
	script := "flush chain inet peerage wall\n"
	for _, r := range rules {
		script += "add rule inet peerage wall " + r + "\n"
	}
	if err := l.net.router.tool("nft", script); err != nil {
		l.t.Fatal(err)
	}
}

// ips writes the hosts of processes as a set for a rule.
func ips(ps []*proc) string {
	var out []string
	for _, p := range ps {
		out = append(out, strings.TrimSuffix(p.spec.Addr, fmt.Sprintf(":%d", nodePort)))
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// dropped is the rule that drops a's packets to b.
func dropped(a, b []*proc) []string {
	return []string{"ip saddr " + ips(a) + " ip daddr " + ips(b) + " drop"}
}

// rejected are the rules that reject a's packets to b: the firewall answers in b's name.
func rejected(a, b []*proc) []string {
	way := "ip saddr " + ips(a) + " ip daddr " + ips(b)
	return []string{way + " meta l4proto tcp reject with tcp reset", way + " reject"}
}
