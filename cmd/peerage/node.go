package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/harness/server"
	"github.com/peerage-go/peerage/sharding"
)

const nodeHelp = `Runs one node that hosts counters, as a server: POST /v1/counters/ID/ask and
/tell with {"n": 3}, GET /healthz, /readyz, /metrics, /status, POST /drain. On
SIGTERM or Ctrl-C it drains, then ends; a second signal ends it immediately.
With --json, the log is JSON.

Give all nodes the same list of addresses, at every start:

  L=127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  peerage node --name a --listen 127.0.0.1:7101 --http 127.0.0.1:8101 --join $L
  peerage node --name b --listen 127.0.0.1:7102 --http 127.0.0.1:8102 --join $L
  peerage node --name c --listen 127.0.0.1:7103 --http 127.0.0.1:8103 --join $L

As a service of systemd (Type=notify) it reports when it is ready, and when it stops.

With certificates: peerage certs --dir d, then peerage node --config d/a.yaml.`

// hiddenFlags are set by demo, chaos, bench and tests for the processes that they start.
var hiddenFlags = []string{"until-stdin-closes", "wall-offset", "load-registers", "load-set", "load-reliable", "load-counters", "load-every", "load-in-flight", "history", "state-bytes"}

func (p *program) nodeCommand() *cobra.Command {
	c, untilStdin := &server.Config{Node: peerage.LocalConfig()}, false
	cmd := &cobra.Command{
		Use: "node", Short: "run one node as a server with an HTTP API", Long: nodeHelp, Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.runNode(c, untilStdin) },
	}
	flags := cmd.Flags()
	nodeFlags(c, flags)
	securityFlags(c, flags)
	flags.BoolVar(&untilStdin, "until-stdin-closes", false, "end when standard input ends; a line like \"wall-offset 24h\" on it sets the wall clock")
	p.addSettings(cmd, "tls-cert", "tls-key", "tls-ca", "secret-keys", "data-dir")
	for _, name := range hiddenFlags {
		_ = flags.MarkHidden(name) // fails for unknown names only; TestHelp lists the rest
	}
	return cmd
}

// nodeFlags are about the node, its counters and what it prints.
func nodeFlags(c *server.Config, flags *pflag.FlagSet) {
	flags.StringVar(&c.Node.Name, "name", "", "stable name of the node (default: its address)")
	flags.StringVar(&c.Node.Cluster, "cluster", "peerage", "name of the cluster; nodes with another name are rejected")
	flags.StringVar(&c.Node.Listen, "listen", "127.0.0.1:0", "`host:port` for peers; port 0 takes a free one")
	flags.StringVar(&c.Node.Advertise, "advertise", "", "`host:port` at which peers reach this node (default: the one it listens on)")
	flags.Var((*list)(&c.Node.Join), "join", "contact point: `host:port` of a node; the same list on every node; may be repeated")
	flags.Var((*list)(&c.Node.Roles), "role", "a role of this node; may be repeated")
	flags.StringVar(&c.Node.Zone, "zone", "", "part of the data centre that fails as a whole: copies of states are spread over zones")
	flags.StringVar(&c.Node.AppVersion, "app-version", "", "release of the application: shards go to the newest")
	flags.BoolVar(&c.Node.Bootstrap, "bootstrap", false, "form a new cluster immediately; for the first start of a cluster only")
	flags.IntVar(&c.Node.BootstrapExpect, "bootstrap-expect", 0, "number of contact points that must answer before the lowest of them forms a cluster; default and minimum: more than half of the list; required with names and with one address")
	flags.BoolVar(&c.Node.InsecureTransport, "insecure-transport", false, "allow an address other than loopback without TLS")
	flags.IntVar(&c.Shards, "shards", sharding.DefaultShards, "number of shards of the counters; equal on all nodes")
	flags.StringVar(&c.Strategy, "strategy", server.StrategyEven, "where shards live: even, or external, which 'peerage place' steers; equal on all nodes")
	flags.IntVar(&c.MinMembers, "min-members", 1, "number of nodes required before the first counter is placed")
	flags.IntVar(&c.Replicas, "replicas", 0, "number of nodes that keep each count, so that it survives kills of less than half of them; equal on all nodes (0: only its home keeps it)")
	flags.IntVar(&c.StateBytes, "state-bytes", 0, "size of each count's state, to measure the cost of moving it")
	flags.DurationVar(&c.LameDuck, "lame-duck", 0, "how long to keep serving HTTP after /readyz became false, so that load balancers notice")
	flags.StringVar(&c.Log, "log", "info", "lowest level that is logged: debug, info, warn, error")
	flags.BoolVar(&c.PrintAddresses, "print-addresses", false, "write one line of JSON with the addresses to standard output")
	flags.DurationVar(&c.PrintStats, "print-stats", 0, "interval of lines of JSON with statistics (0: never)")
	flags.DurationVar(&c.WallAhead, "wall-offset", 0, "how far to set the wall clock of generations and stamps ahead, for tests")
	flags.StringVar(&c.DataDir, "data-dir", "", "`directory` of this node alone, for the generation and for keys that begin with durable/")
	flags.BoolVar(&c.LoadSet, "load-set", false, "add elements to a replicated set repeatedly, and read it")
	flags.BoolVar(&c.LoadReliable, "load-reliable", false, "send reliable messages to counters repeatedly")
	flags.IntVar(&c.LoadRegisters, "load-registers", 0, "number of replicated registers to write and read repeatedly; with --data-dir, on disk and with entries")
	flags.StringVar(&c.History, "history", "", "record every handler run and every request in this new `file`")
	flags.IntVar(&c.LoadCounters, "load-counters", 0, "number of counters to ask repeatedly")
	flags.IntVar(&c.LoadInFlight, "load-in-flight", load.InFlightMax, "number of these asks that may be in flight; more are not sent")
	flags.DurationVar(&c.LoadEvery, "load-every", 10*time.Millisecond, "interval of the asks to each of these counters, over all nodes")
}

