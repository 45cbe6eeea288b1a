package sharding

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// logbook is a log that tests read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logbook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A node whose type has another number of shards is refused when it registers:
// both sides say which setting differs and both values, and the cluster goes on
// without it.
func TestOtherNumberOfShardsIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var logs [3]logbook
		var nodes []*node
		var regions []*Region[say, heard]
		for i := range 3 {
			n := c.add("n")
			n.log = logs[i].logger()
			nodes = append(nodes, n)
			regions = append(regions, n.register(j, func(ty *Type[say, heard]) {
				if i == 2 {
					ty.Shards = 8
				}
			}))
			n.start()
		}
		c.install(nodes...)
		pass(2 * time.Second)
		for i, want := range []string{"number of shards is 16 here, 8 there", "", "number of shards is 8 here, 16 there"} {
			if got := nodes[i].s.Status()[0].Refused; i > 0 && got != want {
				t.Errorf("node %d: status says %q, want %q", i+1, got, want)
			}
			if n := logs[i].count(want); want != "" && n != 1 {
				t.Errorf("node %d: %q stands %d times in the log", i+1, want, n)
			}
		}
		if nodes[2].s.Ready() || !nodes[0].s.Ready() {
			t.Error("the refused node must not be ready, the others must")
		}
		for i := range 32 {
			h, err := regions[i%2].Ask(context.Background(), string(rune('a'+i)), say{"x", 1})
			if err != nil || h.Node == nodes[2].self.ID {
				t.Errorf("asked at node %d: %+v, %v", i%2+1, h, err)
			}
		}
	})
}

// Messages of a refused node fail at once, and say why.
func TestMessagesOfARefusedNodeFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		a, b := c.add("a"), c.add("b")
		a.register(j, nil)
		r := b.register(j, func(ty *Type[say, heard]) { ty.Shards = 8 })
		a.start()
		b.start()
		c.install(a, b)
		pass(time.Second)
		start := time.Now()
		_, err := r.Ask(context.Background(), "x", say{"y", 1})
		if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "8 here, 16 there") || time.Since(start) > 0 || Retryable(err) {
			t.Errorf("ask after %v: %v", time.Since(start), err)
		}
		if err := r.Tell(context.Background(), "x", say{"y", 1}); !errors.Is(err, ErrSettings) {
			t.Errorf("tell: %v", err)
		}
	})
}

// One type with two roles has two coordinators that have nothing to do with each
// other: both say so.
func TestTwoRolesOfOneTypeAreFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var logs [2]logbook
		for i, role := range []string{"a", "b"} {
			n := c.add(role, role)
			n.log = logs[i].logger()
			n.register(j, func(ty *Type[say, heard]) { ty.Role = role })
			n.start()
		}
		c.install(c.nodes...)
		pass(time.Second)
		for i, want := range []string{`role is \"a\" here, \"b\" there`, `role is \"b\" here, \"a\" there`} {
			// The log quotes quotes.
			if logs[i].count(want) != 1 {
				t.Errorf("node %d does not log %s: %s", i+1, want, logs[i].text.String())
			}
		}
	})
}

// A node of the role that does not run the type says so, and leaves its coordination
// to the next; registered late, it keeps its word in the view, and coordinates
// from the next one on.
func TestUnregisteredTypeIsVisible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var logs logbook
		a, b, d := c.add("a"), c.add("b"), c.add("d")
		a.log = logs.logger()
		r := b.register(j, nil)
		d.register(j, nil)
		for _, n := range c.nodes {
			n.start()
		}
		works := func(want *node) {
			t.Helper()
			if _, err := r.Ask(within(t, time.Second), "x", say{"y", 1}); err != nil {
				t.Error(err)
			}
			pass(time.Second)
			for _, n := range []*node{b, d} {
				if st := n.s.Status()[0]; st.Refused != "" || !st.Registered || st.Coordinator != want.self.ID {
					t.Errorf("%s says %+v", n.self.Name, st)
				}
			}
		}
		c.install(a, b, d)
		works(b)
		if st := a.s.Status(); len(st) != 1 || !st[0].Unregistered || st[0].Type != "ear" {
			t.Errorf("the node without the type says %+v", st)
		}
		a.register(j, nil)
		works(b)
		if term := a.office("ear"); term != 0 {
			t.Errorf("in office in term %v, in a view in which it has promised not to be", term)
		}
		c.install(a, b, d)
		works(a)
		if n := logs.count("entity type is not registered on this node"); n != 1 {
			t.Errorf("it stands %d times in the log", n)
		}
	})
}

