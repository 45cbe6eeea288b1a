// Command pace compares how quickly this tree and another commit handle messages. It compiles the
// benchmarks of package sharding of both, and runs them in turns on this machine.
//
//	go run ./bench/pace                       # this tree with HEAD^
//	go run ./bench/pace --with v0.1.0 --turns 5
//	go run ./bench/pace --processors          # this tree with one processor and with two
//
// It shows the time and the processor time of a message, of both sides together, as medians, and
// the ratios of each turn. A measure that is more than 10 % slower in every turn, in time or in
// processor time, is played again as often. The command exits with 1 if it is slower in all of these
// as well, and with 2 if it could not measure.
//
// With --processors it shows how many times as many messages two processors handle as one, where many
// send. That is a figure to read, and never fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	o := options{}
	flag.StringVar(&o.with, "with", "HEAD^", "commit to compare with")
	flag.IntVar(&o.turns, "turns", 3, "how often each is played, 1 to 100")
	flag.Float64Var(&o.scale, "scale", 1, "messages of a run, as a multiple of the usual number, 0.001 to 100")
	flag.BoolVar(&o.processors, "processors", false, "compare one processor with two instead")
	flag.Parse()
	if flag.NArg() > 0 || o.turns < 1 || o.turns > 100 || o.scale < 0.001 || o.scale > 100 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := measurePace(ctx, o)
	switch {
	case errors.Is(err, errSlower):
		fmt.Fprintln(os.Stderr, "pace:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "pace:", err)
		os.Exit(2)
	}
}

func measurePace(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "pace")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := rootOf(ctx)
	if err != nil {
		return err
	}
	here := &build{name: "this tree", binary: filepath.Join(dir, "here")}
	if err := here.compile(ctx, root); err != nil {
		return err
	}
	if o.processors {
		return showProcessors(ctx, here, o, os.Stdout)
	}
	there := &build{name: o.with, binary: filepath.Join(dir, "there")}
	tree := filepath.Join(dir, "tree")
	if err := export(ctx, root, o.with, tree); err != nil {
		return err
	}
	if err := there.compile(ctx, tree); err != nil {
		return err
	}
	return compareBuilds(ctx, here.playOnce, there.playOnce, o, os.Stdout)
}
