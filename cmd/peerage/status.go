package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
)

// askPatience is how long the commands that ask wait: nodes that hang are given up after 3 s.
const askPatience = 10 * time.Second

const statusHelp = `Prints the state of a cluster: its members, the leader, how many shards and entities each
member runs, and what is wrong. Any node answers for the whole cluster, for as long as it
is a member.`

func (p *program) statusCommand() *cobra.Command {
	return p.lookCommand(&looker{
		use: "status", short: "print the state of a cluster", long: statusHelp, patience: askPatience,
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			o, err := askCluster(ctx, c, "")
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(o)
			}
			printStatus(p.stdout, &o)
			return nil
		},
	})
}

func printStatus(w io.Writer, o *overview) {
	s := &o.Node
	fmt.Fprintf(w, "cluster %s, as node %s (%s) at %s sees it\n", s.Cluster, s.Name, s.Node, s.Addr)
	if s.View == nil {
		fmt.Fprintln(w, "it is not ready:", s.NotReady)
		return
	}
	fmt.Fprintf(w, "%d members, led by %s, view %s; lease of %s: %s\n\n", len(s.View.Members), dash(o.nameOf(s.Leader)), s.View.Epoch, s.Name, s.Lease)
	failed := o.failed()
	var rows [][]string
	for _, m := range o.members() {
		state := m.state()
		shards, entities := o.hosted(m.Node)
		cells := []string{figure(shards), figure(entities)}
		if failed[m.Node] != "" {
			state, cells = state+", no answer", []string{"?", "?"}
		}
		rows = append(rows, append([]string{strconv.Itoa(m.Seniority), m.Name, state, m.Addr, joined(m.Roles)}, cells...))
	}
	printTable(w, "# NAME STATE ADDRESS ROLES SHARDS ENTITIES", rows)
	fmt.Fprintln(w)
	for _, t := range o.Types {
		fmt.Fprintf(w, "type %s: %s of %s shards have a home, %s %s; placed by %s\n",
			t.Name, figure(t.Shards), figure(t.ShardsTotal), figure(t.Entities), english.PluralWord(t.Entities, "entity", ""), dash(t.Coordinator))
	}
	printProblems(w, o)
}

// printProblems writes a line for each thing that needs an operator.
func printProblems(w io.Writer, o *overview) {
	s := &o.Node
	if s.NotReady != "" {
		fmt.Fprintf(w, "! %s is not ready: %s\n", s.Name, s.NotReady)
	}
	for _, f := range s.View.Foreign {
		fmt.Fprintf(w, "! in contest with another cluster of the name %s, of %d nodes: %s\n", s.Cluster, len(f.Nodes), f.Verdict)
	}
	for _, path := range s.FilesSetAside {
		fmt.Fprintf(w, "! set aside, since it is of another cluster of this name: %s\n", path)
	}
	for _, t := range o.Types {
		if t.Refused != "" {
			fmt.Fprintf(w, "! %s does not host type %s: %s\n", s.Name, t.Name, t.Refused)
		}
		for _, id := range t.Unregistered {
			fmt.Fprintf(w, "! %s has the role of type %s and does not run it\n", o.nameOf(id), t.Name)
		}
		for _, f := range t.Failed {
			fmt.Fprintf(w, "! %s did not answer about type %s, %s shards of it were there: %s\n", f.Name, t.Name, figure(len(f.Shards)), f.Error)
		}
	}
}
