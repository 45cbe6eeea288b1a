package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/transport"
)

// fill makes every shard of the tests' type live.
func fill(t *testing.T, r *Region[say, heard], n int) {
	t.Helper()
	for i := range 100 {
		if _, err := r.Ask(context.Background(), fmt.Sprint("e", i), say{"x", n}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClusterTellsOfAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		proxy, other := c.add("proxy"), c.add("other")
		_, err := RegisterProxy(proxy.reg, Type[say, heard]{Name: "ear", Shards: 16})
		if err != nil {
			t.Fatal(err)
		}
		proxy.start()
		other.start()
		c.install(append(nodes, proxy, other)...)
		fill(t, regions[0], 1)
		got, err := proxy.reg.Cluster(context.Background(), "ear")
		if err != nil {
			t.Fatal(err)
		}
		if shards, entities := got.Totals(); shards != 16 || entities != 100 {
			t.Errorf("%d shards, %d entities", shards, entities)
		}
		if len(got.Failed) > 0 || !slices.Equal(got.Unregistered, []gossip.NodeID{other.self.ID}) || got.View != c.epoch {
			t.Errorf("failed %v, unregistered %v, view %v", got.Failed, got.Unregistered, got.View)
		}
		for i, n := range got.Nodes {
			if n.Node != c.nodes[i].self.ID || n.Hosts != (i < 3) || n.Coordinating != (i == 0) || (len(n.Shards) > 0) != (i < 3) {
				t.Errorf("node %d: %+v", i+1, n)
			}
		}
	})
}

// Registry.Local lists what runs here: with the other nodes' part it is what Cluster counts.
func TestLocalListsOfAllNodesAreTheCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		c.install(nodes...)
		fill(t, regions[0], 1)
		where := map[string]string{}
		for i, n := range nodes {
			shards, registered := n.reg.Local("ear")
			if !registered || len(shards) == 0 || len(shards) != len(regions[i].Local()) {
				t.Errorf("%s: %d shards, registered: %t", n.self.Name, len(shards), registered)
			}
			for _, s := range shards {
				for _, id := range s.IDs {
					if first, twice := where[id]; twice {
						t.Errorf("%s lives on %s and %s", id, first, n.self.Name)
					}
					where[id] = n.self.Name
				}
			}
		}
		if len(where) != 100 {
			t.Errorf("%d entities", len(where))
		}
		if _, registered := nodes[0].reg.Local("eye"); registered {
			t.Error("a type is registered that is not")
		}
	})
}

// A11: a node that hangs is reported with its shards within the time-out, and the
// others' part is there.
func TestQueriesReportNodesThatHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		fill(t, regions[0], 1)
		hangs := nodes[2]
		hangs.dead.Store(true) // no view says so yet
		for _, limit := range []time.Duration{time.Second, 0} {
			ctx, cancel := context.Background(), func() {}
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			start := time.Now()
			got, err := nodes[0].reg.Cluster(ctx, "ear")
			cancel()
			want := limit
			if want == 0 {
				want = placement.QueryTimeout
			}
			if took := time.Since(start); err != nil || took != want {
				t.Errorf("took %v, want %v: %v", took, want, err)
			}
			shards, _ := got.Totals()
			if len(got.Nodes) != 2 || len(got.Failed) != 1 || got.Failed[0].Node != hangs.self.ID || !errors.Is(got.Failed[0].Err, ErrNoAnswer) ||
				len(got.Failed[0].Shards) == 0 || shards+len(got.Failed[0].Shards) != 16 {
				t.Errorf("%d nodes with %d shards, failed %+v", len(got.Nodes), shards, got.Failed)
			}
		}
	})
}

