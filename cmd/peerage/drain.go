package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness"
)

const drainHelp = `Takes the node with the HTTP API at HOST:PORT out of its cluster, in order: it is no
longer ready, it hands over its shards with all messages that wait for them, and it
leaves. The process keeps running without a cluster; end it with SIGTERM. Draining again
is safe and waits for the same drain. The drain continues even if the node does not answer
in time.`

func (p *program) drainCommand() *cobra.Command {
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "drain HOST:PORT", Short: "hand a node's shards over, and take it out of its cluster", Long: drainHelp,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(errors.New("name one node by the host:port of its HTTP API"))
			}
			return p.drainNode(args[0], patience)
		},
	}
	cmd.Flags().DurationVar(&patience, "timeout", time.Minute, "how long to wait until the node has left")
	return cmd
}

func (p *program) drainNode(addr string, patience time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := harness.DrainAt(ctx, addr)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(d)
	}
	fmt.Fprintf(p.stdout, "%s (%s) has left its cluster, %.0f ms after it was asked\n", d.Name, d.Node, d.TookMS)
	return nil
}
