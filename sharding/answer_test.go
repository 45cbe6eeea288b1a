package sharding

import (
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/sharding/protocol"
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

// A question about one shard is answered with that one, if it runs there. An answer about
// another type, or of a node that was not asked, is none.
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
		a := ask(protocol.Query{HasShard: true, Shard: here.Shard, Entity: here.Entities[0]})
		if len(a.Shards) != 1 || a.Shards[0] != (protocol.ShardLoad{Shard: here.Shard, Token: here.Token, Entities: uint32(len(here.Entities))}) || !a.Lives {
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