func TestWhereFindsTheHome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), nil)
		ctx := context.Background()
		at, err := nodes[1].reg.Where(ctx, "ear", "ada")
		if !errors.Is(err, ErrNoHome) || at.Shard != regions[0].ShardOf("ada") || !strings.HasSuffix(err.Error(), "; a message to one of its ids gives it one") {
			t.Errorf("before any message: %+v, %v", at, err)
		}
		h, err := regions[0].Ask(ctx, "ada", say{"x", 1})
		if err != nil {
			t.Fatal(err)
		}
		if at, err = nodes[1].reg.Where(ctx, "ear", "ada"); err != nil || at.Node != h.Node || at.Token.IsZero() || at.Name == "" || !at.Lives {
			t.Errorf("%+v, %v; it answered from %v", at, err, h.Node)
		}
		// Others of the same shard have the same home, and no instance.
		for i := range 1000 {
			id := fmt.Sprint("nobody", i)
			if regions[0].ShardOf(id) != at.Shard {
				continue
			}
			if other, err := nodes[0].reg.Where(ctx, "ear", id); err != nil || other.Node != at.Node || other.Lives {
				t.Errorf("%s, never spoken to: %+v, %v", id, other, err)
			}
		}
		for _, x := range []struct {
			typ, id string
			err     error
		}{{"ear", "", ErrBadID}, {"ear", strings.Repeat("x", 257), ErrBadID}, {"nose", "ada", ErrUnknownType}} {
			if _, err := nodes[1].reg.Where(ctx, x.typ, x.id); !errors.Is(err, x.err) {
				t.Errorf("%q of %q: %v", x.id, x.typ, err)
			}
		}
	})
}

// Instances are found by a part of their id, on all nodes, and described by their homes.
func TestSearchFindsEntitiesOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		fill(t, regions[0], 1)
		pass(time.Minute)
		found, failed, err := nodes[1].reg.Search(t.Context(), "ear", "e1")
		if err != nil || len(failed) > 0 || len(found) != 11 {
			t.Fatalf("%d found, %v failed, %v; want e1 and e10 to e19", len(found), failed, err)
		}
		homes := map[gossip.NodeID]bool{}
		for i, at := range found {
			homes[at.Node] = true
			one, err := nodes[2].reg.Where(t.Context(), "ear", at.ID)
			if at.Token = one.Token; err != nil || at != one || at.Name == "" || at.Shard != regions[0].ShardOf(at.ID) {
				t.Errorf("found %+v, but Where returns %+v, %v", at, one, err)
			}
			if at.Age < time.Minute || at.Age > 2*time.Minute || at.Waiting != 0 || at.Running {
				t.Errorf("%+v at rest since a minute ago", at)
			}
			if i > 0 && found[i-1].ID >= at.ID {
				t.Errorf("%q before %q", found[i-1].ID, at.ID)
			}
		}
		if len(homes) != 3 {
			t.Errorf("found on %d nodes", len(homes))
		}
		nodes[2].dead.Store(true) // no view says so yet
		found, failed, err = nodes[0].reg.Search(t.Context(), "ear", "e1")
		if err != nil || len(failed) != 1 || failed[0].Node != nodes[2].self.ID || len(found) == 0 || len(found) >= 11 {
			t.Errorf("one node hangs: %d found, %v failed, %v", len(found), failed, err)
		}
		if _, _, err := nodes[0].reg.Search(t.Context(), "ear", strings.Repeat("x", 257)); !errors.Is(err, ErrBadID) {
			t.Errorf("a text longer than any id: %v", err)
		}
		if _, _, err := nodes[0].reg.Search(t.Context(), "nose", ""); !errors.Is(err, ErrUnknownType) {
			t.Errorf("a type that is not registered: %v", err)
		}
	})
}

