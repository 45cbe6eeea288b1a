package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
	"github.com/peerage-go/peerage/sharding"
)

const drainHelp = `Takes a member out of its cluster, in order: it is no longer ready, it hands over its
shards with all messages that wait for them, and it leaves. NODE is a name or NodeID, as
"peerage members" prints them. The process keeps running without a cluster; end it with
SIGTERM. Draining again is safe and waits for the same drain: ask the node itself then,
with --node. The drain continues even if the node does not answer in time.`

func (p *program) drainCommand() *cobra.Command {
	return p.lookCommand(&looker{
		use: "drain NODE", short: "hand a node's shards over, and take it out of its cluster", long: drainHelp, args: [2]int{1, 1}, patience: time.Minute,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			wait := p.progress() // states may take long to move
			d, err := c.Drain(ctx, args[0])
			wait.Stop()
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(d)
			}
			fmt.Fprintf(p.stdout, "%s (%s) has left its cluster, %.0f ms after it was asked\n", d.Name, d.Node, d.TookMS)
			return nil
		},
	})
}

const placeHelp = `Asks for a shard to live on the member of a name, now and whenever a member of that name
is there. --clear withdraws the wish. The type's strategy must be strategy.External, as
with "peerage node --strategy external".`

// placed is the JSON of `peerage place`.
type placed struct {
	Type  string           `json:"type"`
	Shard sharding.ShardID `json:"shard"`
	// Name is the wanted node's, "" if the wish was withdrawn.
	Name string `json:"name"`
}

func (p *program) placeCommand() *cobra.Command {
	clear := false
	cmd := p.lookCommand(&looker{
		use: "place TYPE SHARD [NODE]", short: "say on which node a shard is to live", long: placeHelp, args: [2]int{2, 3}, patience: askPatience,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			shard, err := strconv.ParseUint(args[1], 10, 32)
			if err != nil {
				return usageError(fmt.Errorf("SHARD is %q: choose a number", args[1]))
			}
			w := placed{Type: args[0], Shard: sharding.ShardID(shard), Name: argument(args, 2)}
			if (w.Name == "") != clear {
				return usageError(errors.New("name either a node or --clear"))
			}
			return p.place(ctx, c, w)
		},
	})
	cmd.Flags().BoolVar(&clear, "clear", false, "withdraw the wish")
	return cmd
}

func (p *program) place(ctx context.Context, c *client.Client, w placed) error {
	if err := c.Place(ctx, w.Type, w.Shard, w.Name); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(w)
	}
	if w.Name == "" {
		fmt.Fprintf(p.stdout, "shard %v of %s: the wish is withdrawn\n", w.Shard, w.Type)
		return nil
	}
	fmt.Fprintf(p.stdout, "shard %v of %s: wanted on %s, where it moves once a member of that name is up\n", w.Shard, w.Type, w.Name)
	return nil
}
