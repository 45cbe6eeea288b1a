// Package load is what nodes of the harness host and ask for: counters, callers that ask
// them again and again, and replicated data that is written and read. All of it is recorded
// in histories.
package load