// An instance ends on whichever node it lives, once, and the next message starts another one.
func TestPassivateEndsAnInstanceOnAnyNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		fill(t, regions[0], 1)
		passivated := func() (n uint64) {
			for _, r := range regions {
				n += r.Stats().Passivated
			}
			return n
		}
		homes := map[gossip.NodeID]bool{}
		for i := range 20 {
			id := fmt.Sprint("e", i)
			was, err := nodes[0].reg.Passivate(t.Context(), "ear", id)
			if err != nil || !was.Lives || was.ID != id {
				t.Fatalf("%s: %+v, %v", id, was, err)
			}
			homes[was.Node] = true
			pass(time.Second)
			if at, err := nodes[1].reg.Where(t.Context(), "ear", id); err != nil || at.Lives || at.Node != was.Node {
				t.Errorf("%s lived on %s: %+v, %v", id, was.Name, at, err)
			}
			if again, err := nodes[0].reg.Passivate(t.Context(), "ear", id); err != nil || again.Lives {
				t.Errorf("%s again: %+v, %v", id, again, err)
			}
		}
		if n := passivated(); n != 20 || len(homes) != 3 {
			t.Errorf("%d instances ended, on %d nodes; want 20 on 3", n, len(homes))
		}
		if _, err := regions[2].Ask(t.Context(), "e0", say{"x", 2}); err != nil {
			t.Error(err)
		}
		if at, err := nodes[1].reg.Where(t.Context(), "ear", "e0"); err != nil || !at.Lives {
			t.Errorf("after a message: %+v, %v", at, err)
		}
		// An order under another token is for an earlier home.
		at, err := nodes[1].reg.Where(t.Context(), "ear", "e50")
		if err != nil {
			t.Fatal(err)
		}
		at.Token.Seq++
		if err := regions[0].typed.Dismiss(at.Node, at.Shard, protocol.Token(at.Token), "e50"); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		if n := passivated(); n != 20 {
			t.Errorf("%d instances ended, one by an order under a token of no allocation", n)
		}
		for typ, want := range map[string]error{"nose": ErrUnknownType, "ear": ErrBadID} {
			if _, err := nodes[0].reg.Passivate(t.Context(), typ, ""); !errors.Is(err, want) {
				t.Errorf("%q without an id: %v, want %v", typ, err, want)
			}
		}
	})
}

// Who is in no cluster has nobody to ask, and says so at once.
func TestQueriesWithoutAClusterFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newCluster(t).add("n1")
		n.register(newJournal(), nil)
		for _, when := range []string{"before the node has begun", "before it has a view"} {
			_, cluster := n.reg.Cluster(t.Context(), "ear")
			_, where := n.reg.Where(t.Context(), "ear", "ada")
			_, why := n.reg.Explain(t.Context(), "ear", 3)
			_, _, search := n.reg.Search(t.Context(), "ear", "ada")
			for _, err := range []error{cluster, where, why, search} {
				if !errors.Is(err, ErrNotReady) || !Retryable(err) {
					t.Errorf("%s: %v", when, err)
				}
			}
			if n.s == nil {
				n.start()
			}
		}
	})
}

// Who polls a node that is closed for good must not be told to wait for it.
func TestAClosedNodeIsNotOneToWaitFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		n.register(newJournal(), nil)
		n.start()
		c.install(n)
		if err := n.s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.reg.Close()
		_, cluster := n.reg.Cluster(t.Context(), "ear")
		_, where := n.reg.Where(t.Context(), "ear", "ada")
		_, why := n.reg.Explain(t.Context(), "ear", 3)
		place := n.reg.Place(t.Context(), "ear", map[ShardID]string{1: "n1"})
		for _, err := range []error{cluster, where, why, place} {
			if !errors.Is(err, ErrNodeStopping) || Retryable(err) {
				t.Errorf("%v, want ErrNodeStopping", err)
			}
		}
	})
}

// A home that hangs is named, within the time of a query.
func TestWhereNamesAHomeThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		fill(t, regions[0], 1)
		hangs := nodes[2]
		checked := 0
		for i := range 64 {
			id := fmt.Sprint("id", i)
			if at, err := nodes[0].reg.Where(context.Background(), "ear", id); err != nil || at.Node != hangs.self.ID {
				continue
			}
			checked++
			hangs.dead.Store(true) // no view says so yet
			start := time.Now()
			at, err := nodes[0].reg.Where(context.Background(), "ear", id)
			if !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrNoHome) || at.Node != hangs.self.ID || at.Name == "" || at.Lives || time.Since(start) != placement.QueryTimeout {
				t.Errorf("%+v, %v after %v", at, err, time.Since(start))
			}
			break
		}
		if checked == 0 {
			t.Error("no entity is at the node that hangs")
		}
	})
}