// securityFlags are about who may reach the node, and how.
func securityFlags(c *server.Config, flags *pflag.FlagSet) {
	flags.StringVar(&c.Certificates.Cert, "tls-cert", "", "`file` with the node's certificate; with --tls-key and --tls-ca: mutual TLS between nodes")
	flags.StringVar(&c.Certificates.Key, "tls-key", "", "`file` with the certificate's private key")
	flags.StringVar(&c.Certificates.CA, "tls-ca", "", "`file` with the authorities whose certificates are accepted")
	flags.StringVar(&c.Certificates.Name, "tls-name", "", "DNS name in the certificate of every node (default: each names its own host)")
	flags.StringVar(&c.KeysFile, "secret-keys", "", "`file` with AES keys for memberlist's datagrams, one a line in base64; the first encrypts")
	flags.StringVar(&c.HTTP, "http", "127.0.0.1:0", "`host:port` of the HTTP API")
	flags.Var((*list)(&c.HTTPHosts), "http-host", "host `name` that HTTP requests may use, besides addresses and localhost; may be repeated")
	flags.BoolVar(&c.HTTPTLS, "http-tls", false, "serve the HTTP API by TLS with these certificates, to clients with one of the same authority")
	flags.Var((*list)(&c.DashboardAllow), "dashboard-allow", "what the dashboard's page may change: drain, place, passivate; may be repeated (default: nothing)")
	flags.BoolVar(&c.Profiles, "pprof", false, "serve profiles of the Go runtime at /debug/pprof/ of the HTTP API; handlers are labelled peerage_type")
	flags.BoolVar(&c.InsecureHTTP, "insecure-http", false, "allow --http an address other than loopback without --http-tls; the API then has no authentication")
}

func (p *program) runNode(c *server.Config, untilStdin bool) error {
	ctx, unhook := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer unhook()
	c.Force = func() (context.Context, context.CancelFunc) {
		return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	}
	if untilStdin {
		ctx = harness.UntilClosed(ctx, os.Stdin, c.Command)
	}
	c.LogJSON = p.json
	c.OnReady, c.OnStop = p.reporterOf(daemon.SdNotifyReady), p.reporterOf(daemon.SdNotifyStopping)
	err := server.Serve(ctx, c, p.stdout, p.stderr)
	if bad := new(peerage.ConfigError); errors.As(err, &bad) {
		return usageError(errors.New("bad settings: " + strings.Join(problemsAsFlags(bad.Problems), "; ")))
	}
	return err
}

// fieldNames are names of the fields of peerage.Config in a sentence, and wordEnds where a
// word of such a name ends.
var (
	fieldNames = regexp.MustCompile(`\b(?:Bootstrap|Listen|[A-Z][a-z]+(?:[A-Z][a-z]+)+)\b`)
	wordEnds   = regexp.MustCompile(`([a-z])([A-Z])`)
)

// otherFlags are the flags of fields that are not called like them.
var otherFlags = map[string]string{"Roles": "role", "CertificateFiles": "tls-cert"}

// problemsAsFlags describes problems by the names of this command: its flags instead of the
// fields of peerage.Config.
func problemsAsFlags(problems []peerage.Problem) []string {
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	c := &server.Config{}
	nodeFlags(c, flags)
	securityFlags(c, flags)
	flagOf := func(field string) string {
		name := cmp.Or(otherFlags[field], strings.ToLower(wordEnds.ReplaceAllString(field, "$1-$2")))
		if flags.Lookup(name) == nil {
			return field
		}
		return "--" + name
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = fmt.Sprintf("%s = %s: %s", flagOf(p.Setting), p.Value, fieldNames.ReplaceAllStringFunc(p.Why, flagOf))
	}
	return lines
}

// reporterOf returns a function that sends a state to systemd. It does nothing unless the
// process runs as a service of Type=notify.
func (p *program) reporterOf(state string) func() {
	return func() {
		if _, err := daemon.SdNotify(false, state); err != nil {
			fmt.Fprintf(p.stderr, "cannot report %s to systemd, which may end this process: %v\n", state, err)
		}
	}
}
