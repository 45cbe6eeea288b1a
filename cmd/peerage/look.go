package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
)

// defaultNode is where the commands look for a node: the first address of the examples.
const defaultNode = "127.0.0.1:8101"

// looker is a command that asks nodes.
type looker struct {
	use, short, long string
	// args are the numbers of arguments, least and most.
	args [2]int
	// patience is how long it waits; --timeout sets it.
	patience time.Duration
	// endless is set for a command that runs until it is interrupted: patience then bounds
	// each of its requests.
	endless bool
	run     func(ctx context.Context, c *client.Client, args []string) error
}

// lookCommand returns the command of l, with flags that name the nodes to ask.
func (p *program) lookCommand(l *looker) *cobra.Command {
	var cfg client.Config
	cmd := &cobra.Command{Use: l.use, Short: l.short, Long: l.long, Args: argumentsBetween(l.args[0], l.args[1])}
	flags := cmd.Flags()
	flags.Var((*list)(&cfg.Nodes), "node", "`host:port` or URL of a node's HTTP API: any node answers for its cluster; with several, the first that can be reached (default "+defaultNode+")")
	flags.StringVar(&cfg.Certificates.CA, "tls-ca", "", "`file` with the authority of the nodes' certificates; turns TLS on")
	flags.StringVar(&cfg.Certificates.Cert, "tls-cert", "", "`file` with this client's certificate")
	flags.StringVar(&cfg.Certificates.Key, "tls-key", "", "`file` with the certificate's private key")
	flags.StringVar(&cfg.Certificates.Name, "tls-name", "", "DNS name in the nodes' certificates (default: the host of --node)")
	flags.DurationVar(&l.patience, "timeout", l.patience, "how long to wait for an answer")
	p.addSettings(cmd, "tls-ca", "tls-cert", "tls-key")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(cfg.Nodes) == 0 {
			cfg.Nodes = []string{defaultNode}
		}
		c, err := client.New(cfg)
		if err != nil {
			return usageError(err)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if !l.endless {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, l.patience, client.ErrTooLate)
			defer cancel()
		}
		return l.run(ctx, c, args)
	}
	return cmd
}

// printTable writes rows in columns below a header, which may be "".
func printTable(w io.Writer, header string, rows [][]string) {
	t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	if header != "" {
		fmt.Fprintln(t, strings.Join(strings.Fields(header), "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
}

// figure writes a number with commas.
func figure[N int | uint32 | uint64](n N) string { return humanize.Comma(int64(n)) }

// dash stands for what is empty in a table.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// joined lists words in a cell of a table.
func joined(words []string) string {
	return dash(strings.Join(slices.Sorted(slices.Values(words)), ","))
}