// A member whose process has died is named as soon as the connection to it is lost
// for good; the view need not say so yet. Nobody waits for the time-out.
func TestQueriesDoNotWaitForTheLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
		fill(t, regions[0], 1)
		id := "id0"
		for i := 0; ; i++ {
			id = fmt.Sprint("id", i)
			if at, err := nodes[0].reg.Where(t.Context(), "ear", id); err != nil {
				t.Fatal(err)
			} else if at.Node == nodes[2].self.ID {
				break
			}
		}
		c.kill(nodes[2])
		nodes[0].s.PeerLost(nodes[2].self.ID, transport.Control)
		start := time.Now()
		at, err := nodes[0].reg.Where(t.Context(), "ear", id)
		if !errors.Is(err, ErrNoAnswer) || at.Node != nodes[2].self.ID || time.Since(start) > 2*placement.QueryGrace {
			t.Errorf("%+v, %v after %v", at, err, time.Since(start))
		}
		start = time.Now()
		got, err := nodes[0].reg.Cluster(t.Context(), "ear")
		if err != nil || len(got.Nodes) != 2 || len(got.Failed) != 1 || got.Failed[0].Node != nodes[2].self.ID || time.Since(start) > 2*placement.QueryGrace {
			t.Errorf("%+v, %v after %v", got, err, time.Since(start))
		}
		// One that comes back in time is waited for.
		n1, n2 := nodes[0].self.ID, nodes[1].self.ID
		nodes[0].s.PeerLost(n2, transport.Control)
		c.mu.Lock()
		c.cuts[[2]gossip.NodeID{n1, n2}] = true
		c.mu.Unlock()
		time.AfterFunc(placement.QueryGrace/2, func() {
			c.mu.Lock()
			delete(c.cuts, [2]gossip.NodeID{n1, n2})
			c.mu.Unlock()
			nodes[0].s.PeerUp(n2, transport.Control)
		})
		if got, err := nodes[0].reg.Cluster(t.Context(), "ear"); err != nil || len(got.Nodes) != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Whoever is asked, a shard's history is the same, from its first allocation over
// the crash of coordinator and home to the next.
func TestExplainMergesWhatAllNodesSaw(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, nodes, regions := three(t, newJournal(), nil)
		ctx := context.Background()
		if _, err := regions[2].Ask(ctx, "ada", say{"x", 1}); err != nil {
			t.Fatal(err)
		}
		shard := regions[0].ShardOf("ada")
		home, _ := nodes[0].reg.Where(ctx, "ear", "ada")
		c.kill(nodes[0])
		c.install(nodes[1], nodes[2])
		pass(time.Second)
		if home.Node == nodes[0].self.ID {
			if _, err := regions[2].Ask(ctx, "ada", say{"x", 2}); err != nil {
				t.Fatal(err)
			}
		}
		one, err := nodes[1].reg.Explain(ctx, "ear", shard)
		two, err2 := nodes[2].reg.Explain(ctx, "ear", shard)
		if err != nil || err2 != nil || len(one.Failed)+len(two.Failed) > 0 {
			t.Fatal(err, err2, one.Failed, two.Failed)
		}
		if !slices.Equal(one.Events, two.Events) {
			t.Errorf("the nodes tell\n%v\nand\n%v", one.Events, two.Events)
		}
		var term gossip.Epoch
		kinds := map[string]bool{}
		for _, e := range one.Events {
			if e.Term < term || e.On == 0 {
				t.Errorf("out of order, or of nobody: %+v", e)
			}
			term, kinds[e.By+" "+e.Kind] = e.Term, true
		}
		for _, k := range []string{"coordinator office taken", "coordinator census complete", "region census answered", "region route opened"} {
			if !kinds[k] {
				t.Errorf("no %q among %v", k, kinds)
			}
		}
	})
}
