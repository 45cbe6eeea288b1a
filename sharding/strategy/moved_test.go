package strategy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// joined sets in which epochs the regions joined.
func joined(s *State, epochs ...gossip.Epoch) *State {
	for i, e := range epochs {
		s.Regions[i].Joined = e
	}
	return s
}

// A shard that moved goes where nobody restarts again, though another has fewer.
func TestAShardThatMovedGoesToWhoJoinedSince(t *testing.T) {
	for _, st := range []Strategy{LeastShards{}, Weighted{}, LeastShards{SpreadZones: true}, Weighted{SpreadZones: true}} {
		s := joined(sized(4, 3, 4), 1, 1, 5)
		s.Moved = map[ShardID]Moved{0: {Times: 1, Since: 4}, 1: {Times: 1, Since: 5}}
		for _, c := range []struct {
			what  string
			shard ShardID
			edit  func()
			want  gossip.NodeID
		}{
			{"moved before the third joined", 0, func() {}, 3},
			{"moved since", 1, func() {}, 2},
			{"did not move", 2, func() {}, 2},
			{"the newcomer is silent", 0, func() { s.Regions[2].Silent = true }, 2},
			{"the newcomer leaves", 0, func() { s.Regions[2].Silent, s.Regions[2].Leaving = false, true }, 2},
			{"the newcomer is of an old version", 0, func() { s.Regions[2].Leaving, s.Regions[0].AppVersion, s.Regions[1].AppVersion = false, "2", "2" }, 2},
		} {
			c.edit()
			if got := st.Allocate(s, c.shard, 0); got != c.want {
				t.Errorf("%T: %s: goes to %v, want %v", st, c.what, got, c.want)
			}
		}
	}
}

// hashed returns a ConsistentHashing and a state in which every shard is at its place.
func hashed(regions, shards int) (*ConsistentHashing, *State) {
	h, s := &ConsistentHashing{}, sized(make([]int, regions)...)
	s.Shards = shards
	for shard := range ShardID(shards) {
		r := s.Region(h.Allocate(s, shard, 0))
		r.Shards = append(r.Shards, shard)
	}
	return h, s
}

// On the ring a shard that moved goes to the next point of a region that joined since,
// and what is beside its place stays there when the move would not be the last.
func TestConsistentHashingLeavesInPeaceWhatMoved(t *testing.T) {
	h, s := hashed(4, 40)
	joined(s, 1, 1, 1, 9)
	away := s.Regions[0].Shards
	for i, shard := range away {
		if at := h.Allocate(s, shard, 0); at != 1 {
			t.Fatalf("shard %v at rest goes to %v, its place is 1", shard, at)
		}
		s.Moved = map[ShardID]Moved{shard: {Times: 1, Since: 4}}
		if at := h.Allocate(s, shard, 0); at != 4 {
			t.Errorf("shard %v moved, and goes to %v; 4 has joined since", shard, at)
		}
		// Two of them have gone to region 2.
		if i < 2 {
			s.Regions[0].Shards = s.Regions[0].Shards[1:]
			s.Regions[1].Shards = append(s.Regions[1].Shards, shard)
		}
	}
	once, twice := away[0], away[1]
	for _, c := range []struct {
		what  string
		moved map[ShardID]Moved
		join  gossip.Epoch
		want  []ShardID
	}{
		{"neither moved lately", nil, 1, []ShardID{once, twice}},
		{"their place is as old", map[ShardID]Moved{once: {1, 4}, twice: {2, 4}}, 1, nil},
		{"their place is back", map[ShardID]Moved{once: {1, 4}, twice: {2, 4}}, 9, []ShardID{once}},
	} {
		s.Moved, s.Regions[0].Joined = c.moved, c.join
		if got := h.Rebalance(s); !slices.Equal(got, c.want) {
			t.Errorf("%s: moves %v, want %v", c.what, got, c.want)
		}
	}
	for i := range s.Regions {
		if i != 1 {
			s.Regions[1].Shards = append(s.Regions[1].Shards, s.Regions[i].Shards...)
			s.Regions[i].Shards = nil
		}
	}
	for _, shard := range s.Regions[1].Shards {
		s.Moved[shard] = Moved{Times: 3, Since: 10}
	}
	if got := h.Rebalance(s); len(got) < len(away) {
		t.Errorf("a region of four has over twice its part, and %v move of %v", got, away)
	}
}

