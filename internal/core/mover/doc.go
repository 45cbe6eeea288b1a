// Package mover moves the states of a shard's entities to its next home in a handoff. It is a
// core: its user transmits its chunks and acknowledgements, and calls it under one lock.
//
//	old home: stop the entities, gather their states: Core.Begin
//	          Departure.Next -- chunk, chunk, ... -->  Core.OnChunk :new home
//	          Core.OnAck <---- next number ----------               hold them
//	          all acknowledged, or time-out: Stopped, to the coordinator
//
// Then the handoff continues: the record is written, and HostShards starts the shard. So the
// new home has the states before it is asked to start, and never waits. Package chunks has the
// numbers, the window and the retransmissions; a chunk has whole states.
//
// Invariant: a shard starts with all states of its former allocation, or with none: entities
// with states would contradict entities without. States start only a later allocation than
// theirs.
//
// Both homes hold the states, and their region cores track them, until the shard runs under a
// later token. So a new coordinator can continue a handoff of its predecessor. If the new home
// dies before it has the states, they go to another one. If it begins to leave, it still starts
// the shard, and hands it off.
//
// A state is lost when its shard runs without it. The old home counts states that never
// arrived as lost when it learns that the shard runs, or when it leaves. The new home counts
// states that it held and that its shard did not start with. It cannot learn that the old home
// has sent them elsewhere since, or started the shard itself: then it counts states that are
// not lost. That is rare: the coordinator must have passed over a silent new home.
//
// The bytes of all held states are bounded. The first chunk reserves room for its whole
// transfer. A transfer without room is not acknowledged: the old home begins again, at growing
// intervals, until its time is over. A partial transfer makes room when no chunk of it has come
// for a while; a whole one waits until its shard runs.
//
// Rejected: the new home fetches the states when it starts. The shard would be down for
// longer, and the old home would hold states for a node that may never come.
package mover
