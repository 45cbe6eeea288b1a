// Command scale shows how the work of a cluster grows with the number of its nodes. It plays the
// view cores of production in virtual time, over the network of the simulator and under its checks:
// forming, a second at rest, a tenth that joins, a tenth that is killed, the leader killed, a
// third cut off, and a rolling restart. For each it prints the virtual time until all living nodes
// agree on a view, the bytes of messages that the nodes sent meanwhile, and the exponent of their
// growth.
//
//	go run ./bench/scale --nodes 1000
//	go run ./bench/scale --nodes 100 --json
//
// With --types it plays the coordinator and region cores of so many entity types, too: forming, all
// shards of all types asked for by one node, a second at rest, a node that joins and gets its part,
// the coordinator killed, a tenth killed, and a rolling restart that hands shards over. A scene ends
// when each shard runs at one node, to which the routes of the asker lead. The table has the time of
// the wall clock in the steps of these cores, too.
//
//	go run ./bench/scale --nodes 1000 --shards 10000 --types 10
//	go run ./bench/scale --nodes 10 --shards 32768 --types 1 --grow-shards
//
// Sizes that do not fit into the budget of time, --within, are named as missing. Not played are
// discovery, TCP, replicators (the coordinators' records cost no bytes), entities and their messages.
//
// With --processes it starts that many processes of `peerage node` on 127.0.0.0/8 instead, and
// measures them.
//
//	go run ./bench/scale --processes 50
//
// It exits with 0, with 1 if a scene could not be played or a check failed, and with 2 if the flags
// are wrong.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	o := options{}
	flag.IntVar(&o.nodes, "nodes", 1000, "largest cluster, 10 to 2000; 10, 30, 100, 300 and 1000 below it are played, too")
	flag.IntVar(&o.processes, "processes", 0, "start so many processes on this machine instead, 3 to 200")
	flag.IntVar(&o.shards, "shards", 1000, "shards of each entity type, 1 to 32768")
	flag.IntVar(&o.types, "types", 0, "entity types, 0 to 100; without one only views are played")
	flag.BoolVar(&o.grow, "grow-shards", false, "play --nodes nodes with 1000, 3000, 10000 shards and --shards, not clusters of several sizes")
	flag.IntVar(&o.restarts, "restarts", 10, "how many nodes the rolling restart restarts in turn, 0 for all")
	flag.DurationVar(&o.within, "within", 5*time.Minute, "how long to play")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the latencies and faults")
	flag.BoolVar(&o.json, "json", false, "print rows of JSON")
	flag.Parse()
	if flag.NArg() > 0 || !o.valid() {
		flag.Usage()
		os.Exit(2)
	}
	play := playAll
	if o.processes > 0 {
		play = playProcesses
	}
	if err := play(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// sizesUpTo lists the sizes to play.
func sizesUpTo(most int, steps ...int) (sizes []int) {
	for _, n := range steps {
		if n < most {
			sizes = append(sizes, n)
		}
	}
	return append(sizes, most)
}

// runsOf lists what to play, from the smallest.
func runsOf(o options) (runs []options) {
	if o.grow {
		for _, o.shards = range sizesUpTo(o.shards, 1000, 3000, 10000) {
			runs = append(runs, o)
		}
		return runs
	}
	for _, o.nodes = range sizesUpTo(o.nodes, 10, 30, 100, 300, 1000) {
		runs = append(runs, o)
	}
	return runs
}

// playAll plays all sizes as far as the budget of time lasts.
func playAll(o options, out io.Writer) error {
	until := time.Now().Add(o.within)
	var rows []Row
	var failed error
	for _, one := range runsOf(o) {
		err := playSize(one, until, func(r Row) {
			rows = append(rows, r)
			if !o.json && r.Missing == "" {
				fmt.Fprintf(os.Stderr, "%d nodes, %d shards of %d types, %s: %.1f s\n", r.Nodes, r.Shards, r.Types, r.Scene, r.Wall)
			}
		})
		if err != nil && !errors.Is(err, errBudget) {
			failed = errors.Join(failed, fmt.Errorf("%d nodes: %w", one.nodes, err))
		}
	}
	if o.json {
		return errors.Join(failed, json.NewEncoder(out).Encode(rows))
	}
	printTable(out, rows, o)
	return failed
}
