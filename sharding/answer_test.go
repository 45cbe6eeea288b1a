package sharding

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/placement"
)

// A question about one shard is answered with that one, if it runs there.
func TestAnswersSayWhatWasAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), nil)
		fill(t, regions[0], 1)
		s := nodes[0].s
		mine := regions[0].Local()
		if len(mine) == 0 || len(mine) == 16 {
			t.Fatalf("%d shards here", len(mine))
		}
		here := mine[0]
		ask := func(q protocol.Query) *protocol.Answer {
			q.Type = "ear"
			return s.drivers.Answer(&q)
		}
		if a := ask(protocol.Query{}); len(a.Shards) != len(mine) || a.Lives {
			t.Errorf("about all: %+v", a)
		}
		a := ask(protocol.Query{HasShard: true, Shard: here.Shard, Entity: here.IDs[0]})
		if len(a.Shards) != 1 || a.Shards[0] != (protocol.ShardLoad{Shard: here.Shard, Token: protocol.Token(here.Token), Entities: uint32(here.Entities)}) || !a.Lives {
			t.Errorf("about one: %+v", a)
		}
		if a := ask(protocol.Query{HasShard: true, Shard: here.Shard, Entity: "nobody"}); a.Lives {
			t.Error("one lives that never was")
		}
		for i := range ShardID(16) {
			if nodes[0].s.endpoints.Find([]byte("ear")).HostedUnder(i).IsZero() {
				if a := ask(protocol.Query{HasShard: true, Shard: i}); len(a.Shards) != 0 {
					t.Errorf("about one that is elsewhere: %+v", a)
				}
			}
		}
	})
}

// hanging is a cluster of which the third node answers nothing, and a way to have it, or
// another, say something to the question that the first has out.
func hanging(t *testing.T) (nodes []*node, regions []*Region[say, heard], forge func(from gossip.NodeID, a protocol.Answer)) {
	_, nodes, regions = three(t, newJournal(), func(ty *Type[say, heard]) { ty.MinMembers = 3 })
	fill(t, regions[0], 1)
	nodes[2].dead.Store(true)
	return nodes, regions, func(from gossip.NodeID, a protocol.Answer) {
		synctest.Wait()
		a.ID = 1 // the first query of this node
		nodes[0].s.HandleCoordinator(from, protocol.Append(nil, &a))
	}
}

// What says something of another type, or comes from a node that was not asked, is no
// answer: it ends no question before its time.
func TestOnlyAnswersOfThoseWhoWereAskedCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, _, forge := hanging(t)
		done := make(chan ClusterStats)
		begin := time.Now()
		go func() {
			got, _ := nodes[0].reg.Cluster(t.Context(), "ear")
			done <- got
		}()
		forge(99, protocol.Answer{Head: protocol.Head{Type: "ear"}, Known: true})
		forge(nodes[2].self.ID, protocol.Answer{Head: protocol.Head{Type: "nose"}, Known: true})
		got := <-done
		if len(got.Nodes) != 2 || len(got.Failed) != 1 || got.Failed[0].Node != nodes[2].self.ID || time.Since(begin) != placement.QueryTimeout {
			t.Errorf("after %v: %+v", time.Since(begin), got)
		}
	})
}

// Of two nodes that both say they have a shard, the one with the higher token is right.
func TestWhereGoesByTheHigherToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, regions, forge := hanging(t)
		mine := regions[0].Local()[0]
		older := mine.Token
		older.Seq--
		done := make(chan Location)
		go func() {
			at, _ := nodes[0].reg.Where(t.Context(), "ear", mine.IDs[0])
			done <- at
		}()
		forge(nodes[2].self.ID, protocol.Answer{
			Head: protocol.Head{Type: "ear"}, Known: true, Shards: []protocol.ShardLoad{{Shard: mine.Shard, Token: protocol.Token(older)}},
		})
		if at := <-done; at.Node != nodes[0].self.ID || at.Token != mine.Token || !at.Lives {
			t.Errorf("%+v, want node %v", at, nodes[0].self.ID)
		}
	})
}

// Nobody waits for a member that hangs once it has left the view.
func TestQuestionsDoNotWaitForWhoHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes, _, _ := hanging(t)
		begin := time.Now()
		time.AfterFunc(placement.QueryAgain, func() { nodes[0].c.install(nodes[0], nodes[1]) })
		got, err := nodes[0].reg.Cluster(t.Context(), "ear")
		if took := time.Since(begin); err != nil || len(got.Failed) != 1 || took > placement.QueryAgain+2*placement.QueryGrace {
			t.Errorf("after %v: %+v, %v", took, got, err)
		}
	})
}

// A member without the type's role is not missed, one that said no capacity has that of
// one, and an id may be as long as the limit.
func TestClusterTellsWhatIsToBeExpected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		a, idle, front := c.add("a", "back"), c.add("idle", "back"), c.add("front")
		a.register(j, func(ty *Type[say, heard]) { ty.Role = "back" })
		for _, n := range c.nodes {
			n.start()
		}
		c.install(a, idle, front)
		got, err := a.reg.Cluster(t.Context(), "ear")
		if err != nil || fmt.Sprint(got.Unregistered) != fmt.Sprint([]gossip.NodeID{idle.self.ID}) || len(got.Nodes) != 1 || got.Nodes[0].Capacity != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := a.reg.Where(t.Context(), "ear", strings.Repeat("x", 256)); !Retryable(err) {
			t.Errorf("an id of 256 bytes: %v", err)
		}
	})
}
