// Command membership counts false removals in a cluster of real processes. The processes
// run membership only, on one machine that is kept busy. The command kills none of them, and
// counts suspicions, proofs of death, removals and lost leases.
//
//	go run ./bench/membership --nodes 9 --for 1h --burn 2
//
// With --burn 0 it shows what membership costs at rest: bytes sent and processor time of
// the leader and of the other members.
//
//	go run ./bench/membership --nodes 30 --for 1m --burn 0
//
// It prints a line every minute to standard error, and at the end one line of JSON
// and two of Markdown tables to standard output. It exits with 1 when a node was
// removed, a view lacked a living node, or a process ended by itself.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// options holds the flags that select the measurement.
type options struct {
	nodes, burn int
	lasting     time.Duration
	settle      time.Duration
}

func main() {
	if child := os.Getenv(childEnv); child != "" {
		runChild(child)
		return
	}
	var o options
	flag.IntVar(&o.nodes, "nodes", 9, "node processes")
	flag.DurationVar(&o.lasting, "for", time.Hour, "how long to count")
	flag.IntVar(&o.burn, "burn", 2, "processes that only burn CPU, at the nodes' priority")
	flag.DurationVar(&o.settle, "settle", 2*time.Minute, "how long the nodes may take to form one cluster before that")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sum, err := measure(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "membership:", err)
		os.Exit(2)
	}
	line, _ := json.Marshal(sum)
	fmt.Println(string(line))
	fmt.Print(sum.row())
	fmt.Print(sum.restRow())
	if sum.Removed+sum.ShortViews+sum.Ended > 0 {
		os.Exit(1)
	}
}

// measure runs the cluster and returns what was counted. An interrupt ends it early.
func measure(ctx context.Context, o options) (summary, error) {
	addrs, err := freeAddrs(o.nodes)
	if err != nil {
		return summary{}, err
	}
	t := newTally(o.nodes)
	defer t.stopChildren()
	for _, a := range addrs {
		if err := t.startChild(childSpec{Addr: a, Contacts: addrs, Idle: o.burn == 0}); err != nil {
			return summary{}, err
		}
	}
	if err := t.formed(ctx, o.settle); err != nil {
		return summary{}, err
	}
	if o.burn == 0 {
		select { // what forming has cost is not to count
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
	for range o.burn {
		if err := t.startChild(childSpec{Burn: true}); err != nil {
			return summary{}, err
		}
	}
	return t.countTraffic(ctx, o)
}

// rest is how long the nodes are left alone before their cost at rest is measured.
const rest = 10 * time.Second

var errNotFormed = errors.New("the nodes did not come to stand in one view")

// formed waits until every node stands in a view of all, with a lease.
func (t *tally) formed(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !t.allSettled() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return errNotFormed
		}
	}
	return nil
}

// countTraffic measures for the configured time and returns the summary.
func (t *tally) countTraffic(ctx context.Context, o options) (summary, error) {
	t.beginMeasuring()
	began, cpu := time.Now(), readCPU()
	var loads loadAverages
	end := time.NewTimer(o.lasting)
	defer end.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for going := true; going; {
		select {
		case <-end.C:
			going = false
		case <-ctx.Done():
			going = false
		case <-minute.C:
			loads.sample()
			s := t.summary()
			fmt.Fprintf(os.Stderr, "%s after %v: removed %d, short views %d, pauses %d, suspicions %d, proofs %d, busy %.1f %%, load %.1f\n",
				time.Now().Format(time.TimeOnly), time.Since(began).Round(time.Second), s.Removed, s.ShortViews, s.Pauses, s.Suspicions, s.Proofs, 100*readCPU().busySince(cpu), loads.latestLoad())
		}
	}
	loads.sample()
	s := t.summary()
	s.Nodes, s.Burners, s.Seconds = o.nodes, o.burn, time.Since(began).Seconds()
	s.Busy, s.LoadMean, s.LoadMost = readCPU().busySince(cpu), loads.mean(), loads.most()
	return s, nil
}
