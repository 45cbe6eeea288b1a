package main

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// playedUntil returns a cluster of ten nodes and one type of 40 shards, after a scene.
func playedUntil(t *testing.T, last string) *cluster {
	c := newCluster(options{nodes: 10, shards: 40, types: 1, seed: 1}, time.Now().Add(time.Hour))
	for _, s := range typeScenes {
		if row, err := c.playScene(s); err != nil {
			t.Fatalf("%+v: %v", row, err)
		}
		if s.name == last {
			return c
		}
	}
	t.Fatalf("no scene is %q", last)
	return nil
}

// TestServedFindsWhatIsMissing checks that a shard that runs nowhere, or at two nodes, and an asker
// without a route end no scene.
func TestServedFindsWhatIsMissing(t *testing.T) {
	for name, damage := range map[string]func(c *cluster, home *entityType, st protocol.ShardToken){
		"a shard runs nowhere": func(_ *cluster, home *entityType, st protocol.ShardToken) { delete(home.hosted, st.Shard) },
		"a shard has a new token": func(_ *cluster, home *entityType, st protocol.ShardToken) {
			home.hosted[st.Shard] = protocol.Token{Term: st.Token.Term, Seq: st.Token.Seq + 1}
		},
		"a shard runs twice": func(c *cluster, home *entityType, st protocol.ShardToken) {
			for _, n := range c.slots {
				if n != nil && n.types[0] != home {
					n.types[0].hosted[st.Shard] = st.Token
					return
				}
			}
		},
		"the coordinator is gone": func(c *cluster, _ *entityType, _ protocol.ShardToken) { c.endProcess(c.coordinator()) },
	} {
		c := playedUntil(t, "all shards asked")
		if !c.served() {
			t.Fatal("not all shards are served at the end of the scene")
		}
		home, st := homeOfShard(c, 7)
		damage(c, home, st)
		if c.served() {
			t.Errorf("%s, and all is served", name)
		}
	}
}

// homeOfShard returns the node at which a shard runs, and its token.
func homeOfShard(c *cluster, shard protocol.ShardID) (*entityType, protocol.ShardToken) {
	for _, n := range c.slots {
		if n != nil {
			if token, has := n.types[0].hosted[shard]; has {
				return n.types[0], protocol.ShardToken{Shard: shard, Token: token}
			}
		}
	}
	return nil, protocol.ShardToken{}
}

// TestANodeThatJoinsGetsItsPart checks that the scene of a node that joins ends with shards at it.
func TestANodeThatJoinsGetsItsPart(t *testing.T) {
	c := playedUntil(t, "a node joins")
	if got := len(c.slots[c.joined].types[0].hosted); got < 40/11*9/10 {
		t.Errorf("%d of 40 shards run at the new one of eleven nodes", got)
	}
}

// TestTheStoreFencesOlderTerms checks that a coordinator of an older term neither reads nor writes,
// and that the newest token of a shard counts in whatever order writes come.
func TestTheStoreFencesOlderTerms(t *testing.T) {
	s := newStore()
	record := func(term, seq uint64) protocol.Record {
		return protocol.Record{Shard: 3, Token: protocol.Token{Term: gossip.Epoch(term), Seq: seq}}
	}
	write := func(term, seq uint64) coordinator.WriteDone {
		return s.writeRecords(coordinator.Write{Term: gossip.Epoch(term), Records: []protocol.Record{record(term, seq)}})
	}
	if done := write(5, 2); done.Result != coordinator.OK {
		t.Errorf("the first write ended with %+v", done)
	}
	if done := write(5, 1); done.Result != coordinator.OK || s.records[3] != record(5, 2) {
		t.Errorf("an older token has replaced a newer: %+v", s.records[3])
	}
	if read := s.readRecords(coordinator.Read{Term: gossip.Epoch(6)}); read.Result != coordinator.OK || len(read.Records) != 1 {
		t.Errorf("a successor read %+v", read)
	}
	if done := write(5, 9); done.Result != coordinator.Fenced || done.Higher != gossip.Epoch(6) || s.records[3] != record(5, 2) {
		t.Errorf("a write of an older term ended with %+v", done)
	}
	if read := s.readRecords(coordinator.Read{Term: gossip.Epoch(5)}); read.Result != coordinator.Fenced || read.Higher != gossip.Epoch(6) {
		t.Errorf("a read of an older term ended with %+v", read)
	}
}
