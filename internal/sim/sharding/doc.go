// Package sharding models entity types on the processes of a run. It drives the region and
// coordinator cores as internal/placement does, and the data path with packages datapath and
// statemove; entities are bounded mailboxes with handlers that take time.
//
// Each process has a Node, with a Model for each entity type:
//
//	cores      the cores of coordinator and region, and the messages between them
//	records    the coordinator's store, in the replicator of the type's role
//	instances  shards that run here, their handlers and states
//	senders    callers that post tells and asks
//	workers    workers of a daemon, and their plan
//	entities   entities that always run or are remembered, with package entities
//	calls      asks that wait for their answers
//	outbox     answers that wait for room on the connections
//
// Invariants has the checkers of all processes, which receive every fact as it happens.
package sharding
