package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/transport"
)

// The list of all nodes has one address. Its node crashes, and is restarted at any moment
// of the back-off with which the other two nodes dial it. It must not form a second
// cluster before they find it: it has the address of neither.
func TestTheOnlyContactPointIsFoundWhenItRestarts(t *testing.T) {
	for _, down := range []time.Duration{0, 30 * time.Millisecond, time.Second, 2500 * time.Millisecond, 9 * time.Second, 31 * time.Second} {
		for _, discovery := range []bool{true, false} {
			t.Run(fmt.Sprint(down, " discovery ", discovery), func(t *testing.T) {
				inBubble(t, func(c *cluster) {
					addrs := memAddrs(3)
					cfg := lanConfig()
					cfg.Clock, cfg.Join, cfg.BootstrapExpect = testConfig().Clock, addrs[:1], 1
					cfg.NoDiscovery = !discovery
					for _, a := range addrs {
						c.add(a, cfg)
					}
					c.settled(20*time.Second, c.nodes...)
					first, rest := c.nodes[0], c.nodes[1:3]
					c.crash(first)
					c.settled(10*time.Second, rest...)
					pass(down)
					again := c.add(first.addr, cfg)
					t.Logf("one cluster again after %v", c.settled(10*time.Second, rest[0], rest[1], again))
				})
			})
		}
	}
}

// A node without a list, once started with Bootstrap, was removed by a cluster that
// continues. Its next incarnation is cut off again before it finds that cluster: it must
// wait, although nothing answers. If it left no quorum behind, it may form a cluster.
func TestANodeWithoutAListDoesNotFormBesideItsFormerCluster(t *testing.T) {
	former := memAddrs(5)[1:]
	for expect, forms := range map[int]bool{0: false, 1: true} {
		inBubble(t, func(c *cluster) {
			cfg := testConfig()
			cfg.FormerMembers, cfg.BootstrapExpect = former, expect
			n := c.add(memAddrs(1)[0], cfg)
			c.net.SetUsual(transport.Path{Cut: transport.Dropped})
			pass(time.Minute)
			if formed := n.View() != nil; formed != forms {
				t.Errorf("BootstrapExpect %d: formed = %v", expect, formed)
			}
		})
	}
}

// A node waits for a cluster without a quorum, which admits no node. The only member that
// it can reach falls silent: the wait must restart, since the cluster may live.
func TestAClusterThatFallsSilentIsNotForgottenImmediately(t *testing.T) {
	w := newTown(t, 1)
	silent := false
	w.cut = func(a, b string) bool { return silent }
	w.full = true
	all := addrsOf(2)
	member := w.start(0, all[1], Config{Bootstrap: true, Join: all[:1]})
	w.run(time.Second)
	n := w.start(0, all[0], Config{Join: all[:1], BootstrapExpect: 1})
	w.run(10 * time.Second)
	if n.view != nil || member.view == nil || len(w.formed) != 1 {
		t.Fatalf("formed %v", w.formed)
	}
	silent = true
	w.run(3 * time.Second)
	if len(w.formed) != 1 {
		t.Fatalf("formed %v", w.formed)
	}
	w.run(6 * time.Second)
	if len(w.formed) != 2 {
		t.Errorf("it never formed: %v", w.formed)
	}
}

// Two nodes have lists with addresses that never answer: that does not raise the number
// that a third node needs.
func TestListsOfOtherNodesDoNotRaiseTheExpectedNumber(t *testing.T) {
	w := newTown(t, 1)
	all := addrsOf(9)
	for _, addr := range all[:3] {
		w.start(0, addr, Config{Join: all[:3]})
	}
	w.start(0, all[3], Config{Join: all}) // started later, with a longer list
	w.run(10 * time.Second)
	w.oneCluster()
}

// Any node that answers raises the generation of a cluster that is formed, but not without
// bound: the number of generations is finite, and one node must not use them up.
func TestAFloorOfAnotherNodeIsBounded(t *testing.T) {
	for _, test := range []struct{ own, others, want uint32 }{
		{0, 0, 7}, {5, 6, 7}, {9, 0, 9}, {0, 9, 9}, {9, 1000, 1000}, {9, 9 + aheadMax, 9 + aheadMax}, {9, 10 + aheadMax, 9}, {0, 1<<32 - 1, 7},
		{1<<32 - 1, 0, 1<<32 - 1},
	} {
		w := newTown(t, 1)
		all := addrsOf(3)
		w.start(0, all[0], Config{Join: all, MinGeneration: test.own})
		for _, addr := range all[1:] {
			w.start(0, addr, Config{Join: all, MinGeneration: test.others})
		}
		w.run(5 * time.Second)
		w.oneCluster()
		if got := w.nodes[all[0]].view.Epoch.Generation(); got != test.want {
			t.Errorf("floors %d and %d: generation %d, want %d", test.own, test.others, got, test.want)
		}
	}
}

// TestANewDiskKeepsTheOrigin: a new cluster has the origin of the founder's files, or the
// most frequent one among the nodes that answer it; without any files it gets a new one.
func TestANewDiskKeepsTheOrigin(t *testing.T) {
	for _, test := range []struct{ files, want [3]uint64 }{
		{[3]uint64{0, 5, 5}, [3]uint64{5, 5, 5}},
		{[3]uint64{0, 0, 5}, [3]uint64{5, 5, 5}},
		{[3]uint64{5, 5, 5}, [3]uint64{5, 5, 5}},
		{[3]uint64{}, [3]uint64{}},
	} {
		for seed := range uint64(20) {
			w := newTown(t, seed)
			all := addrsOf(3)
			for i, addr := range all {
				w.start(0, addr, Config{Join: all, Origin: test.files[i]})
			}
			w.run(5 * time.Second)
			w.oneCluster()
			for i, addr := range all {
				if got := w.nodes[addr].view.Origin; got != test.want[i] {
					t.Errorf("seed %d: files of %v: origin %d at node %d", seed, test.files, got, i)
				}
			}
		}
	}
}
