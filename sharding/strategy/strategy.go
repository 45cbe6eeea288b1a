// Package strategy decides where shards live: LeastShards, Weighted, ConsistentHashing,
// External, or the application's own strategy. It is pure: a strategy gets a snapshot and
// returns a decision, which the coordinator carries out.
package strategy

import (
	"strconv"

	"github.com/peerage-go/peerage/gossip"
)

// ShardID is the number of a shard, from 0 to the type's number of shards less 1.
type ShardID uint32

// String returns the number in decimal.
func (s ShardID) String() string { return strconv.FormatUint(uint64(s), 10) }

// Strategy decides where shards live. The coordinator calls it on one thread. It must not
// keep or change its arguments. Equal input must give equal output: a strategy has no clock
// and no randomness. If it panics, the panic is logged, and the coordinator continues
// without its result.
type Strategy interface {
	// Allocate returns the region for a shard that has none. It must be one of s.Regions
	// that is Eligible; otherwise the coordinator uses the most suitable one. It is called
	// only while at least one is. requester is the node that asked first, zero if none did.
	Allocate(s *State, shard ShardID, requester gossip.NodeID) gossip.NodeID
	// Rebalance returns the shards to move, the most urgent first, at most those of one
	// round. The coordinator then calls Allocate for each of them, with the shard removed
	// from its present home. It is called at every rebalance tick.
	Rebalance(s *State) []ShardID
}

// State is a snapshot of which region hosts which shards.
type State struct {
	// Regions are the coordinator's hosting regions, most senior first.
	Regions []Region
	// Moving is the number of shards that are moving.
	Moving int
	// Unsettled is the reason why shards should not move now, "" if there is none: members
	// join, are silent, or run different versions.
	Unsettled string
	// Shards is the type's number of shards.
	Shards int
	// Moved has an entry for each shard that moved lately.
	Moved map[ShardID]Moved
	// Wanted holds the names of the nodes where the application wants shards, for shards
	// that it has placed. Only External reads it.
	Wanted map[ShardID]string
	// RequesterZone is the Config.Zone of the requester of Allocate, which need not host shards; ""
	// if it is not set, and in Rebalance.
	RequesterZone string
}

// Region is one hosting region.
type Region struct {
	Node gossip.NodeID
	// Name is the node's stable name: it survives restarts.
	Name string
	// Zone is the node's Config.Zone, "" if it is not set.
	Zone string
	// Joined is the epoch of the view in which the node joined.
	Joined gossip.Epoch
	// AppVersion is the node's version of the application.
	AppVersion string
	// Capacity is the node's Config.Capacity, relative to other nodes; 1 if it is not set.
	Capacity uint32
	// Leaving regions lose their shards and get none.
	Leaving bool
	// Silent regions do not respond at present; they get no shards meanwhile.
	Silent bool
	// Shards are those placed here, the longest placed first. They include shards that are
	// moving here.
	Shards []ShardID
}

// Eligible reports whether r may be given shards.
func (r *Region) Eligible() bool { return !r.Leaving && !r.Silent }

// Region returns the entry of node, or nil.
func (s *State) Region(node gossip.NodeID) *Region {
	for i := range s.Regions {
		if s.Regions[i].Node == node {
			return &s.Regions[i]
		}
	}
	return nil
}
