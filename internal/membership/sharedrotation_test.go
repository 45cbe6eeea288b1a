package membership

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSharedSecretsRotate: three rolling restarts, {old, new}, {new, old}, {new}, change
// the secret of a cluster of three. After each restart all are in one view, after each
// step all discover each other; in the end a node with the old secret stays out.
func TestSharedSecretsRotate(t *testing.T) {
	t.Cleanup(func() { // a probe of a node that was restarted outlives it
		stacks := make([]byte, 1<<20)
		eventually(t, time.Minute, "memberlist's probes have ended", func() bool {
			return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "probeNode")
		})
	})
	addrs := freeAddrs(t, 4)
	old, next := sharedSecret(1), sharedSecret(2)
	start := func(i int, secrets ...[]byte) *member {
		cfg := localConfig()
		cfg.Join, cfg.SharedSecrets = addrs[:3], secrets
		return startTCP(t, addrs[i], cfg)
	}
	nodes := make([]*member, 3)
	for i := range nodes {
		nodes[i] = start(i, old)
	}
	together := func(what string, discovered int) {
		t.Helper()
		eventually(t, time.Minute, what, func() bool {
			return agree(nodes) && !slices.ContainsFunc(nodes, func(m *member) bool { return m.discovery.OtherAddrs() < discovered || m.KeysDiffer() })
		})
	}
	together("the cluster forms with the old secret", 2)
	cluster := nodes[0].View().Cluster
	for _, secrets := range [][][]byte{{old, next}, {next, old}, {next}} {
		for i := range nodes {
			if err := nodes[i].Close(); err != nil {
				t.Fatal(err)
			}
			nodes[i] = start(i, secrets...)
			together("all stand in one view again", 0)
		}
		together("all have discovered each other", 2)
	}
	if now := nodes[0].View().Cluster; now != cluster {
		t.Errorf("cluster %x, was %x", now, cluster)
	}
	late := start(3, old)
	eventually(t, time.Minute, "the old secret is refused", func() bool { return late.Stats().ProbesFailed > 3 })
	if late.View() != nil || len(nodes[0].View().Members) != 3 {
		t.Error("a node with the old secret was admitted, or forms a cluster")
	}
}
