// Package deploy_test plays what the manifests of this folder rely on. README.md explains them,
// and module testdata/check validates them.
package deploy_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/leakcheck"
	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

func TestMain(m *testing.M) { os.Exit(leakcheck.Run(m)) }

// pods is a cluster whose nodes find each other as the pods of the manifests do.
type pods = peeragetest.Cluster[*pod]

// pod is what the tests need of a node.
type pod struct {
	counters *sharding.Region[int, int]
	addr     netip.Addr
}

// counter is the entity of the pods. It moves with its state.
type counter struct{ n int }

func (c *counter) Handle(_ *sharding.Context, add int) (int, error) {
	c.n += add
	return c.n, nil
}

func (c *counter) Snapshot(*sharding.Context) ([]byte, error) {
	return strconv.AppendInt(nil, int64(c.n), 10), nil
}

func (c *counter) Restore(_ *sharding.Context, state []byte) (err error) {
	c.n, err = strconv.Atoi(string(state))
	return err
}

// startPod starts a node with the contact points of the manifests.
func startPod(dns *headless) func(context.Context, peerage.Config) (*peerage.Node, *pod, error) {
	return func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *pod, error) {
		p := &pod{addr: netip.MustParseAddrPort(cfg.Listen).Addr()}
		cfg.Join, cfg.BootstrapExpect, cfg.Bootstrap = []string{"peerage-peers:7101"}, 2, false
		cfg.Resolver = podResolver{dns, p.addr}
		node, err := peerage.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		p.counters, err = sharding.Register(node.Registry(), sharding.Type[int, int]{
			Name: "counter", Shards: 12,
			New: func(string) sharding.Entity[int, int] { return &counter{} },
		})
		if err != nil {
			return nil, nil, err
		}
		dns.started(dns.publish(p.addr), node)
		return node, p, node.Start(ctx)
	}
}

// clusters returns the number of different clusters of which the pods have a view.
func clusters(c *pods) int {
	seen := map[uint64]bool{}
	for _, n := range c.Nodes() {
		if v := n.View(); v != nil {
			seen[v.Cluster] = true
		}
	}
	return len(seen)
}

// oneCluster waits until all pods are ready in one cluster, and fails if there ever are two.
func oneCluster(t *testing.T, c *pods, within time.Duration, of int) {
	t.Helper()
	c.WaitUntil(within, fmt.Sprintf("%d pods are ready in one cluster", of), func() bool {
		if n := clusters(c); n > 1 {
			t.Fatalf("%d clusters", n)
		}
		ready := 0
		for _, n := range c.Nodes() {
			if v := n.View(); n.Ready() && v != nil && len(v.Members) == of {
				ready++
			}
		}
		return ready == of
	})
}

// podManagementPolicy: Parallel. Each pod first sees only itself; none forms a cluster until
// it sees another one.
func TestPodsThatStartTogetherFormOneCluster(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second, 30 * time.Second} {
		for _, apart := range []time.Duration{0, 700 * time.Millisecond, 10 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				c := peeragetest.Start(t, 0, startPod(newHeadless(late)))
				for range 3 {
					c.Add()
					pass(apart)
				}
				if n := clusters(c); late > 3*apart+time.Second && n != 0 {
					t.Errorf("%d clusters before any pod saw another one", n)
				}
				oneCluster(t, c, late+3*apart+15*time.Second, 3)
			})
		}
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// podManagementPolicy: OrderedReady would never start the second pod: the first is not ready
// alone, and its status names the reason.
func TestTheFirstPodIsNotReadyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 0, startPod(newHeadless(time.Second)))
		first := c.Add()
		pass(10 * time.Minute)
		if first.Ready() || first.View() != nil {
			t.Error("a single pod has formed a cluster")
		}
		t.Log(first.Status().NotReady)
		c.Add()
		oneCluster(t, c, 30*time.Second, 2)
	})
}

// publishNotReadyAddresses: false would keep the pods from finding each other for good.
func TestPodsThatAreNotPublishedNeverMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newHeadless(0)
		dns.readyOnly = true
		c := peeragetest.Start(t, 0, startPod(dns))
		for range 3 {
			c.Add()
		}
		pass(10 * time.Minute)
		if n := clusters(c); n > 0 {
			t.Errorf("%d clusters of pods that see none", n)
		}
	})
}

