// Package replica keeps CRDT values under keys, one replicator per role, and spreads them to
// the members of the view that have the role. It is the shell of package replication: one
// goroutine, the timers, the subscribers, the file of durable keys.
//
// Applications use it through package ddata, with the levels and errors of package
// replicator.
package replica