// Where the application has not spoken, External spares a shard that moved; where it
// has, it obeys.
func TestExternalObeysWhateverMoved(t *testing.T) {
	s := joined(sized(2, 1, 3), 1, 1, 5)
	s.Moved = map[ShardID]Moved{0: {Times: 2, Since: 4}, 1: {Times: 1, Since: 4}}
	s.Wanted = map[ShardID]string{0: "n02"}
	if got := (External{}).Rebalance(s); !slices.Equal(got, []ShardID{0}) {
		t.Errorf("moves %v, the application wants shard 0 at n02", got)
	}
	for _, requester := range []gossip.NodeID{0, 1, 3} {
		if got := (External{}).Allocate(s, 1, requester); got != 3 {
			t.Errorf("shard 1, asked for by %v, goes to %v; 3 has joined since it moved", requester, got)
		}
	}
}

// A lone newcomer gets twice its part at most.
func TestANewcomerHasRoomForTwiceItsPart(t *testing.T) {
	s := joined(sized(10, 10, 0), 1, 1, 5)
	s.Moved = map[ShardID]Moved{}
	for shard := range ShardID(20) {
		s.Moved[shard] = Moved{Times: 1, Since: 2}
	}
	for {
		to := LeastShards{}.Allocate(s, 0, 0)
		if to != 3 {
			break
		}
		s.Regions[2].Shards = append(s.Regions[2].Shards, 0)
	}
	// 62 shards on three: a part is 21.
	if n := len(s.Regions[2].Shards); n != 42 {
		t.Errorf("the newcomer got %d", n)
	}
}

// Rebalancing takes the shards that moved least, and leaves those in peace whose
// move would not be the last, unless the imbalance is great.
func TestRebalanceTakesWhatMovedLeast(t *testing.T) {
	for _, c := range []struct {
		what   string
		sizes  []int
		joined []gossip.Epoch
		moved  map[ShardID]Moved
		want   []ShardID
	}{
		{"nothing moved", []int{4, 2}, nil, nil, []ShardID{0}},
		{"the longest placed moved", []int{4, 2}, nil, map[ShardID]Moved{0: {1, 1}, 1: {2, 1}}, []ShardID{2}},
		{"moved once, and one joined since", []int{4, 2}, []gossip.Epoch{1, 3},
			map[ShardID]Moved{0: {2, 1}, 1: {2, 1}, 2: {1, 2}, 3: {2, 1}}, []ShardID{2}},
		{"moved once, and no node joined since", []int{4, 2}, []gossip.Epoch{1, 2},
			map[ShardID]Moved{0: {2, 1}, 1: {2, 1}, 2: {1, 2}, 3: {2, 1}}, nil},
		{"all moved twice", []int{4, 2}, nil, map[ShardID]Moved{0: {2, 1}, 1: {2, 1}, 2: {2, 2}, 3: {3, 1}}, nil},
		{"all moved twice, and one region is empty", []int{4, 0}, nil,
			map[ShardID]Moved{0: {3, 1}, 1: {2, 1}, 2: {2, 2}, 3: {3, 1}}, []ShardID{1}},
		{"all moved twice, and one region has over twice its part", []int{9, 1, 1, 1}, nil,
			map[ShardID]Moved{0: {3, 1}, 1: {2, 1}, 2: {2, 1}, 3: {2, 1}, 4: {2, 1}, 5: {2, 1}, 6: {2, 1}, 7: {2, 1}, 8: {2, 1}}, []ShardID{1}},
	} {
		for _, st := range []Strategy{LeastShards{}, Weighted{}, LeastShards{SpreadZones: true}, Weighted{SpreadZones: true}} {
			s := joined(sized(c.sizes...), c.joined...)
			s.Moved = c.moved
			if got := st.Rebalance(s); !slices.Equal(got, c.want) {
				t.Errorf("%T: %s: moves %v, want %v", st, c.what, got, c.want)
			}
		}
	}
}

// After a move, a shard goes to who has joined since and will not be restarted again.
func ExampleMoved() {
	s := sized(2, 0, 3)
	s.Regions[2].Joined = 7
	fmt.Println(LeastShards{}.Allocate(s, 0, 0))
	s.Moved = map[ShardID]Moved{0: {Times: 1, Since: 5}}
	fmt.Println(LeastShards{}.Allocate(s, 0, 0))
	// Output:
	// 0000000000000002
	// 0000000000000003
}

// All on the most senior, and after it on its heir.
func ExampleSenior() {
	s := sized(0, 0)
	fmt.Println(Senior{}.Allocate(s, 0, 0))
	s.Regions[0].Leaving = true
	fmt.Println(Senior{}.Allocate(s, 0, 0))
	// Output:
	// 0000000000000001
	// 0000000000000002
}

// Each shard has its place on the ring of names: few move when a node comes.
func ExampleConsistentHashing() {
	h, s := hashed(3, 12)
	fmt.Println("before:", len(h.Rebalance(s)), "to move")
	s.Regions = append(s.Regions, Region{Node: 4, Name: "n04"})
	fmt.Println("a fourth has come:", len(h.Rebalance(s)), "of 12 move")
	// Output:
	// before: 0 to move
	// a fourth has come: 4 of 12 move
}
