// Command compare measures peerage, protoactor-go and Pekko Cluster Sharding beside a raw
// connection: the same messages between the same number of processes on this machine, in one
// run, in turns. It is a module of its own, so that building peerage never needs the others.
//
//	go run . [-runs 3] [-seconds 5] [-systems raw,peerage,protoactor,pekko]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// options are the command line's.
type options struct {
	runs, seconds, messages, watch int
	systems                        []string
	json                           string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		exit(nodeMain(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(compareMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func compareMain(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.IntVar(&o.runs, "runs", 3, "how often each system is measured, in turns")
	f.IntVar(&o.seconds, "seconds", 5, "how long callers ask, after as long to warm up")
	f.IntVar(&o.messages, "messages", 2_000_000, "tells of a measurement; a fifth of them first, to warm up")
	f.IntVar(&o.watch, "watch", 60, "seconds that a killed process is watched; 0 kills none")
	f.StringVar(&o.json, "json", "", "write all results to this file")
	names := f.String("systems", "raw,peerage,protoactor,pekko", "what to measure; pekko needs Java 17 and Maven")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.systems = strings.Split(*names, ",")
	for _, s := range o.systems {
		if _, ok := systems[s]; !ok {
			return fmt.Errorf("-systems: no system %q", s)
		}
	}
	if min(o.runs, o.seconds, o.messages) < 1 || o.watch < 0 {
		return fmt.Errorf("-runs, -seconds and -messages must be positive, and -watch not negative")
	}
	defer removeBuilt()
	all, err := measureAll(ctx, &o, progress)
	if err != nil {
		return err
	}
	if o.json != "" {
		b, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	return printTable(out, &o, all)
}

// measured is one run of one system.
type measured struct {
	System string            `json:"system"`
	Run    int               `json:"run"`
	Values map[string]figure `json:"values"`
}

// figure is a measured value; CPU is the processor time of both processes, in seconds,
// zero where it was not taken.
type figure struct {
	result
	CPU float64 `json:"cpu_seconds,omitempty"`
}

// asked are the numbers of callers.
var asked = []int{1, 64, 256}

const tellSenders = 64

func measureAll(ctx context.Context, o *options, progress io.Writer) (all []measured, err error) {
	for run := range o.runs {
		for _, name := range o.systems {
			fmt.Fprintf(progress, "run %d of %d: %s\n", run+1, o.runs, name)
			m := measured{System: name, Run: run + 1, Values: map[string]figure{}}
			if err := measureMessages(ctx, name, o, m.Values); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if o.watch > 0 && name != "raw" {
				if err := measureKill(ctx, name, o.watch, m.Values); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// measureMessages starts a home and a caller, and lets the caller ask and tell.
func measureMessages(ctx context.Context, name string, o *options, values map[string]figure) error {
	g, err := startGroup(ctx, name, []string{"home", "caller"})
	if err != nil {
		return err
	}
	defer g.end()
	caller := g.nodes[1]
	if _, err := caller.do(fmt.Sprint("start ", remoteEntities)); err != nil {
		return err
	}
	for _, callers := range asked {
		line := fmt.Sprintf("ask %d %d", callers, o.seconds)
		if _, err := caller.do(line); err != nil { // warm up
			return err
		}
		if values[fmt.Sprint("ask ", callers)], err = g.metered(caller, line); err != nil {
			return err
		}
	}
	if _, err := caller.do(fmt.Sprintf("tell %d %d", tellSenders, max(o.messages/5, 1))); err != nil {
		return err
	}
	values["tell"], err = g.metered(caller, fmt.Sprintf("tell %d %d", tellSenders, o.messages))
	return err
}

// watched is the number of entities that are asked while a process is killed.
const watched = 60

// measureKill kills one of three processes with SIGKILL, and keeps the waits of
// the entities that it had.
func measureKill(ctx context.Context, name string, seconds int, values map[string]figure) error {
	g, err := startGroup(ctx, name, []string{"member", "member", "member"})
	if err != nil {
		return err
	}
	defer g.end()
	if _, err := g.nodes[0].do(fmt.Sprint("start ", watched)); err != nil {
		return err
	}
	victim := g.nodes[2]
	go func() {
		sleep(ctx, killAfter)
		victim.kill()
	}()
	r, err := g.nodes[0].do(fmt.Sprintf("watch %d %d", watched, seconds))
	if err != nil {
		return err
	}
	r.Waits = slices.DeleteFunc(r.Waits, func(w waited) bool { return w.First != victim.listen })
	if len(r.Waits) == 0 {
		return errors.New("the killed process had no entity")
	}
	values["kill"] = figure{result: r}
	return nil
}
