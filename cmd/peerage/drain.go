package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

const drainUsage = `usage: peerage drain [flags] HOST:PORT

Takes the node with the HTTP API at HOST:PORT out of its cluster, in order: it is no
longer ready, it hands over its shards with all messages that wait for them, and it
leaves. The process keeps running without a cluster; end it with SIGTERM. Draining again
is safe and waits for the same drain. Exit code 1 if the node did not answer in time; the
drain continues even so.

`

func drainNode(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("drain", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, drainUsage); flags.PrintDefaults() }
	patience := flags.Duration("timeout", time.Minute, "how long to wait until the node has left")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "peerage drain: name one node by the host:port of its HTTP API")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	d, err := harness.DrainAt(ctx, flags.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "peerage drain:", err)
		return exitFailed
	}
	fmt.Fprintf(stdout, "%s (%s) has left its cluster, %.0f ms after it was asked\n", d.Name, d.Node, d.TookMS)
	return exitOK
}