// A proxy on a node of the role knows nothing of how the type is hosted: the most senior
// of those that host it coordinates, by its own Strategy.
func TestProxiesLeaveCoordinationToHosts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		senior, a, b := c.add("senior"), c.add("a"), c.add("b")
		hosts := func(ty *Type[say, heard]) { ty.Strategy = strategy.External{} }
		if _, err := RegisterProxy(senior.reg, Type[say, heard]{Name: "ear", Shards: 16}); err != nil {
			t.Fatal(err)
		}
		r := a.register(j, hosts)
		b.register(j, hosts)
		for _, n := range c.nodes {
			n.start()
		}
		c.install(senior, a, b)
		pass(time.Second)
		wanted := map[ShardID]string{}
		for i := range ShardID(16) {
			wanted[i] = "b"
		}
		if err := a.reg.Place(within(t, time.Second), "ear", wanted); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			h, err := r.Ask(within(t, time.Second), fmt.Sprint("e", i), say{"x", 1})
			if err != nil || h.Node != b.self.ID {
				t.Errorf("e%d: %+v, %v", i, h, err)
			}
		}
		if !senior.s.Ready() || !a.s.Ready() {
			t.Error("not ready")
		}
	})
}

// A proxy whose type no node of the role runs is told so.
func TestATypeThatNobodyRunsIsVisible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		a, b := c.add("a", "back"), c.add("b")
		var logs, idle logbook
		a.log, b.log = idle.logger(), logs.logger()
		b.register(j, func(ty *Type[say, heard]) { ty.Role = "back" })
		a.start()
		b.start()
		c.install(a, b)
		pass(2 * time.Second)
		if got := b.s.Status()[0].Refused; got != "type is registered here, not, on any node of its role there" {
			t.Errorf("refused: %q", got)
		}
		if logs.count("no node of the type's role runs it") != 1 {
			t.Error("not logged")
		}
		// The one that does not run it says that of itself, and waits for nobody.
		if idle.count("no node of the type's role runs it") != 0 || idle.count("not registered on this node of its role") != 1 {
			t.Errorf("the node of the role logs %s", idle.text.String())
		}
	})
}

// A node that was refused for its settings does not coordinate, however senior it
// becomes: the others go on among themselves, and it stays refused.
func TestARefusedNodeDoesNotTakeOffice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		a, odd, odder, b, d := c.add("a"), c.add("odd"), c.add("odder"), c.add("b"), c.add("d")
		regions := map[*node]*Region[say, heard]{}
		for _, n := range c.nodes {
			regions[n] = n.register(j, func(ty *Type[say, heard]) {
				switch n {
				case odd:
					ty.Shards = 8
				case odder:
					ty.ShardOf = func(id string) ShardID { return ShardID(len(id)) % 16 }
				}
			})
			n.start()
		}
		c.install(c.nodes...)
		pass(time.Second)
		all := func(from *node, n int) {
			t.Helper()
			for i := range 40 {
				id := string(rune('A' + i))
				h, err := regions[from].Ask(within(t, 2*time.Second), id, say{from.self.Name, n})
				if err != nil || h.Node == odd.self.ID || h.Node == odder.self.ID {
					t.Fatalf("%s, asked at %s: %+v, %v", id, from.self.Name, h, err)
				}
			}
		}
		all(b, 1)
		c.kill(a)
		c.install(odd, odder, b, d)
		all(b, 2)
		c.install(odd, odder, b, d)
		all(d, 1)
		pass(time.Second)
		for _, n := range []*node{odd, odder, b, d} {
			if st := n.s.Status()[0]; st.Coordinator != b.self.ID || (st.Refused != "") != (n == odd || n == odder) {
				t.Errorf("%s says %+v", n.self.Name, st)
			}
		}
		if _, err := regions[odd].Ask(within(t, time.Second), "A", say{"odd", 1}); !errors.Is(err, ErrSettings) {
			t.Error(err)
		}
		c.kill(b)
		c.install(odd, odder, d)
		all(d, 2)
	})
}

