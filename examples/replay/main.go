// Command replay sends a stream of events through a cluster of three processes,
// one entity per file named in the stream, and compares what each entity has
// added up with one straight pass over the stream.
//
//	go run ./examples/replay --file events.csv.gz
//
// The stream has the columns unix_seconds,entity,added,deleted. Without --file
// and without PEERAGE_REPLAY_FILE in the environment, a small synthetic stream is
// used.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

//go:embed sample.csv
var sample []byte

func main() {
	if err := replayFile(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func replayFile(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	file := flags.String("file", os.Getenv("PEERAGE_REPLAY_FILE"), "stream of events, .csv or .csv.gz")
	member := flags.String("member-of", "", "(internal) run as a member of the cluster with this `list` of addresses")
	listen := flags.String("listen", "", "(internal) the `address` in that list to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *member != "" {
		return beMember(ctx, *listen, strings.Split(*member, ","))
	}
	events, err := loadEvents(*file)
	if err != nil {
		return err
	}
	return replay(ctx, events, out)
}

func loadEvents(path string) ([]event, error) {
	if path == "" {
		return readEvents(bytes.NewReader(sample))
	}
	return readFile(path)
}
