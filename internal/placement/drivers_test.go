package placement

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
)

// sentLinks keeps the messages that are sent, and delivers them to the peers that it has.
type sentLinks struct {
	self  gossip.NodeID
	peers map[gossip.NodeID]*Drivers
	mu    sync.Mutex
	sent  []protocol.Message
}

func (l *sentLinks) Send(to gossip.NodeID, _ transport.Class, _ transport.Kind, payload []byte) error {
	m, err := protocol.Decode(payload)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.sent = append(l.sent, m)
	l.mu.Unlock()
	if peer := l.peers[to]; peer != nil {
		peer.HandleMessage(l.self, payload)
	}
	return nil
}

func (l *sentLinks) WaitRoom(context.Context, gossip.NodeID, transport.Class) error { return nil }
func (l *sentLinks) Open(gossip.NodeID, transport.Class) bool                       { return true }

// newDrivers returns the Drivers of a node with some roles, and a function that ends them. It
// is called in a bubble.
func newDrivers(t *testing.T, id gossip.NodeID, roles ...string) (ds *Drivers, l *sentLinks, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	l = &sentLinks{self: id, peers: map[gossip.NodeID]*Drivers{}}
	ds = New(Config{
		Self: gossip.Node{ID: id, Name: "a", Roles: roles}, Links: l, Clock: clock.Runtime(),
		LeaseValid: func() bool { return true },
	}, Env{Log: slog.New(slog.DiscardHandler), Ctx: ctx, Work: &work, SendAnswer: func(gossip.NodeID, []byte) {}})
	ds.LeaseChanged(true)
	end = func() {
		ds.Close()
		cancel()
		ds.Wait()
		work.Wait()
	}
	t.Cleanup(end)
	return ds, l, end
}

// viewOf returns view number n of some nodes.
func viewOf(n gossip.Epoch, ids ...gossip.NodeID) *gossip.View {
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + n}
	for _, id := range ids {
		node := gossip.Node{ID: id, Name: fmt.Sprint("n", id)}
		if id == 1 {
			node = gossip.Node{ID: 1, Name: "a", Roles: []string{"back"}}
		}
		v.Members = append(v.Members, gossip.Member{Node: node, Joined: gossip.FirstEpoch(1), Status: gossip.Up})
	}
	return v
}

// Few queries of other nodes are answered side by side; more are dropped and counted, and
// sent again by their nodes.
func TestQuestionsOfOthersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds, l, _ := newDrivers(t, 1)
		ds.ViewChanged(viewOf(1, 1, 2))
		for range answeringMax {
			if !ds.queries.takePlace() {
				t.Fatal("no place for a query")
			}
		}
		q := protocol.Append(nil, &protocol.Query{Head: protocol.Head{Type: "ear"}})
		ds.HandleMessage(2, q)
		if _, n := ds.FrameCounts(); n != 1 {
			t.Errorf("%d counted as dropped", n)
		}
		// A finished answer makes room.
		ds.queries.freePlace()
		for range 2 {
			ds.HandleMessage(2, q)
			synctest.Wait()
		}
		if _, n := ds.FrameCounts(); n != 1 {
			t.Errorf("%d counted as dropped in the end", n)
		}
		if len(l.sent) != 2 {
			t.Errorf("%d answers sent, want 2", len(l.sent))
		}
		// A query that is dropped is sent again, and answered then.
		if !ds.queries.takePlace() {
			t.Fatal("no place is free")
		}
		asker, links, _ := newDrivers(t, 2)
		links.peers[1], l.peers[2] = ds, asker
		asker.ViewChanged(viewOf(1, 1, 2))
		time.AfterFunc(QueryAgain/2, ds.queries.freePlace)
		s, err := asker.Survey(t.Context(), &protocol.Query{Head: protocol.Head{Type: "ear"}})
		if _, n := ds.FrameCounts(); n != 2 || err != nil || len(s.Missing()) != 0 {
			t.Errorf("%+v, %v, with %d dropped", s, err, n)
		}
	})
}

// A query takes the answers of all nodes that it was sent to, and one more of each. An answer
// without room blocks nothing, and none reaches a query that has ended.
func TestAQuestionTakesWhatComesInTime(t *testing.T) {
	var q queries
	first, answers, end := q.beginQuery(2)
	second, others, endOther := q.beginQuery(1)
	defer endOther()
	if first == second {
		t.Fatal("two queries of one number")
	}
	for range 6 {
		q.addAnswer(1, &protocol.Answer{ID: first})
	}
	if len(answers) != 4 || len(others) != 0 {
		t.Errorf("%d answers wait, %d for another query", len(answers), len(others))
	}
	end()
	for range 4 {
		<-answers
	}
	q.addAnswer(2, &protocol.Answer{ID: first})
	if len(answers) != 0 || len(q.open) != 1 {
		t.Errorf("%d answers wait for a query that has ended, %d queries are open", len(answers), len(q.open))
	}
}

// Other nodes can make a node list types that it does not run: at most typesMax, of a role
// that it has, and while it takes part in a cluster.
func TestTypesThatOthersNameAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds, _, end := newDrivers(t, 1, "back")
		listed := func() int {
			ds.mu.Lock()
			defer ds.mu.Unlock()
			return len(ds.byType)
		}
		register := func(typ, role string) {
			ds.HandleMessage(99, protocol.Append(nil, &protocol.Register{
				Head: protocol.Head{Type: typ, View: gossip.FirstEpoch(1) + 1}, Settings: protocol.Settings{Role: role, Shards: 8},
			}))
		}
		register("early", "back")
		if n := listed(); n != 0 {
			t.Errorf("lists %d types before it has a view", n)
		}
		ds.ViewChanged(viewOf(1, 1))
		register("of others", "front")
		if n := listed(); n != 0 {
			t.Errorf("lists %d types of a role that it does not have", n)
		}
		register("one", "back")
		register("one", "back")
		if n := listed(); n != 1 {
			t.Errorf("lists %d types, want 1", n)
		}
		// Stand-ins for as many as there may be.
		ds.mu.Lock()
		one := ds.byType["one"]
		for i := range typesMax - 2 {
			ds.byType[fmt.Sprint(i)] = one
		}
		ds.mu.Unlock()
		register("two", "back")
		register("three", "back")
		if n := listed(); n != typesMax {
			t.Errorf("lists %d types, want %d", n, typesMax)
		}
		ds.mu.Lock()
		for i := range typesMax - 2 {
			delete(ds.byType, fmt.Sprint(i))
		}
		ds.mu.Unlock()
		end()
		before := listed()
		register("late", "back")
		if n := listed(); n != before {
			t.Errorf("lists %d types after its end, %d before", n, before)
		}
	})
}

// A decline is about the view that this node holds: in a later one, it may be in office.
func TestAPromiseIsAboutTheViewThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds, _, _ := newDrivers(t, 1)
		held := viewOf(1, 1, 2)
		held.Members[0].Roles = nil
		ds.ViewChanged(held)
		ask := &protocol.Register{Head: protocol.Head{Type: "ear", View: held.Epoch + 1}, Settings: protocol.Settings{Shards: 8}}
		if d := ds.bindDecline(2, ask); d == nil || d.View != held.Epoch || d.Unbound || !d.Missing {
			t.Errorf("declines with %+v in view %v", d, held.Epoch)
		}
	})
}
