// Package strategy decides where shards live: LeastShards, Weighted,
// ConsistentHashing, External, or the application's own. It is pure: a
// strategy sees a snapshot and answers, and the coordinator does the rest.
package strategy

import (
	"strconv"

	"github.com/peerage-go/peerage/gossip/view"
)

// ShardID is the number of a shard, from 0 to the type's number of shards less 1.
type ShardID uint32

// String returns the number in decimal.
func (s ShardID) String() string { return strconv.FormatUint(uint64(s), 10) }

// Strategy places shards. It is called on one thread, by the coordinator that is
// in office, and must not keep or change what it is given. Equal input must give
// equal output: a strategy has no clock and no randomness. One that panics is logged, and
// the coordinator goes on without its answer.
type Strategy interface {
	// Allocate names the region for a shard that has none. It must be one of
	// s.Regions that is Eligible; any other answer makes the coordinator fall back
	// to the most suitable one. Requester is the node that asked first, zero when
	// nobody did.
	Allocate(s *State, shard ShardID, requester view.NodeID) view.NodeID
	// Rebalance names shards to move, in order of urgency, at most a round's worth;
	// Allocate then says whither, with the shard counted out of its present home. It
	// is called at every rebalance tick.
	Rebalance(s *State) []ShardID
}

// State is a snapshot of who hosts what.
type State struct {
	// Regions are the hosting regions known to the coordinator, most senior first.
	Regions []Region
	// Moving counts the shards whose move is under way.
	Moving int
	// Unsettled says why this is no good time to move shards, "" if it is one: members
	// join, are silent, or run different versions.
	Unsettled string
	// Shards is the type's number of shards.
	Shards int
	// Moved says what the shards have been through that moved lately, and has no entry
	// for the others.
	Moved map[ShardID]Moved
	// Wanted are the names of the nodes where the application wants shards, as far as
	// it said. Only External looks at it.
	Wanted map[ShardID]string
}

// Region is one hosting region.
type Region struct {
	Node view.NodeID
	// Name is the node's stable label: it survives restarts.
	Name string
	// Joined is the epoch of the view in which the node joined.
	Joined view.Epoch
	// AppVersion is the node's version of the application.
	AppVersion string
	// Capacity is how much the node says it can carry, in relation to others; 1 if it
	// says nothing.
	Capacity uint32
	// Leaving regions lose their shards and get none.
	Leaving bool
	// Silent regions do not answer at present; they get no shards meanwhile.
	Silent bool
	// Shards are those placed here, the longest placed first. A shard that moves
	// hither is among them already.
	Shards []ShardID
}

// Eligible reports whether r may be given shards.
func (r *Region) Eligible() bool { return !r.Leaving && !r.Silent }

// Region returns the entry of node, or nil.
func (s *State) Region(node view.NodeID) *Region {
	for i := range s.Regions {
		if s.Regions[i].Node == node {
			return &s.Regions[i]
		}
	}
	return nil
}
