// Package protocol holds what the coordinator of an entity type and the regions
// say to each other: shard numbers, fencing tokens, allocation
// records and messages with their encoding. It is pure.
//
// # Messages
//
//	region -> coordinator            coordinator -> region
//	Register      I am here          RegisterAck    I am in office
//	GetHome       who hosts these?   Homes          these are hosted there
//	ShardsHosted  started            HostShards     start these
//	BeginAck      routes closed      Begin          a move begins: close your routes
//	Stopped       stopped, floored   HandOff        stop these
//	                                 StoppedAck     heard of it
//	CensusReport  what runs here     CensusRequest  what runs at yours?
//	Drain         take all from me   Drained        all is taken
//	Refused       your term is old
//	Seen          your probe came
//
// Every message may be lost, doubled, delayed and overtaken. Orders (HostShards,
// Begin, HandOff, CensusRequest) are idempotent and sent again until they are
// answered or overtaken; so is Stopped, until StoppedAck.
//
// # Stamps
//
// A coordinator draws tokens, the numbers of moves and the Seq of its messages
// from one counter: (Term, Seq) of a message is a stamp that orders it against
// everything else that was said about a shard, whatever the network did.
package protocol
