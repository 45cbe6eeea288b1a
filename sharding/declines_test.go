package sharding

import (
	"fmt"
	"testing"
	"time"
)

// While the most senior node of the role only sends, the office of the first that hosts
// goes on from view to view: a shard that is new at the moment of a view change gets its
// home as fast as ever.
func TestViewsDoNotInterruptTheOfficeBehindAProxy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		c.delay = 20 * time.Millisecond
		senior, a, b := c.add("senior"), c.add("a"), c.add("b")
		if _, err := RegisterProxy(senior.reg, Type[say, heard]{Name: "ear", Shards: 16}); err != nil {
			t.Fatal(err)
		}
		a.register(j, nil)
		r := b.register(j, nil)
		for _, n := range c.nodes {
			n.start()
		}
		c.install(senior, a, b)
		pass(time.Second)
		term := a.office("ear")
		fresh := 0
		ask := func() time.Duration {
			t.Helper()
			begun := time.Now()
			// Each is the first of its shard.
			for id := fmt.Sprint("e", fresh); ; id = fmt.Sprint("e", fresh) {
				if fresh++; b.s.Status()[0].Shards[r.ShardOf(id)].Home != 0 {
					continue
				}
				if _, err := r.Ask(within(t, 5*time.Second), id, say{"x", 1}); err != nil {
					t.Fatal(err)
				}
				return time.Since(begun)
			}
		}
		calm := max(ask(), ask(), ask())
		for range 3 {
			c.install(senior, a, b)
			if took := ask(); took > calm {
				t.Errorf("a new shard took %v at a view change, %v without", took, calm)
			}
			pass(time.Second)
		}
		if now := a.office("ear"); now != term || term == 0 {
			t.Errorf("office in term %v, then %v", term, now)
		}
	})
}

// A proxy outside the role that asks before anybody runs the type binds nobody: the
// first to run it coordinates at once, though the one before it never does. Before, the
// type had no coordinator until the next view.
func TestAProxyThatIsEarlyLeavesTheTypeItsCoordinator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		idle, host, front := c.add("idle", "back"), c.add("host", "back"), c.add("front")
		ofBack := func(ty *Type[say, heard]) { ty.Role = "back" }
		r := front.register(j, ofBack)
		for _, n := range c.nodes {
			n.start()
		}
		c.install(idle, host, front)
		pass(5 * time.Second)
		host.register(j, ofBack)
		if h, err := r.Ask(within(t, 3*time.Second), "x", say{"y", 1}); err != nil || h.Node != host.self.ID {
			t.Errorf("%+v, %v", h, err)
		}
		for _, n := range []*node{host, front} {
			if st := n.s.Status()[0]; !st.Registered || st.Refused != "" || st.Coordinator != host.self.ID {
				t.Errorf("%s says %+v", n.self.Name, st)
			}
		}
	})
}

// Those that were refused go on among themselves also when the first candidate does not
// run the type at all, or for another role, which it may have or not: when all decline, it
// is the first that could.
func TestTheRefusedGoOnBehindOneWithoutTheType(t *testing.T) {
	for _, runs := range []string{"not at all", "for a role of others", "for a role of its own"} {
		t.Run(runs, func(t *testing.T) {
			bubble(t, func(t *testing.T) { refusedBehind(t, runs) })
		})
	}
}

func refusedBehind(t *testing.T, runs string) {
	c, j := newCluster(t), newJournal()
	idle, odd, b, d := c.add("idle"), c.add("odd"), c.add("b"), c.add("d")
	if runs == "for a role of its own" {
		idle.self.Roles = []string{"elsewhere"}
	}
	if runs != "not at all" {
		idle.register(j, func(ty *Type[say, heard]) { ty.Role = "elsewhere" })
	}
	var r *Region[say, heard]
	for _, n := range []*node{odd, b, d} {
		r = n.register(j, func(ty *Type[say, heard]) {
			if n == odd {
				ty.Shards = 8
			}
		})
	}
	for _, n := range c.nodes {
		n.start()
	}
	c.install(odd, idle, b, d)
	pass(time.Second)
	if st := b.s.Status()[0]; st.Refused == "" {
		t.Fatalf("b is not refused: %+v", st)
	}
	c.kill(odd)
	c.install(idle, b, d)
	pass(time.Second)
	if _, err := r.Ask(within(t, time.Second), "x", say{"y", 1}); err != nil {
		t.Error(err)
	}
	for _, n := range []*node{b, d} {
		if st := n.s.Status()[0]; st.Coordinator != b.self.ID || st.Refused != "" {
			t.Errorf("%s says %+v", n.self.Name, st)
		}
	}
}

// Whoever asks before it runs the type binds nobody, and builds on no answer to that when
// it runs the type at last: both nodes registering it at about the same moment, one
// coordinates, whatever is on its way meanwhile.
func TestTwoThatRegisterAtOnceAreNotBothInOffice(t *testing.T) {
	for late := time.Duration(0); late < 1100*time.Millisecond; late += 5 * time.Millisecond {
		bubble(t, func(t *testing.T) {
			c, j := newCluster(t), newJournal()
			c.delay = 20 * time.Millisecond
			t.Cleanup(func() { pass(c.delay) }) // what is sent at the end arrives
			a, b, front := c.add("a", "back"), c.add("b", "back"), c.add("front")
			ofBack := func(ty *Type[say, heard]) { ty.Role = "back" }
			r := front.register(j, ofBack)
			for _, n := range c.nodes {
				n.start()
			}
			c.install(a, b, front)
			pass(time.Second + late)
			b.register(j, ofBack)
			pass(15 * time.Millisecond)
			a.register(j, ofBack)
			for range 40 {
				pass(5 * time.Millisecond)
				if of := a.office("ear"); of != 0 && of == b.office("ear") {
					t.Fatalf("%v: both are in office in term %v", late, of)
				}
			}
			if _, err := r.Ask(within(t, 3*time.Second), "x", say{"y", 1}); err != nil {
				t.Errorf("%v: %v", late, err)
			}
		})
	}
}
