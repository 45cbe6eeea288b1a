// Command scale shows how the work of a cluster grows with the number of its nodes. It plays the
// view cores of production in virtual time, over the network of the simulator and under its checks:
// forming, a second at rest, a tenth that joins, a tenth that is killed, the leader killed, a
// third cut off, and a rolling restart. For each it prints the virtual time until all living nodes agree on a view, the
// bytes of messages that the nodes sent meanwhile, and the exponent of their growth.
//
//	go run ./bench/scale --nodes 1000
//	go run ./bench/scale --nodes 100 --json
//
// Sizes that do not fit into the budget of time, --within, are named as missing. Discovery, TCP,
// replicated data and entity types are not played, so there are no flags for shards and types yet.
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
	flag.IntVar(&o.restarts, "restarts", 10, "how many nodes the rolling restart restarts in turn, 0 for all")
	flag.DurationVar(&o.within, "within", 5*time.Minute, "how long to play")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the latencies and faults")
	flag.BoolVar(&o.json, "json", false, "print rows of JSON")
	flag.Parse()
	if flag.NArg() > 0 || o.nodes < 10 || o.nodes > 2000 || o.restarts < 0 || o.processes != 0 && (o.processes < 3 || o.processes > 200) {
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

// sizesUpTo lists the clusters to play.
func sizesUpTo(nodes int) (sizes []int) {
	for _, n := range []int{10, 30, 100, 300, 1000} {
		if n < nodes {
			sizes = append(sizes, n)
		}
	}
	return append(sizes, nodes)
}

// playAll plays all sizes, from the smallest, as far as the budget of time lasts.
func playAll(o options, out io.Writer) error {
	until := time.Now().Add(o.within)
	var rows []Row
	var failed error
	for _, n := range sizesUpTo(o.nodes) {
		err := playSize(n, o, until, func(r Row) {
			rows = append(rows, r)
			if !o.json && r.Missing == "" {
				fmt.Fprintf(os.Stderr, "%d nodes, %s: %.1f s\n", r.Nodes, r.Scene, r.Wall)
			}
		})
		if err != nil && !errors.Is(err, errBudget) {
			failed = errors.Join(failed, fmt.Errorf("%d nodes: %w", n, err))
		}
	}
	if o.json {
		return errors.Join(failed, json.NewEncoder(out).Encode(rows))
	}
	printTable(out, rows)
	return failed
}