// When all who are left were refused by the one that has gone, the most senior of
// them coordinates, and its settings count.
func TestTheRefusedGoOnAmongThemselves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		odd, b, d := c.add("odd"), c.add("b"), c.add("d")
		regions := map[*node]*Region[say, heard]{}
		for _, n := range c.nodes {
			regions[n] = n.register(j, func(ty *Type[say, heard]) {
				if n == odd {
					ty.Shards = 8
				}
			})
			n.start()
		}
		c.install(odd, b, d)
		pass(time.Second)
		if _, err := regions[d].Ask(within(t, time.Second), "x", say{"y", 1}); !errors.Is(err, ErrSettings) {
			t.Fatal(err)
		}
		c.kill(odd)
		c.install(b, d)
		pass(time.Second)
		for range 2 {
			if _, err := regions[d].Ask(within(t, time.Second), "x", say{"y", 1}); err != nil {
				t.Error(err)
			}
			if got := d.s.Status()[0].Coordinator; got != b.self.ID {
				t.Errorf("coordinated by %v", got)
			}
			c.install(b, d)
			pass(time.Second)
		}
	})
}

// A node whose settings differ can take office all the same, before anybody has refused
// it. It harms nothing that lives: what runs under the other settings
// goes on where it is, for those who reach it, and nothing starts beside it, since an
// entity of the other settings' shards may belong to any of its own. When it has
// gone, the others go on as before.
func TestARefusedNodeInOfficeStartsNothingBesideTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		a, odd, b := c.add("a"), c.add("odd"), c.add("b")
		c.nodes = []*node{a, odd, b}
		var regions []*Region[say, heard]
		for _, n := range c.nodes {
			regions = append(regions, n.register(j, func(ty *Type[say, heard]) {
				if n == odd {
					ty.Shards = 8
				}
			}))
			n.start()
		}
		c.install(a, b)
		pass(time.Second)
		ids, at := make([]string, 40), map[string]*node{}
		for i := range ids {
			ids[i] = string(rune('A' + i))
			h, err := regions[0].Ask(within(t, 5*time.Second), ids[i], say{"a", 1})
			if err != nil {
				t.Fatal(err)
			}
			at[ids[i]] = c.nodes[h.Node-1]
		}
		c.kill(a)
		c.install(odd, b)
		pass(2 * time.Second)
		if odd.s.Status()[0].Coordinator != odd.self.ID || b.s.Status()[0].Refused == "" {
			t.Fatal("the odd node is not in office")
		}
		for i, id := range ids {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if h, err := regions[1].Ask(ctx, id, say{"odd", i + 1}); err == nil && (h.Node != b.self.ID || at[id] != b) {
				t.Errorf("%s, which was at %s, answers at %v while nobody knows who has it", id, at[id].self.Name, h.Node)
			}
			cancel()
		}
		// The odd one leaves, and b coordinates.
		c.kill(odd)
		c.install(b)
		pass(2 * time.Second)
		for _, id := range ids {
			before := j.count(id)
			h, err := regions[2].Ask(within(t, 5*time.Second), id, say{"b", 1})
			if err != nil || at[id] == b && h.Count != before+1 || at[id] != b && h.Count != 1 {
				t.Errorf("%s, which was at %s and handled %d messages, counts %d: %v", id, at[id].self.Name, before, h.Count, err)
			}
		}
	})
}

// The members outside the role are told of a coordinator once each, as long as they stay.
func TestMembersOutsideTheRoleAreToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		a, b, d := c.add("a", "back"), c.add("b"), c.add("d")
		a.register(j, func(ty *Type[say, heard]) { ty.Role = "back" })
		for _, n := range c.nodes {
			n.start()
		}
		var mu sync.Mutex
		told := map[gossip.NodeID]int{}
		c.sent = func(to gossip.NodeID, k transport.Kind, payload []byte) {
			if k != transport.KindCoordinator {
				return
			}
			if m, err := protocol.Decode(payload); err == nil {
				if _, is := m.(*protocol.Register); is {
					mu.Lock()
					defer mu.Unlock()
					told[to]++
				}
			}
		}
		greeted := func(ofB, ofD int) {
			t.Helper()
			pass(time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if told[b.self.ID] != ofB || told[d.self.ID] != ofD || told[a.self.ID] != 0 {
				t.Errorf("told %v, want b %d times and d %d times", told, ofB, ofD)
			}
		}
		c.install(a, b, d)
		greeted(1, 1)
		c.install(a, d)
		greeted(1, 1)
		c.install(a, b, d)
		greeted(2, 1)
	})
}