// A rolling update: each pod ends in order, and its successor has a new address, which DNS
// shows late. DNS still shows the old one for as long.
func TestARollingUpdateWithNewAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newHeadless(5 * time.Second)
		c := peeragetest.Start(t, 0, startPod(dns))
		for range 3 {
			c.Add()
		}
		oneCluster(t, c, time.Minute, 3)
		allAnswered := c.KeepCalling(func(ctx context.Context, n *peeragetest.Node[*pod], i int) error {
			if !n.Ready() {
				return nil // no service sends it requests
			}
			_, err := n.Service.counters.Ask(ctx, fmt.Sprint("id", i%30), 0)
			return err
		})
		add(t, c, 1)
		for _, old := range c.Nodes() {
			old.Stop()
			dns.retract(old.Service.addr)
			c.Add()
			oneCluster(t, c, time.Minute, 3)
		}
		allAnswered()
		add(t, c, 2)
		c.AssertSingleInstance()
	})
}

// add adds one to each counter, and compares the sums.
func add(t *testing.T, c *pods, want int) {
	t.Helper()
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		got, err := c.Nodes()[0].Service.counters.Ask(ctx, fmt.Sprint("id", i), 1)
		cancel()
		if err != nil || got != want {
			t.Errorf("id%d: %d, %v, want %d", i, got, err, want)
		}
	}
}

// All pods are killed together, and come back with new addresses while DNS still shows
// the old ones.
func TestAllPodsComeBackWithNewAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newHeadless(20 * time.Second)
		c := peeragetest.Start(t, 0, startPod(dns))
		for range 3 {
			c.Add()
		}
		oneCluster(t, c, time.Minute, 3)
		for _, old := range c.Nodes() {
			old.Crash()
			dns.retract(old.Service.addr)
		}
		for range 3 {
			c.Add()
		}
		oneCluster(t, c, 2*time.Minute, 3)
	})
}

// The manifests say what these tests play.
func TestTheManifestsAreWhatIsPlayed(t *testing.T) {
	for path, wants := range map[string][]string{
		"kubernetes/base/services.yaml":           {"name: peerage-peers", "clusterIP: None", "publishNotReadyAddresses: true"},
		"kubernetes/statefulset/statefulset.yaml": {"podManagementPolicy: Parallel", "--join=peerage-peers:7101", "serviceName: peerage-peers"},
		"kubernetes/deployment/deployment.yaml":   {"--join=peerage-peers:7101"},
	} {
		text := manifest(t, path, wants)
		if strings.Contains(path, "base") {
			continue
		}
		replicas, expect := number(t, text, `replicas: (\d+)`), number(t, text, `BOOTSTRAP_EXPECT, value: "(\d+)"`)
		if expect != replicas/2+1 {
			t.Errorf("%s: BOOTSTRAP_EXPECT is %d of %d replicas", path, expect, replicas)
		}
	}
}

// Prometheus finds the pods by the headless service, and the network policy admits it.
func TestPrometheusFindsThePods(t *testing.T) {
	for path, wants := range map[string][]string{
		"prometheus/prometheus.yml":               {"names: [peerage-peers.default.svc", "port: 8101", "`monitoring`", "rule_files: [peerage.rules.yml]"},
		"kubernetes/base/services.yaml":           {"name: peerage-peers"},
		"kubernetes/base/network.yaml":            {"kubernetes.io/metadata.name: monitoring", "port: 8101"},
		"kubernetes/statefulset/statefulset.yaml": {"{name: http, containerPort: 8101"},
		"kubernetes/deployment/deployment.yaml":   {"{name: http, containerPort: 8101"},
	} {
		manifest(t, path, wants)
	}
}

// manifest returns the text of a file, which must contain all of wants.
func manifest(t *testing.T, path string, wants []string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not contain %q", path, want)
		}
	}
	return text
}

// number returns the number that pattern finds.
func number(t *testing.T, text []byte, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("nothing matches %s", pattern)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
