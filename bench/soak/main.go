// Command soak shows whether a long life makes a node larger. It runs node processes under
// load, and drains, kills, restarts, pauses and cuts some of them all the time. Some nodes keep
// their process to the end. After each fault the command samples what those processes take: memory,
// goroutines, descriptors, tombstones and others. At the end it fits a line to each figure.
//
//	go run ./bench/soak --for 4h
//	go run ./bench/soak --for 2m
//
// Cuts need root, Linux, and the programs ip and nft; without them the other faults are played.
//
// It prints a table with the growth of each figure, its standard error and a verdict, and
// writes the samples to a file. It exits with 0 if every figure is flat (PASS), with 1 if one
// grows (FAIL), and with 2 if the run shows neither (UNKNOWN) or could not be played.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/internal/harness/namespace"
)

func main() {
	o := options{}
	flag.DurationVar(&o.lasting, "for", 4*time.Hour, "how long to run")
	flag.DurationVar(&o.warmUp, "warm-up", 0, "how long to run before the samples count (default: a quarter of --for)")
	flag.IntVar(&o.nodes, "nodes", 5, "node processes, 3 to 9")
	flag.IntVar(&o.spared, "spared", 3, "nodes that keep their process to the end, and are sampled")
	flag.IntVar(&o.counters, "counters", 64, "counters that the nodes ask")
	flag.DurationVar(&o.every, "every", 100*time.Millisecond, "interval of the asks to each counter")
	flag.DurationVar(&o.calm, "calm", 2*time.Second, "pause behind each fault, in which samples are taken")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the faults (default: random)")
	flag.BoolVar(&o.cuts, "cuts", os.Getuid() == 0 && haveTools(), "cut the network, too")
	flag.StringVar(&o.out, "out", "peerage-soak.json", "`file` for the samples and the verdict")
	flag.StringVar(&o.keep, "keep", "", "`directory` for logs and heap profiles (default: a temporary one, removed after PASS)")
	flag.StringVar(&o.binary, "binary", "", "the `program` of the nodes (default: build ./cmd/peerage)")
	flag.StringVar(&o.apartFrom, "apart-from", "", "set by this program for itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := runSoak(ctx, o)
	stop()
	if err != nil {
		// The errors of a fleet end with the logs of all nodes, which are in the directory, too.
		first, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintln(os.Stderr, "soak:", first)
	}
	os.Exit(code)
}

// haveTools reports whether the programs are here that cuts need.
func haveTools() bool {
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

// runSoak plays the soak, in a network namespace of its own if there are cuts, and returns the exit
// code.
func runSoak(ctx context.Context, o options) (int, error) {
	if err := o.complete(); err != nil {
		return exitUnknown, err
	}
	dir, err := o.directory()
	if err != nil {
		return exitUnknown, err
	}
	if o.binary == "" {
		o.binary = filepath.Join(dir, "peerage")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/peerage")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return exitUnknown, fmt.Errorf("building the nodes' program: %w", err)
		}
	}
	if o.cuts && o.apartFrom == "" {
		args := append(os.Args[1:], "--binary", o.binary, "--keep", dir, "--seed", fmt.Sprint(o.seed))
		code, err := namespace.RunApart(ctx, nil, args, true, os.Stdout, os.Stderr)
		if code == exitPass && err == nil && o.keep == "" {
			os.RemoveAll(dir)
		}
		return code, err
	}
	r, err := playSoak(ctx, o, dir)
	if r != nil {
		fmt.Print(r)
		err = errors.Join(err, r.save(o.out))
	}
	if err != nil {
		return exitUnknown, err
	}
	if r.Verdict == Pass && o.keep == "" {
		os.RemoveAll(dir)
	}
	return exitCodes[r.Verdict], nil
}

const (
	exitPass    = 0
	exitUnknown = 2
)

// exitCodes are those of the verdicts.
var exitCodes = map[Verdict]int{Pass: exitPass, Fail: 1, Unknown: exitUnknown}
