package sharding

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// A few questions of others are answered side by side; what comes beyond them is dropped
// and counted, and asked again by who asks.
func TestQuestionsOfOthersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, nodes, regions := three(t, newJournal(), nil)
		asked := nodes[1].s
		for range answeringMax {
			if !asked.queries.may() {
				t.Fatal("no place for a question")
			}
		}
		q := protocol.Append(nil, &protocol.Query{Head: protocol.Head{Type: "ear"}})
		asked.HandleCoordinator(nodes[0].self.ID, q)
		if n := asked.overrun.Load(); n != 1 {
			t.Errorf("%d counted as dropped", n)
		}
		// One that is done makes room.
		asked.queries.done()
		for range 2 {
			asked.HandleCoordinator(nodes[0].self.ID, q)
			synctest.Wait()
		}
		if n := asked.overrun.Load(); n != 1 {
			t.Errorf("%d counted as dropped in the end", n)
		}
		fill(t, regions[0], 1)
		got, err := nodes[0].reg.Cluster(within(t, queryTimeout), "ear")
		if err != nil || len(got.Nodes) != len(c.nodes) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A question takes the answers of all whom it asked, and one more of each. Nobody waits
// for it to take more, nor does anything come to it when it has ended.
func TestAQuestionTakesWhatComesInTime(t *testing.T) {
	var q queries
	first, answers, end := q.begin(2)
	second, others, endOther := q.begin(1)
	defer endOther()
	if first == second {
		t.Fatal("two questions of one number")
	}
	for range 6 {
		q.settle(1, &protocol.Answer{ID: first})
	}
	if len(answers) != 4 || len(others) != 0 {
		t.Errorf("%d answers wait, %d for another question", len(answers), len(others))
	}
	end()
	for range 4 {
		<-answers
	}
	q.settle(2, &protocol.Answer{ID: first})
	if len(answers) != 0 || len(q.open) != 1 {
		t.Errorf("%d answers wait for what has ended, %d questions are open", len(answers), len(q.open))
	}
}

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
			return s.answer(&q)
		}
		if a := ask(protocol.Query{}); len(a.Shards) != len(mine) || a.Lives {
			t.Errorf("about all: %+v", a)
		}
		a := ask(protocol.Query{HasShard: true, Shard: here.Shard, Entity: here.IDs[0]})
		if len(a.Shards) != 1 || a.Shards[0] != (protocol.ShardLoad{Shard: here.Shard, Token: here.Token, Entities: uint32(here.Entities)}) || !a.Lives {
			t.Errorf("about one: %+v", a)
		}
		if a := ask(protocol.Query{HasShard: true, Shard: here.Shard, Entity: "nobody"}); a.Lives {
			t.Error("one lives that never was")
		}
		for i := range ShardID(16) {
			if nodes[0].s.shells["ear"].path.hosted(i).IsZero() {
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
		q := &nodes[0].s.queries
		q.mu.Lock()
		a.ID = q.last
		q.mu.Unlock()
		q.settle(from, &a)
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
		if len(got.Nodes) != 2 || len(got.Failed) != 1 || got.Failed[0].Node != nodes[2].self.ID || time.Since(begin) != queryTimeout {
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
			Head: protocol.Head{Type: "ear"}, Known: true, Shards: []protocol.ShardLoad{{Shard: mine.Shard, Token: older}},
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
		time.AfterFunc(queryAgain, func() { nodes[0].c.install(nodes[0], nodes[1]) })
		got, err := nodes[0].reg.Cluster(t.Context(), "ear")
		if took := time.Since(begin); err != nil || len(got.Failed) != 1 || took > queryAgain+2*queryGrace {
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
