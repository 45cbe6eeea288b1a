package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// options holds the flags.
type options struct {
	lasting, warmUp time.Duration
	nodes, spared   int
	counters        int
	every, calm     time.Duration
	seed            uint64
	cuts            bool
	out, keep       string
	// binary is the program of the nodes. apartFrom is set in the namespace of a run with cuts.
	binary, apartFrom string
}

// complete checks the flags, and fills those that depend on others.
func (o *options) complete() error {
	if o.nodes < 3 || o.nodes > 9 || o.spared < 1 || o.spared > o.nodes-1 {
		return fmt.Errorf("--nodes is %d and --spared %d: choose 3 to 9 nodes, and spare one to all but one", o.nodes, o.spared)
	}
	if o.lasting < time.Minute {
		return fmt.Errorf("--for is %v: choose a minute or more", o.lasting)
	}
	if o.warmUp == 0 {
		o.warmUp = o.lasting / 4
	}
	if o.warmUp >= o.lasting {
		return fmt.Errorf("--warm-up is %v: choose less than --for, %v", o.warmUp, o.lasting)
	}
	// The profiles show what small objects take.
	if os.Getenv("GODEBUG") == "" {
		os.Setenv("GODEBUG", "memprofilerate=8192")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	return nil
}

// directory makes the directory of logs and histories.
func (o *options) directory() (string, error) {
	if o.keep != "" {
		return o.keep, os.MkdirAll(o.keep, 0o777)
	}
	return os.MkdirTemp("", "peerage-soak-")
}
