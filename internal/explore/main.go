// The explore command visits all states of the composed cores of coordinator and region, for
// three nodes and two shards, within the bounds of its plans: every order of messages, views,
// timers and results, and every place for a few faults. It checks each state. It is the second
// half of `.ci/spec`; the first is TestExplore of internal/core/view. Run it from the module's
// root:
//
//	go run ./internal/explore                  # all plans; about a minute on two cores
//	go run ./internal/explore -full            # every kind of fault in every plan; hours
//	go run ./internal/explore -plan "a move"   # one plan
//	go run ./internal/explore -actions         # how often each action was taken
//
// docs/SPECIFICATION.md shows what is explored, what is assumed, and the code of each action.
//
// The exit code is 1 if a check fails, if a plan did not come to its end, or if no plan took
// some action. The path to the failure is printed, an action a line.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// statesMax bounds a plan that must come to its end, fullMax one of the long form.
const (
	statesMax = 400_000
	fullMax   = 20_000_000
)

func main() { os.Exit(runCommand(os.Args[1:], os.Stdout, os.Stderr)) }

func runCommand(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("explore", flag.ContinueOnError)
	flags.SetOutput(stderr)
	full := flags.Bool("full", false, "play every kind of fault in every plan, up to 20 million states each")
	name := flags.String("plan", "", "play only the plan of this `name`")
	actions := flags.Bool("actions", false, "print how often each action was taken")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}
	most := statesMax
	if *full {
		most = fullMax
	}
	var chosen []plan
	for _, p := range plans(*full) {
		if *name == "" || p.name == *name {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintf(stderr, "explore: no plan is named %q\n", *name)
		return 2
	}
	all, ok := playAll(stdout, chosen, most)
	if *actions {
		for _, l := range links {
			fmt.Fprintf(stdout, "%-28s %10d\n", l.action, all.taken[l.action])
		}
	}
	if *name == "" {
		for _, missing := range all.untaken() {
			ok = false
			fmt.Fprintf(stdout, "no plan took the action %q\n", missing)
		}
	}
	if !ok {
		return 1
	}
	return 0
}

// total sums up explorations.
type total struct {
	states, steps, ends int
	taken               map[string]int
}

// untaken returns the actions that were never taken.
func (t *total) untaken() (missing []string) {
	for _, l := range links {
		if t.taken[l.action] == 0 {
			missing = append(missing, l.action)
		}
	}
	return missing
}

// playAll plays plans on all processors, and prints a line for each in their order.
func playAll(out io.Writer, chosen []plan, most int) (all total, ok bool) {
	began := time.Now()
	results := make([]chan result, len(chosen))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var next sync.Mutex
	at := 0
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= len(chosen) {
					return
				}
				results[i] <- play(&chosen[i], most)
			}
		}()
	}
	ok, all.taken = true, map[string]int{}
	for i := range chosen {
		r := <-results[i]
		r.printTo(out)
		ok = ok && r.wrong == "" && !r.x.cut
		all.states, all.steps, all.ends = all.states+r.x.states, all.steps+r.x.steps, all.ends+r.x.ends
		for action, n := range r.x.taken { // order-free: a sum
			all.taken[action] += n
		}
	}
	fmt.Fprintf(out, "%-34s %8d states %8d steps %6d ends, in %v\n", "all plans", all.states, all.steps, all.ends, time.Since(began).Round(100*time.Millisecond))
	return all, ok
}

// result is an exploration that has ended.
type result struct {
	x     *explorer
	wrong string
	took  time.Duration
}

func play(p *plan, most int) result {
	began, x := time.Now(), newExplorer(p, most)
	wrong := x.explore()
	x.seen, x.served = nil, nil
	return result{x, wrong, time.Since(began)}
}

func (r *result) printTo(out io.Writer) {
	x := r.x
	fmt.Fprintf(out, "%-34s %8d states %8d steps %6d ends, longest path %3d, %v\n", x.plan.name, x.states, x.steps, x.ends, x.depth, r.took.Round(10*time.Millisecond))
	switch {
	case r.wrong != "":
		fmt.Fprintf(out, "%s\nFAIL %s: %s\n", x.retold(), x.plan.name, r.wrong)
	case x.cut:
		fmt.Fprintf(out, "FAIL %s: not at its end after %d states\n", x.plan.name, x.states)
	}
}
