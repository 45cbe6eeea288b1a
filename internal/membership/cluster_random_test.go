package membership

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// walk is a cluster under random faults, whose nodes start again when their incarnation
// has ended, as in the root package.
type walk struct {
	*cluster
	rng   *rand.Rand
	addrs []string
	at    map[string]*member
	log   []string
}

func (w *walk) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%v ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

// fault does one random thing.
func (w *walk) fault() {
	addr := w.addrs[w.rng.IntN(len(w.addrs))]
	m := w.at[addr]
	switch what := w.rng.IntN(10); {
	case what < 3:
		w.logf("crash %s", addr)
		w.crash(m)
		_ = m.Close()
		w.after(addr)
	case what < 5:
		d := time.Duration(w.rng.Int64N(int64(4 * time.Second)))
		w.logf("pause %s for %v", addr, d)
		w.net.Pause(addr)
		pass(d)
		w.net.Resume(addr)
	case what < 6:
		w.logf("close %s", addr)
		_ = m.Close()
		w.after(addr)
	case what < 8:
		cut := transport.Dropped
		k := 1 + w.rng.IntN(len(w.addrs)-1)
		w.rng.Shuffle(len(w.addrs), func(i, j int) { w.addrs[i], w.addrs[j] = w.addrs[j], w.addrs[i] })
		d := time.Duration(w.rng.Int64N(int64(8 * time.Second)))
		w.logf("split %v from %v for %v", w.addrs[:k], w.addrs[k:], d)
		w.net.Split(cut, w.addrs[:k], w.addrs[k:])
		w.wait(d)
		w.net.Heal()
	default:
		other := w.addrs[w.rng.IntN(len(w.addrs))]
		if other == addr {
			return
		}
		d := time.Duration(w.rng.Int64N(int64(5 * time.Second)))
		w.logf("nothing gets from %s to %s for %v", addr, other, d)
		w.net.SetPath(addr, other, transport.Path{Cut: transport.Dropped})
		w.wait(d)
		w.net.SetPath(addr, other, transport.Path{Latency: 200 * time.Microsecond})
	}
}

// after starts a new incarnation at addr in a while.
func (w *walk) after(addr string) {
	pass(time.Duration(w.rng.Int64N(int64(2 * time.Second))))
	w.at[addr] = w.add(addr, Config{Join: memAddrs(len(w.addrs))})
	w.logf("start %s as %v", addr, w.at[addr].Self().ID)
}

// wait advances time, checks, and replaces incarnations that have ended.
func (w *walk) wait(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); pass(10 * time.Millisecond) {
		w.check()
		for _, addr := range memAddrs(len(w.addrs)) {
			select {
			case <-w.at[addr].over:
				w.logf("over: %s", addr)
				_ = w.at[addr].Close()
				w.at[addr] = w.add(addr, Config{Join: memAddrs(len(w.addrs))})
			default:
			}
		}
	}
}

// check checks the invariant on which sharding rests: a node outside the newest committed
// view holds no valid lease. And there is at most one leader lease.
func (w *walk) check() {
	w.t.Helper()
	leaders := ""
	var newest *gossip.View
	for _, m := range w.at {
		if v := m.View(); v != nil && (newest == nil || v.Epoch > newest.Epoch) {
			newest = v
		}
	}
	for addr, m := range w.at {
		if m.dead || !m.LeaseValid() {
			continue
		}
		if newest.Member(m.Self().ID) == nil && newest.Cluster == m.View().Cluster {
			w.fail(fmt.Sprintf("%s holds a lease outside view %v", addr, newest.Epoch))
		}
		if m.Lease().Leader {
			if leaders != "" {
				w.fail("two leaders: " + leaders + " and " + addr)
			}
			leaders = addr
		}
	}
}

func (w *walk) fail(why string) {
	w.t.Helper()
	for _, l := range w.log {
		w.t.Log(l)
	}
	w.t.Fatalf("%s\n%s", why, w.describe())
}

// TestRandomFaults runs random crashes, pauses, closes and splits, and then requires one
// cluster of all nodes. PEERAGE_TEST_WALKS sets the number of walks, PEERAGE_TEST_SEED
// the first.
func TestRandomFaults(t *testing.T) {
	walks, first := 10, 1
	if testing.Short() {
		walks = 2
	}
	if n, err := strconv.Atoi(os.Getenv("PEERAGE_TEST_WALKS")); err == nil {
		walks = n
	}
	if n, err := strconv.Atoi(os.Getenv("PEERAGE_TEST_SEED")); err == nil {
		first = n
	}
	for seed := first; seed < first+walks; seed++ {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				w := &walk{cluster: c, rng: rand.New(rand.NewPCG(uint64(seed), 2)), at: map[string]*member{}}
				n := 3 + w.rng.IntN(3)
				w.addrs = memAddrs(n)
				for _, m := range c.form(n) {
					w.at[m.addr] = m
				}
				for range 12 {
					w.wait(time.Duration(w.rng.Int64N(int64(3 * time.Second))))
					w.fault()
				}
				w.net.Heal()
				healed := time.Now()
				for {
					w.wait(100 * time.Millisecond)
					var ms []*member
					for _, addr := range memAddrs(n) {
						ms = append(ms, w.at[addr])
					}
					if agree(ms) {
						break
					}
					if time.Since(healed) > 12*time.Second {
						w.fail("no one cluster 12 s after everything was healed")
					}
				}
				t.Logf("%d nodes in one cluster %v after the last fault", n, time.Since(healed))
			})
		})
	}
}
