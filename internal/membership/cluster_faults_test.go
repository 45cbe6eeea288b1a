package membership

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// A host that loses power causes no proof: it is removed for silence, and no sooner.
func TestPowerOffIsSilence(t *testing.T) {
	oneOfFive(t, func(c *cluster, victim *member, left []*member) {
		victim.dead = true
		c.net.PowerOff(victim.addr)
		took := c.settled(10*time.Second, left...)
		c.t.Logf("view without the dead after %v", took)
		if took < 1800*time.Millisecond || took > 3500*time.Millisecond {
			c.t.Errorf("RemoveAfter is 2s, and L is 1s")
		}
	})
}

// A rejecting firewall on the path: a minority never continues; the majority always does,
// once the leases that the leader in the minority granted have certainly ended.
func TestARejectingFirewall(t *testing.T) {
	for _, level := range []gossip.CrashEvidence{gossip.EvidenceOff, gossip.EvidenceWithinQuorum, gossip.EvidenceFull} {
		t.Run(evidenceLevel(level), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				addrs := memAddrs(5)
				for _, a := range addrs {
					c.add(a, Config{Join: addrs, CrashEvidence: level})
				}
				ms := c.nodes
				c.settled(5*time.Second, ms...)
				pass(3 * time.Second)
				c.net.Split(transport.Rejected, addrs[:2], addrs[2:])
				took := c.settled(10*time.Second, ms[2:]...)
				t.Logf("the majority goes on after %v", took)
				// The promise to the leader holds for L; then the removal takes another
				// L, or, with Off, RemoveAfter.
				least, most := 2*time.Second, 2800*time.Millisecond
				if level == gossip.EvidenceOff {
					least, most = 3*time.Second, 4*time.Second
				}
				if took < least || took > most {
					t.Errorf("the majority goes on after %v", took)
				}
				c.until(5*time.Second, "the minority stops", func() bool { return !ms[0].LeaseValid() && !ms[1].LeaseValid() })
				pass(10 * time.Second)
				if ms[0].LeaseValid() || ms[1].LeaseValid() {
					t.Error("the minority holds leases again")
				}
			})
		})
	}
}

// With Full, rejecting firewalls on the hosts themselves split the cluster into two that
// both continue: the docs name this case as breaking CrashEvidence. When the firewalls
// are gone, one of the two yields.
func TestPartedLineagesEndInOne(t *testing.T) {
	for _, cut := range []time.Duration{5 * time.Second, 2 * time.Minute} {
		t.Run(cut.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				addrs := memAddrs(5)
				first, rest := leader(c.form(5))
				ms := append([]*member{first}, rest...)
				pass(3 * time.Second)
				c.net.Split(transport.Forged, []string{ms[0].addr, ms[1].addr}, []string{ms[2].addr, ms[3].addr, ms[4].addr})
				c.settled(10*time.Second, ms[2:]...)
				c.settled(10*time.Second, ms[:2]...)
				pass(cut)
				c.net.Heal()
				healed := time.Now()
				c.until(10*time.Second, "one cluster again", func() bool {
					for i, m := range ms {
						select {
						case <-m.over:
							_ = m.Close()
							ms[i] = c.add(m.addr, Config{Join: addrs})
						default:
						}
					}
					return agree(ms)
				})
				t.Logf("one cluster %v after the healing", time.Since(healed))
				if time.Since(healed) > 5*time.Second {
					t.Error("too slow")
				}
			})
		})
	}
}

// One member's links to another are cut, and the leader reaches both: a proof that other
// members deny removes no member.
func TestAProofIsDeniedByAWorkingLink(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		_, rest := leader(ms)
		c.net.SetPaths(rest[0].addr, rest[1].addr, transport.Path{Cut: transport.Rejected})
		pass(5 * time.Second)
		c.settled(time.Second, ms...)
	})
}

// The process pauses for longer than RemoveAfter. It holds no lease when it resumes, it
// learns that it was removed, and the cluster has continued without it.
func TestALongPauseEndsInRemoval(t *testing.T) {
	oneOfFive(t, func(c *cluster, victim *member, left []*member) {
		c.net.Pause(victim.addr)
		took := c.settled(10*time.Second, left...)
		c.t.Logf("view without the paused one after %v", took)
		if took > 3500*time.Millisecond {
			c.t.Error("RemoveAfter is 2s, and L is 1s")
		}
		for range 8000 { // 10 L in all, and not for a moment a lease
			if pass(time.Millisecond); victim.LeaseValid() {
				c.t.Fatal("it holds a lease outside the view")
			}
		}
		c.net.Resume(victim.addr)
		if victim.LeaseValid() {
			c.t.Error("it holds a lease as it goes on")
		}
		again := c.restarted(victim, 5*time.Second)
		if again == victim {
			c.t.Fatal("it came back under its old id")
		}
		c.t.Logf("all together again after %v", c.settled(5*time.Second, append(left, again)...))
	})
}

