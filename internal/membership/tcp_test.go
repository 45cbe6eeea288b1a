package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// eventually polls a condition of real nodes.
func eventually(t *testing.T, most time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(begin) > most {
			t.Fatalf("after %v not %s", most, what)
		}
		<-tick.C
	}
	return time.Since(begin)
}

// freeAddrs returns addresses that were free a moment ago. They are of a host of this
// process alone: connections that other processes open from 127.0.0.1 do not take them.
func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	return freeAddrsOf(t, fmt.Sprintf("127.0.0.%d", 2+os.Getpid()%250), n)
}

func freeAddrsOf(t *testing.T, host string, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}

func startTCP(t *testing.T, addr string, cfg Config) *member {
	t.Helper()
	cfg.Listen = addr
	n, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return &member{Node: n, addr: addr}
}

func TestThreeNodesOverTCP(t *testing.T) {
	addrs := freeAddrs(t, 3)
	begin := time.Now()
	var ms []*member
	for _, a := range addrs {
		cfg := localConfig()
		cfg.Join = addrs
		cfg.SecretKeys = [][]byte{[]byte("0123456789abcdef")}
		ms = append(ms, startTCP(t, a, cfg))
	}
	waitUp(t, ms...)
	eventually(t, 10*time.Second, "one view of 3", func() bool { return agree(ms) })
	t.Logf("3 nodes stand in one view after %v", time.Since(begin))
	eventually(t, 10*time.Second, "all discovered by memberlist", func() bool {
		return !slices.ContainsFunc(ms, func(m *member) bool { return m.discovery.OtherAddrs() != 2 })
	})

	first, rest := leader(ms)
	_ = first.Close()
	took := eventually(t, 30*time.Second, "a view without the leader", func() bool { return agree(rest) })
	t.Logf("view without the leader %v after it closed", took)
	again := startTCP(t, first.addr, Config{Join: addrs, Discovery: localConfig().Discovery, SecretKeys: first.cfg.SecretKeys})
	ms = append(rest, again)
	took = eventually(t, 30*time.Second, "all three again", func() bool { return agree(ms) })
	t.Logf("a new incarnation is in after %v", took)
	if err := ms[0].Leave(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestWrongSettingsAreLoggedOnBothSides(t *testing.T) {
	t.Parallel()
	addrs := freeAddrs(t, 4)
	good := startTCP(t, addrs[0], Config{Join: addrs[:1], BootstrapExpect: 1})
	waitUp(t, good)
	for i, test := range []struct {
		cfg  Config
		want []string
	}{
		{Config{Cluster: "other"}, []string{"another cluster"}},
		{Config{Partition: gossip.KeepOldest{}}, []string{"setting Partition"}},
		{Config{Lease: 1500 * time.Millisecond}, []string{"setting Lease"}},
	} {
		test.cfg.Join, test.cfg.BootstrapExpect = addrs[:1], 1
		bad := startTCP(t, addrs[1+i], test.cfg)
		awaitLog(t, bad, test.want...)
		if bad.View() != nil || len(good.View().Members) != 1 {
			t.Errorf("it was admitted: %v", test.want)
		}
		_ = bad.Close()
	}
}

func TestAnAddressInUseIsOneClearError(t *testing.T) {
	addr := freeAddrs(t, 1)[0]
	startTCP(t, addr, Config{Bootstrap: true})
	_, err := Start(context.Background(), Config{Listen: addr, Bootstrap: true})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("Listen = %q", addr)) || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the error is %v", err)
	}
}

// waitUp returns when the nodes are in a view; before, View is nil.
func waitUp(t *testing.T, ms ...*member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, m := range ms {
		if err := m.WaitUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitLog waits for a line in a node's log that has all the words.
func awaitLog(t *testing.T, m *member, words ...string) {
	t.Helper()
	eventually(t, 10*time.Second, "a line with "+strings.Join(words, ", "), func() bool {
		return slices.ContainsFunc(m.recent.listRecent(), func(r Recent) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r.Kind+" "+r.Detail, w) })
		})
	})
}

func TestAWrongAdvertiseIsLoggedOnBothSides(t *testing.T) {
	t.Parallel()
	addrs := freeAddrs(t, 3)
	good := startTCP(t, addrs[0], Config{Name: "good", Join: addrs[:1], BootstrapExpect: 1})
	waitUp(t, good)
	bad := startTCP(t, addrs[1], Config{Name: "bad", Join: addrs[:1], BootstrapExpect: 1, Advertise: addrs[2]})
	awaitLog(t, good, `"bad" advertises `+addrs[2], "nothing listens there")
	awaitLog(t, bad, addrs[0], "its answers do not arrive", addrs[2])
	if len(good.View().Members) != 1 {
		t.Error("it was admitted")
	}
}

func TestContactPointsByNameAndFunction(t *testing.T) {
	t.Parallel()
	a, name := startLocalhost(t)
	addrs := freeAddrs(t, 2)
	b := startTCP(t, addrs[0], Config{Join: []string{name, "does-not-exist.invalid:1"}, BootstrapExpect: 1})
	c := startTCP(t, addrs[1], Config{BootstrapExpect: 1, JoinFunc: func(context.Context) ([]string, error) { return []string{a.addr}, nil }})
	ms := []*member{a, b, c}
	eventually(t, 10*time.Second, "one view of 3", func() bool { return agree(ms) })
	awaitLog(t, b, "contact point does not resolve", "does-not-exist.invalid:1")
}

// startLocalhost starts a node that finds itself by name. All processes of the machine
// share the address behind the name: one of them may be quicker to take a free port.
func startLocalhost(t *testing.T) (m *member, name string) {
	t.Helper()
	for range 100 {
		addr := freeAddrsOf(t, "127.0.0.1", 1)[0]
		_, port, _ := net.SplitHostPort(addr)
		name = "localhost:" + port
		n, err := Start(context.Background(), Config{Listen: addr, Join: []string{name}, BootstrapExpect: 1})
		if err == nil {
			t.Cleanup(func() { _ = n.Close() })
			return &member{Node: n, addr: addr}, name
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Fatal("every free port was taken")
	return nil, ""
}
