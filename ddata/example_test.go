package ddata_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// cluster starts n replicators that speak with each other in memory. In a
// service, Node.Data gives the Data of a role.
func cluster(n int) (nodes []*ddata.Data, close func()) {
	var mu sync.Mutex
	reps := map[gossip.NodeID]*replica.Replicator{}
	v := &gossip.View{Epoch: gossip.FirstEpoch(1)}
	for i := range n {
		id := gossip.NodeID(i + 1)
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
		reps[id] = replica.New(replica.Config{Self: id, Send: func(to gossip.NodeID, _ transport.Class, frame []byte) error {
			_, payload, err := replica.SplitRole(frame)
			mu.Lock()
			defer mu.Unlock()
			if r := reps[to]; r != nil {
				r.HandleFrame(id, payload)
			}
			return err
		}})
	}
	for i := range n {
		r := reps[gossip.NodeID(i+1)]
		r.SetView(v)
		data := new(ddata.Data)
		connect, err := door.Open[func(operation.Replicator)](data)
		if err != nil {
			panic(err)
		}
		connect(r)
		nodes = append(nodes, data)
	}
	return nodes, func() {
		for i := range n {
			reps[gossip.NodeID(i+1)].Close()
		}
	}
}

var ctx = context.Background()

func ExampleUpdate() {
	nodes, done := cluster(3)
	defer done()
	hits := ddata.GCounterKey("hits")
	err := ddata.Update(ctx, nodes[0], hits, ddata.Majority, func(c *ddata.GCounterTx) error {
		c.Add(2)
		return nil
	})
	fmt.Println(err)
	err = ddata.Update(ctx, nodes[0], hits, ddata.Majority, func(c *ddata.GCounterTx) error {
		c.Add(5)
		return errors.New("no, not that")
	})
	fmt.Println(errors.Is(err, replicator.ErrPlan))
	now, err := ddata.Get(ctx, nodes[0], hits, ddata.Local)
	fmt.Println(now.Count(), err)
	// Output:
	// <nil>
	// true
	// 2 <nil>
}

func ExampleGet() {
	nodes, done := cluster(3)
	defer done()
	users := ddata.ORSetKey[string]("users")
	nobody, err := ddata.Get(ctx, nodes[2], users, ddata.Majority)
	fmt.Println(nobody.Len(), err)
	if err := ddata.Update(ctx, nodes[0], users, ddata.Majority, func(s *ddata.ORSetTx[string]) error {
		s.Add("ada")
		return nil
	}); err != nil {
		fmt.Println(err)
	}
	// Whatever was confirmed at a majority, every later majority read sees, anywhere.
	somebody, err := ddata.Get(ctx, nodes[2], users, ddata.Majority)
	fmt.Println(somebody.Contains("ada"), err)
	// Output:
	// 0 <nil>
	// true <nil>
}

func ExampleKey() {
	type wordsKey = ddata.Key[ddata.ORSet[string], *ddata.ORSetTx[string]]
	for _, key := range []wordsKey{ddata.ORSetKey[string]("words/en"), ddata.ORSetKey[string]("words/de")} {
		fmt.Println(key.Name())
	}
	fmt.Println(ddata.FlagKey("on") == ddata.FlagKey("on"))
	// Output:
	// words/en
	// words/de
	// true
}

