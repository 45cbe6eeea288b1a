package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
	"github.com/peerage-go/peerage/sharding"
)

// location is the answer of `peerage where`.
type location struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	sharding.Location
}

func (p *program) whereCommand() *cobra.Command {
	return p.lookCommand(&looker{
		use: "where TYPE ID", short: "find the node on which an entity lives", args: [2]int{2, 2}, patience: askPatience,
		long: "Asks all members for the home of an entity's shard, and whether the entity lives there.",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			at, err := c.Where(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(location{Type: args[0], ID: args[1], Location: at})
			}
			lives := "it lives there"
			if !at.Lives {
				lives = "it does not live now; the next message starts it there"
			}
			fmt.Fprintf(p.stdout, "%s %s: shard %v on %s (%s), token %v; %s\n", args[0], args[1], at.Shard, at.Name, at.Node, at.Token, lives)
			return nil
		},
	})
}

const explainHelp = `Prints why a shard is where it is: the events that all members have recorded about it, in
one order, the oldest first. Name the shard by its number, or by the id of an entity; an id
that is a number needs --id.`

func (p *program) explainCommand() *cobra.Command {
	id := ""
	cmd := p.lookCommand(&looker{
		use: "explain TYPE [SHARD or ID]", short: "print why a shard is where it is", long: explainHelp, args: [2]int{1, 2}, patience: askPatience,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			shard, entity := argument(args, 1), id
			if (shard == "") == (id == "") {
				return usageError(errors.New("name either a shard by its number, or an entity with --id"))
			}
			if _, err := strconv.ParseUint(shard, 10, 32); err != nil && id == "" {
				shard, entity = "", shard
			}
			h, err := c.Explain(ctx, args[0], shard, entity)
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(h)
			}
			o := overview{}
			if o.Node, err = c.Status(ctx); err != nil {
				return err
			}
			p.printHistory(&o, &h)
			return nil
		},
	})
	cmd.Flags().StringVar(&id, "id", "", "the shard of the entity with this id")
	return cmd
}

func (p *program) printHistory(o *overview, h *client.History) {
	fmt.Fprintf(p.stdout, "shard %v of %s, %s events\n", h.Shard, h.Type, figure(len(h.Events)))
	if h.Why != "" { // a node of an older version sends none
		fmt.Fprintln(p.stdout, h.Why)
	}
	fmt.Fprintln(p.stdout)
	var rows [][]string
	for _, e := range h.Events {
		rows = append(rows, []string{
			e.At.Format(time.TimeOnly + ".000"), humanize.Time(e.At), o.nameOf(e.On), e.By, e.Kind, dash(o.nameOf(e.Node)), e.Token.String(), dash(e.Detail),
		})
	}
	printTable(p.stdout, "TIME AGO ON BY EVENT NODE TOKEN DETAIL", rows)
	for _, f := range h.Failed {
		fmt.Fprintf(p.stdout, "%s did not answer: its events are missing\n", f.Name)
	}
}
