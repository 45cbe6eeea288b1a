package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
)

func (p *program) statusCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use: "status", Short: "print the state of a node and its cluster", Args: noArguments,
		Long: "Prints the state of a node: its view, the leader, its lease, and where shards live.",
		RunE: func(*cobra.Command, []string) error { return p.showStatus(addr) },
	}
	cmd.Flags().StringVar(&addr, "http", "127.0.0.1:8101", "`host:port` of the node's HTTP API")
	return cmd
}

func (p *program) showStatus(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	body, err := harness.Fetch(ctx, http.MethodGet, "http://"+addr+"/status")
	if err != nil {
		return err
	}
	var s peerage.Status
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("%s answers, but not like a node: %v", addr, err)
	}
	if p.json {
		return p.printJSON(s)
	}
	printStatus(p.stdout, &s)
	return nil
}

func printStatus(w io.Writer, s *peerage.Status) {
	fmt.Fprintf(w, "node %s (%s) at %s, cluster %s\n", s.Name, s.Node, s.Addr, s.Cluster)
	fmt.Fprintf(w, "lease: %s\n", s.Lease)
	if s.NotReady != "" {
		fmt.Fprintf(w, "not ready: %s\n", s.NotReady)
	}
	for _, path := range s.FilesSetAside {
		fmt.Fprintf(w, "set aside, since it is of another cluster of this name: %s\n", path)
	}
	if s.View == nil {
		fmt.Fprintln(w, "in no view yet")
		return
	}
	fmt.Fprintf(w, "view %s:\n", s.View.Epoch)
	t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	for i, m := range s.View.Members {
		mark := ""
		if m.ID == s.Leader {
			mark = "leader"
		}
		fmt.Fprintf(t, "  %d\t%s\t%s\t%s\t%s\t%s\t%s\n", i+1, m.Name, m.ID, m.Addr, m.Status, strings.Join(m.Roles, ","), mark)
	}
	t.Flush()
	for _, typ := range s.Types {
		fmt.Fprintf(w, "type %s: %d of %d shards here, %d entities\n", typ.Name, typ.Shards, typ.ShardsTotal, typ.Entities)
		for _, h := range typ.Homes {
			fmt.Fprintf(w, "  %s: %d shards %s\n", h.Node, len(h.Shards), someShards(h.Shards))
		}
	}
}

// shardsShown is how many shards of a node the page names; --json names all.
const shardsShown = 24

func someShards(shards []sharding.ShardID) string {
	if len(shards) <= shardsShown {
		return fmt.Sprint(shards)
	}
	return fmt.Sprintf("%v and %d more", shards[:shardsShown], len(shards)-shardsShown)
}
