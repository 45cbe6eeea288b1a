// Package harness holds what the programs share that run nodes as processes: the lines that
// a node writes for its parent, a client of its HTTP API, bounds, figures and the machine's
// description. The programs are its sub-packages: a node that serves counters (server, load),
// processes that come and go (fleet, namespace), and what is done with them (faults, chaos,
// demo, bench). cmd/peerage parses their flags; errors and verdicts are returned to it.
package harness
