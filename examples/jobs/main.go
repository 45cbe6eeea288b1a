// Command jobs runs jobs at intervals, each on one node of a cluster at a time. It starts
// three nodes in this process and a job, and crashes the node that runs it:
//
//	go run ./examples/jobs
//
// docs/howto/jobs.md explains it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/sharding"
)

func main() { os.Exit(runExample()) }

// report is a run as its receiver gets it.
type report struct {
	execution
	node string
}

// runExample starts the nodes, watches the job, and returns the exit code.
func runExample() int {
	ran := make(chan report, 16)
	start := func(ctx context.Context, cfg peerage.Config) (*peerage.Node, *jobs, error) {
		return startJobs(ctx, cfg, func(e execution) error {
			select {
			case ran <- report{e, cfg.Name}:
				return nil
			default:
				return errors.New("the receiver has too many runs to read")
			}
		})
	}
	return trio.Main("jobs", start, func(ctx context.Context, nodes []trio.Member[*jobs]) error {
		return watchJob(ctx, nodes, ran)
	})
}

// startJobs starts a node that runs jobs, and returns it with their region.
func startJobs(ctx context.Context, cfg peerage.Config, execute func(execution) error) (*peerage.Node, *jobs, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), jobType(execute))
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}

// watchJob starts a job, receives its runs, and crashes the node that runs it after the
// second one. A run whose number had no copies yet comes again, and is skipped.
func watchJob(ctx context.Context, nodes []trio.Member[*jobs], ran <-chan report) error {
	if _, err := nodes[0].Service.Ask(ctx, "report", order{Every: 500 * time.Millisecond}); err != nil {
		return err
	}
	for last := 0; last < 4; {
		select {
		case r := <-ran:
			if r.Number <= last {
				continue
			}
			last = r.Number
			fmt.Printf("run %d of %s\n", r.Number, r.Job)
			if last != 2 {
				continue
			}
			if err := nodes[r.node[0]-'a'].Close(); err != nil { // abrupt, as in a crash
				return err
			}
			fmt.Println("its node crashes")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
