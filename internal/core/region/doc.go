// Package region is the pure core of one entity type on one node. It has the homes of
// all shards, decides which of them run here, and keeps the promises on which single
// homes rest. A proxy is a region that never hosts.
//
// docs/architecture/handoff.md shows its part in a move, docs/architecture/election.md how it
// finds the coordinator, with a table of its states.
//
// It handles shards, never messages: those stay in the routes of the shell, which
// the core opens and closes.
package region
