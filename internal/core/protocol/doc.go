// Package protocol holds the messages between the coordinator of an entity type and its
// regions: shard numbers, fencing tokens, allocation
// records and messages with their encoding. It is pure.
//
// # Messages
//
//	region -> coordinator            coordinator -> region
//	Register      register me        RegisterAck    registered, I am in office
//	GetHome       homes of these?    Homes          these are hosted there
//	ShardsHosted  started            HostShards     start these
//	BeginAck      routes closed      Begin          a move begins: close your routes
//	Stopped       stopped, floored   HandOff        stop these
//	                                 StoppedAck     received
//	CensusReport  what runs here     CensusRequest  report what runs there
//	Drain         take all from me   Drained        all is taken
//	Refused       your term is old
//	Seen          your probe came
//
// Every message may be lost, duplicated, delayed and overtaken. Orders (HostShards,
// Begin, HandOff, CensusRequest) are idempotent and retransmitted until they are
// answered or superseded; so is Stopped, until StoppedAck.
//
// # Stamps
//
// A coordinator draws tokens, the numbers of moves and the Seq of its messages
// from one counter: (Term, Seq) of a message is a stamp that orders it against
// all other messages about a shard, independently of their order of arrival.
package protocol
