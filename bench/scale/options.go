package main

import "time"

// options holds the flags.
type options struct {
	nodes, processes int
	restarts         int
	within           time.Duration
	seed             uint64
	json             bool
}