// A shorter pause pauses the entities, but never removes the node.
func TestAFalseAlarmRemovesNoMember(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		_, rest := leader(ms)
		for range 5 {
			c.net.Pause(rest[0].addr)
			pass(1500 * time.Millisecond)
			if rest[0].LeaseValid() {
				t.Error("it holds a lease after 1.5 L without its leader")
			}
			c.net.Resume(rest[0].addr)
			pass(2 * time.Second)
		}
		c.settled(time.Second, ms...)
		if s := rest[0].Stats(); s.LeaseLost != 5 || s.Abandons != 0 {
			t.Errorf("lost %d leases, abandoned %d times", s.LeaseLost, s.Abandons)
		}
	})
}

// All but one lose power at the same time. Nothing proves it, so the survivor waits for
// an oracle.
func TestAnOracleConfirmsHostsWithoutPower(t *testing.T) {
	inBubble(t, func(c *cluster) {
		addrs := memAddrs(3)
		known := make(chan struct{})
		oracle := func(ctx context.Context, n gossip.Node) (bool, error) {
			select {
			case <-known:
				return true, nil
			default:
				return false, nil
			}
		}
		for _, a := range addrs {
			c.add(a, Config{Join: addrs, Oracle: oracle})
		}
		ms := c.nodes
		c.settled(5*time.Second, ms...)
		pass(5 * time.Second)
		for _, m := range ms[1:] {
			m.dead = true
			c.net.PowerOff(m.addr)
		}
		close(known)
		took := c.settled(3*time.Second, ms[0])
		t.Logf("alone %v after the others lost power", took)
	})
}

// A whole view but one dies so that the proofs come too late to count: after
// ReformAfter the survivor ends its incarnation, and the next one waits for enough
// contact points.
func TestReformingAfterLateProofs(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(5 * time.Second)
		for _, m := range ms[1:] {
			c.net.SetPaths(ms[0].addr, m.addr, transport.Path{Cut: transport.Dropped})
		}
		pass(5 * time.Second)
		c.crash(ms[1], ms[2])
		c.net.Heal()
		c.until(30*time.Second, "over", func() bool {
			select {
			case <-ms[0].over:
				return true
			default:
				return false
			}
		})
		if ms[0].LeaseValid() {
			t.Error("it holds a lease")
		}
		_ = ms[0].Close()
		a := c.add(memAddrs(3)[0], Config{Join: memAddrs(3)})
		b := c.add(memAddrs(3)[1], Config{Join: memAddrs(3)})
		c.settled(5*time.Second, a, b)
	})
}

func TestEventsTellTheStory(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		first, rest := leader(ms)
		c.crash(first)
		c.settled(5*time.Second, rest...)
		if err := rest[0].Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		_ = rest[0].Close()
		var got []string
		var epoch gossip.Epoch
		close(rest[0].events)
		for ev := range rest[0].events {
			switch ev := ev.(type) {
			case gossip.ViewChanged:
				if ev.View.Epoch < epoch {
					t.Errorf("view %v after %v", ev.View.Epoch, epoch)
				}
				epoch = ev.View.Epoch
			case gossip.LeaseChanged:
				got = append(got, map[bool]string{true: "lease", false: "no lease"}[ev.Valid])
			case PeerDead:
				got = append(got, "dead")
			case Abandoned:
				got = append(got, "abandoned")
			case gossip.Removed:
				got = append(got, "removed: "+ev.Reason)
			}
		}
		got = slices.Compact(got)
		if want := []string{"lease", "dead", "lease", "no lease", "abandoned", "removed: left"}; !slices.Equal(got, want) &&
			!slices.Equal(got, []string{"lease", "dead", "no lease", "abandoned", "removed: left"}) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

func TestStatusIsJSON(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(time.Second)
		w := httptest.NewRecorder()
		ms[0].Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		var s Status
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if s.State != "up" || !s.Lease.Valid || len(s.View.Members) != 3 || len(s.Links) != 2 || len(s.Contact) != 2 {
			t.Errorf("status is %s", w.Body)
		}
		for _, l := range s.Links {
			if !slices.Contains(l.Out, "control") || !slices.Contains(l.In, "control") {
				t.Errorf("link %+v", l)
			}
		}
	})
}

func TestCloseIsQuietAndFinal(t *testing.T) {
	inBubble(t, func(c *cluster) {
		m := c.add("10.0.0.1:7101", Config{Join: []string{"10.0.0.9:7101"}})
		pass(time.Second)
		waiting := make(chan error)
		go func() { waiting <- m.WaitUp(context.Background()) }()
		_ = m.Close()
		_ = m.Close()
		if err := <-waiting; err != ErrClosed && err != gossip.ErrRemoved {
			t.Errorf("WaitUp returned %v", err)
		}
		if err := m.Leave(context.Background()); err != nil && err != ErrClosed {
			t.Errorf("Leave returned %v", err)
		}
		if s := m.Status(); s.State != "over" {
			t.Errorf("state is %q", s.State)
		}
		m.Yield(1)
	})
}
