package protocol

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Limits of the protocol.
const (
	// ShardsMax is the largest number of shards of one type. Every message but HostShards
	// holds that many entries at most, and so fits a control frame of 1 MiB.
	ShardsMax = 1 << 15
	// HostOrdersMax bounds the orders of one HostShards, which have two tokens each. Further
	// orders are sent in messages of their own.
	HostOrdersMax = ShardsMax / 2
	// TypeBytesMax bounds the name of an entity type.
	TypeBytesMax = 256
	// HeldMax bounds the entries of CensusReport.Held: with ShardsMax claims beside
	// them the report still fits a frame.
	HeldMax = 3072
)

// ShardID is the number of a shard.
type ShardID = strategy.ShardID

// RecordState is the meaning of a record.
type RecordState uint8

const (
	// Allocated: the shard's home is Record.Home under Record.Token.
	Allocated RecordState = iota + 1
)

// Record is the replicated entry of one shard: a value of the type's LWW-map,
// ordered by Token. It is written before any node acts on it, and names the home where
// the shard may run. Only the hosts can report where it does run (see the census).
type Record struct {
	Shard ShardID
	Home  gossip.NodeID
	Token Token
	State RecordState
	// From is the former home if the shard was handed off in order for this
	// allocation, and Ended the token under which it had the shard, as in HostOrder.
	From  gossip.NodeID
	Ended Token
	// Moves counts the shard's latest moves, those without a time of calm between
	// them; Since is the view's epoch at the first of them. Only strategies use
	// them: no guarantee rests on them.
	Moves uint8
	Since gossip.Epoch
}

// ShardToken names one allocation of a shard, or one move of it.
type ShardToken struct {
	Shard ShardID
	Token Token
}

// Home is the node that hosts a shard, and the token it hosts it under.
type Home struct {
	Shard ShardID
	Node  gossip.NodeID
	Token Token
}

// HostOrder orders a region to start a shard under Token.
type HostOrder struct {
	Shard ShardID
	Token Token
	// From is the former home if the shard was handed off in order: its state may
	// come from there. Zero otherwise.
	From gossip.NodeID
	// Ended is the token of the allocation that ended at From, zero if From is. The shard
	// begins with the state of that allocation only: if From has hosted the shard several
	// times, the receiver may hold an older state from there.
	Ended Token
}

// HandOffOrder orders the owner to stop a shard.
type HandOffOrder struct {
	Shard ShardID
	// Token is that of the allocation: it and all below must stop.
	Token Token
	// Move is the stamp of the move.
	Move Token
	// To is the new home if it is chosen already, zero otherwise.
	To gossip.NodeID
}

// ClaimState is how far a shard has started or stopped on a node.
type ClaimState uint8

const (
	// ClaimHosted: it runs.
	ClaimHosted ClaimState = iota + 1
	// ClaimStopping: it is being stopped, and Stopped will follow.
	ClaimStopping
	// ClaimStarting: it is being started, and takes no message yet. Hosted will follow.
	ClaimStarting
)

// Claim is one line of a census report: this node hosts Shard under Token.
type Claim struct {
	Shard ShardID
	Token Token
	State ClaimState
	// To is where the state is sent, with ClaimStopping; zero if nowhere.
	To gossip.NodeID
}

// Held is one line of a census report: the state of Shard, as it was at the end
// of the allocation Token at From, waits at this node for the shard to be started
// here, or at To if Away is set.
type Held struct {
	Shard ShardID
	Token Token
	From  gossip.NodeID
	// To is where From, if it is the reporter, has sent the state; zero if nowhere.
	To gossip.NodeID
	// Term is the newest term that From is sure to have obeyed before the shard had stopped.
	// So every later allocation is of the generation of Term or of a later one, whatever the
	// generation of Token. NewestTerm disregards Term: it may be above the reporter's view.
	Term gossip.Epoch
	// Away is set if the state waits at To and not at the reporter, which is From: it has sent
	// the state and had no room to keep it.
	Away bool
}