func ExampleORSetKey() {
	nodes, done := cluster(3)
	defer done()
	users := ddata.ORSetKey[string]("users")
	err := ddata.Update(ctx, nodes[0], users, ddata.Majority, func(s *ddata.ORSetTx[string]) error {
		s.Add("ada")
		s.Add("grace")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	set, err := ddata.Get(ctx, nodes[2], users, ddata.Majority)
	names := slices.Sorted(set.All())
	fmt.Println(names, set.Contains("ada"), err)
	// Output: [ada grace] true <nil>
}

func ExampleLWWMapKey() {
	nodes, done := cluster(3)
	defer done()
	type address struct {
		Host string
		Port int
	}
	routes := ddata.LWWMapKey[int, address]("routes")
	_ = ddata.Update(ctx, nodes[0], routes, ddata.All, func(m *ddata.LWWMapTx[int, address]) error {
		m.Set(1, address{"a", 7101})
		m.Set(2, address{"b", 7102})
		return nil
	})
	_ = ddata.Update(ctx, nodes[1], routes, ddata.All, func(m *ddata.LWWMapTx[int, address]) error {
		m.Delete(2)
		return nil
	})
	m, _ := ddata.Get(ctx, nodes[2], routes, ddata.Local)
	a, ok := m.Get(1)
	fmt.Println(a.Host, a.Port, ok, m.Len())
	// Output: a 7101 true 1
}

// Data of an elected writer is ordered by its term, not by a clock.
func ExampleLWWMapTx_SetAt() {
	nodes, done := cluster(1)
	defer done()
	homes := ddata.LWWMapKey[uint64, string]("homes")
	set := func(home string, term, seq uint64) {
		_ = ddata.Update(ctx, nodes[0], homes, ddata.Local, func(m *ddata.LWWMapTx[uint64, string]) error {
			m.SetAt(17, home, crdt.Stamp{Time: term, Seq: seq})
			return nil
		})
	}
	set("new home", 7, 1)
	set("old home, too late", 5, 99)
	m, _ := ddata.Get(ctx, nodes[0], homes, ddata.Local)
	fmt.Println(m.Get(17))
	// Output: new home true
}

func ExampleGCounterKey() {
	nodes, done := cluster(3)
	defer done()
	hits := ddata.GCounterKey("hits")
	for i, d := range nodes {
		_ = ddata.Update(ctx, d, hits, ddata.All, func(c *ddata.GCounterTx) error {
			c.Add(uint64(i + 1))
			return nil
		})
	}
	c, _ := ddata.Get(ctx, nodes[0], hits, ddata.Majority)
	fmt.Println(c.Count())
	// Output: 6
}

func ExamplePNCounterKey() {
	nodes, done := cluster(2)
	defer done()
	stock := ddata.PNCounterKey("stock")
	_ = ddata.Update(ctx, nodes[0], stock, ddata.All, func(c *ddata.PNCounterTx) error { c.Add(10); return nil })
	// An update that finds it cannot do what it should changes nothing.
	err := ddata.Update(ctx, nodes[1], stock, ddata.All, func(c *ddata.PNCounterTx) error {
		c.Add(-11)
		if c.Count() < 11 {
			return errors.New("not enough")
		}
		return nil
	})
	c, _ := ddata.Get(ctx, nodes[1], stock, ddata.Majority)
	fmt.Println(c.Count(), errors.Is(err, replicator.ErrPlan))
	// Output: 10 true
}

func ExamplePNCounterMapKey() {
	nodes, done := cluster(2)
	defer done()
	stock := ddata.PNCounterMapKey[string]("stock by item")
	_ = ddata.Update(ctx, nodes[0], stock, ddata.All, func(m *ddata.PNCounterMapTx[string]) error {
		m.Add("apples", 5)
		m.Add("pears", 2)
		return nil
	})
	_ = ddata.Update(ctx, nodes[1], stock, ddata.All, func(m *ddata.PNCounterMapTx[string]) error {
		m.Add("apples", -1)
		m.Remove("pears")
		return nil
	})
	m, _ := ddata.Get(ctx, nodes[0], stock, ddata.Majority)
	n, _ := m.Count("apples")
	fmt.Println(n, m.Len())
	// Output: 4 1
}

func ExampleGSetKey() {
	nodes, done := cluster(2)
	defer done()
	seen := ddata.GSetKey[[16]byte]("seen")
	id := [16]byte{1, 2, 3}
	_ = ddata.Update(ctx, nodes[0], seen, ddata.All, func(s *ddata.GSetTx[[16]byte]) error { s.Add(id); return nil })
	s, _ := ddata.Get(ctx, nodes[1], seen, ddata.Local)
	fmt.Println(s.Len(), s.Contains(id))
	// Output: 1 true
}

func ExampleFlagKey() {
	nodes, done := cluster(2)
	defer done()
	maintenance := ddata.FlagKey("maintenance")
	_ = ddata.Update(ctx, nodes[0], maintenance, ddata.All, func(f *ddata.FlagTx) error { f.Enable(); return nil })
	f, _ := ddata.Get(ctx, nodes[1], maintenance, ddata.Local)
	fmt.Println(f.Enabled())
	// Output: true
}

func ExampleLWWRegisterKey() {
	nodes, done := cluster(2)
	defer done()
	motd := ddata.LWWRegisterKey[string]("message of the day")
	for i, text := range []string{"good morning", "good evening"} {
		_ = ddata.Update(ctx, nodes[i], motd, ddata.All, func(r *ddata.LWWRegisterTx[string]) error { r.Set(text); return nil })
	}
	r, _ := ddata.Get(ctx, nodes[0], motd, ddata.Majority)
	fmt.Println(r.Value())
	// Output: good evening true
}

func ExampleMVRegisterKey() {
	nodes, done := cluster(1)
	defer done()
	title := ddata.MVRegisterKey[string]("title")
	for _, text := range []string{"draft", "final"} {
		_ = ddata.Update(ctx, nodes[0], title, ddata.Local, func(r *ddata.MVRegisterTx[string]) error { r.Set(text); return nil })
	}
	r, _ := ddata.Get(ctx, nodes[0], title, ddata.Local)
	fmt.Println(r.Values())
	// Output: [final]
}

func ExampleORMultiMapKey() {
	nodes, done := cluster(2)
	defer done()
	tags := ddata.ORMultiMapKey[string, string]("tags")
	_ = ddata.Update(ctx, nodes[0], tags, ddata.All, func(m *ddata.ORMultiMapTx[string, string]) error {
		m.Add("doc-1", "go")
		m.Add("doc-1", "crdt")
		m.Add("doc-2", "go")
		return nil
	})
	m, _ := ddata.Get(ctx, nodes[1], tags, ddata.Local)
	values := m.Values("doc-1")
	slices.Sort(values)
	fmt.Println(values, m.Len())
	// Output: [crdt go] 3
}

func ExampleChange() {
	nodes, done := cluster(3)
	defer done()
	users, count := ddata.ORSetKey[string]("users"), ddata.GCounterKey("registrations")
	err := nodes[0].Update(ctx, ddata.Majority, []ddata.Op{
		ddata.Change(nodes[0], users, func(s *ddata.ORSetTx[string]) error { s.Add("ada"); return nil }),
		ddata.Change(nodes[0], count, func(c *ddata.GCounterTx) error { c.Add(1); return nil }),
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleSubscribe() {
	nodes, done := cluster(2)
	defer done()
	users := ddata.ORSetKey[string]("users")
	sizes := make(chan int, 16)
	cancel := ddata.Subscribe(nodes[1], users, func(s ddata.ORSet[string]) { sizes <- s.Len() })
	defer cancel()
	_ = ddata.Update(ctx, nodes[0], users, ddata.Majority, func(s *ddata.ORSetTx[string]) error { s.Add("ada"); return nil })
	fmt.Println(<-sizes)
	// Output: 1
}

func ExampleSubscribePrefix() {
	nodes, done := cluster(2)
	defer done()
	shown := make(chan string, 16)
	cancel := ddata.SubscribePrefix(nodes[1], ddata.ORSetKey[string]("rooms/"), func(name string, s ddata.ORSet[string]) {
		shown <- fmt.Sprint(name, s.Elements())
	})
	defer cancel()
	for _, room := range []string{"rooms/blue", "rooms/red"} {
		_ = ddata.Update(ctx, nodes[0], ddata.ORSetKey[string](room), ddata.Majority, func(s *ddata.ORSetTx[string]) error { s.Add("ada"); return nil })
		fmt.Println(<-shown)
	}
	// Output:
	// rooms/blue[ada]
	// rooms/red[ada]
}

func ExampleData_Keys() {
	nodes, done := cluster(1)
	defer done()
	for _, room := range []string{"rooms/blue", "rooms/red", "users"} {
		_ = ddata.Update(ctx, nodes[0], ddata.ORSetKey[string](room), ddata.Local, func(s *ddata.ORSetTx[string]) error { s.Add("ada"); return nil })
	}
	rooms, err := nodes[0].Keys(ctx, "rooms/")
	fmt.Println(rooms, err)
	// Output: [rooms/blue rooms/red] <nil>
}

// With one more than a majority, a confirmed write outlives three crashes at once of five.
func ExampleMajorityPlus() {
	nodes, done := cluster(5)
	defer done()
	hits := ddata.GCounterKey("hits")
	err := ddata.Update(ctx, nodes[0], hits, ddata.MajorityPlus(1, 3), func(c *ddata.GCounterTx) error { c.Add(1); return nil })
	fmt.Println(ddata.MajorityPlus(1, 3).Need(5), err)
	// Output: 4 <nil>
}

// A level that the view can never fulfil is an error at once, and changes nothing.
func ExampleTo() {
	nodes, done := cluster(2)
	defer done()
	flag := ddata.FlagKey("on")
	err := ddata.Update(ctx, nodes[0], flag, ddata.To(3), func(f *ddata.FlagTx) error { f.Enable(); return nil })
	f, _ := ddata.Get(ctx, nodes[0], flag, ddata.Local)
	fmt.Println(errors.Is(err, replicator.ErrTooFewMembers), f.Enabled())
	// Output: true false
}

func ExampleDelete() {
	nodes, done := cluster(2)
	defer done()
	flag := ddata.FlagKey("old")
	_ = ddata.Update(ctx, nodes[0], flag, ddata.All, func(f *ddata.FlagTx) error { f.Enable(); return nil })
	_ = nodes[1].Update(ctx, ddata.All, ddata.Delete("old"))
	keys, err := nodes[0].Keys(ctx, "")
	fmt.Println(len(keys), err)
	// Output: 0 <nil>
}

func ExampleORMapKey() {
	nodes, done := cluster(3)
	defer done()
	rooms := ddata.ORMapKey[string, string]("rooms")
	_ = ddata.Update(ctx, nodes[0], rooms, ddata.All, func(m *ddata.ORMapTx[string, string]) error {
		m.At("blue", "guests").Add("ada")
		m.At("blue", "guests").Add("grace")
		m.At("blue", "visits").Increment(2)
		m.At("blue", "title").Set("Blue room")
		m.At("red", "open").Enable()
		return nil
	})
	_ = ddata.Update(ctx, nodes[1], rooms, ddata.All, func(m *ddata.ORMapTx[string, string]) error {
		m.At("blue", "visits").Increment(1)
		m.Remove("red")
		return nil
	})
	m, _ := ddata.Get(ctx, nodes[2], rooms, ddata.Local)
	guests := m.At("blue", "guests").Elements()
	slices.Sort(guests)
	fmt.Println(m.Keys(), guests, m.At("blue", "visits").Count(), m.At("blue", "title").Values(), m.At("red").Exists())
	// Output: [blue] [ada grace] 3 [Blue room] false
}

func ExampleData_Status() {
	nodes, done := cluster(3)
	defer done()
	users := ddata.ORSetKey[string]("users")
	_ = ddata.Update(ctx, nodes[0], users, ddata.All, func(s *ddata.ORSetTx[string]) error {
		s.Add("ada")
		return nil
	})
	s, err := nodes[0].Status(ctx)
	fmt.Println(s.Keys, s.Tombstones, len(s.Replicas), s.Replicas[0].Connected, s.Replicas[0].Lag, err)
	// Output: 1 0 2 true 0 <nil>
}
