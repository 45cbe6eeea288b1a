package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
)

func (p *program) membersCommand() *cobra.Command {
	return p.lookCommand(&looker{
		use: "members", short: "list the members of a cluster, the most senior first", patience: askPatience,
		long: "Lists the members of a cluster in the order in which they joined, with the names and\nNodeIDs that drain and place take.",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			members := (&overview{Node: s}).members()
			if p.json {
				return p.printJSON(members)
			}
			var rows [][]string
			for _, m := range members {
				rows = append(rows, []string{
					strconv.Itoa(m.Seniority), m.Name, m.Node.String(), m.state(), m.Addr, dash(m.HTTP), joined(m.Roles), dash(m.Zone), dash(m.AppVersion),
				})
			}
			printTable(p.stdout, "# NAME NODE STATE ADDRESS HTTP ROLES ZONE VERSION", rows)
			return nil
		},
	})
}

func (p *program) typesCommand() *cobra.Command {
	return p.lookCommand(&looker{
		use: "types", short: "list the entity types, with their shards and entities", patience: askPatience,
		long: "Lists the entity types of the node that answers, with the shards and entities that run on\nall nodes.",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			o, err := askCluster(ctx, c, "")
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(o.Types)
			}
			var rows [][]string
			for _, t := range o.Types {
				hosts := 0
				for _, n := range t.Nodes {
					if n.Hosts {
						hosts++
					}
				}
				rows = append(rows, []string{
					t.Name, dash(t.Role), figure(hosts), dash(t.Coordinator), figure(t.Shards) + " of " + figure(t.ShardsTotal), figure(t.Entities),
				})
			}
			printTable(p.stdout, "TYPE ROLE HOSTS COORDINATOR SHARDS ENTITIES", rows)
			return nil
		},
	})
}

func (p *program) shardsCommand() *cobra.Command {
	home := ""
	cmd := p.lookCommand(&looker{
		use: "shards [TYPE]", short: "list the shards that run, and where", args: [2]int{0, 1}, patience: askPatience,
		long: "Lists the shards that run, of one type or of all, with their homes and numbers of entities.\nA shard without a home gets one with the first message for it.",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			o, err := askCluster(ctx, c, argument(args, 0))
			if err != nil {
				return err
			}
			return p.printShards(&o, home)
		},
	})
	cmd.Flags().StringVar(&home, "home", "", "only those on the member of this `name` or NodeID")
	return cmd
}

func (p *program) printShards(o *overview, home string) error {
	shards := o.shards(home)
	if p.json {
		return p.printJSON(shards)
	}
	var rows [][]string
	for _, s := range shards {
		rows = append(rows, []string{s.Type, fmt.Sprint(s.Shard), s.Name, s.Node.String(), s.Token.String(), figure(s.Entities)})
	}
	printTable(p.stdout, "TYPE SHARD HOME NODE TOKEN ENTITIES", rows)
	for _, t := range o.Types {
		if idle := t.ShardsTotal - t.Shards; idle > 0 && home == "" {
			fmt.Fprintf(p.text(), "%s shards of %s have no home now\n", figure(idle), t.Name)
		}
		for _, f := range t.Failed {
			fmt.Fprintf(p.text(), "%s did not answer: %s shards of %s that were there are missing\n", f.Name, figure(len(f.Shards)), t.Name)
		}
	}
	return nil
}

// argument returns an argument, "" if it was not given.
func argument(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
