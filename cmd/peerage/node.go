package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

const nodeUsage = `usage: peerage node [flags]

Runs one node that hosts counters, as a server: POST /v1/counters/ID/ask and
/tell with {"n": 3}, GET /healthz, /readyz, /metrics, /status, POST /drain. On
SIGTERM or Ctrl-C it drains, then ends; a second signal ends it immediately.

Give all nodes the same list of addresses, at every start:

  LIST=127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  peerage node --name a --listen 127.0.0.1:7101 --http 127.0.0.1:8101 --join $LIST
  peerage node --name b --listen 127.0.0.1:7102 --http 127.0.0.1:8102 --join $LIST
  peerage node --name c --listen 127.0.0.1:7103 --http 127.0.0.1:8103 --join $LIST

`

// nodeConfig holds the flags of `peerage node`.
type nodeConfig struct {
	// node holds the settings that have a flag of their own name.
	node peerage.Config
	http string
	// httpHosts are host names that HTTP requests may use. insecureHTTP allows an address
	// other than loopback.
	httpHosts    []string
	insecureHTTP bool
	// certificates are used if any of their files is named, keysFile if it is.
	certificates peerage.CertificateFiles
	keysFile     string
	shards       int
	// minMembers is how many nodes must be there before the first shard is placed.
	minMembers int
	// replicas is how many nodes hold each count, 0 for the counter's home alone.
	replicas int
	// stateBytes is how large each count's state is at least.
	stateBytes int
	lameDuck   time.Duration
	log        string

	printAddresses bool
	printStats     time.Duration
	untilStdin     bool
	history        string
	loadCounters   int
	loadEvery      time.Duration
	loadRegisters  int

	// dataDir is where the node keeps its files, "" for none.
	dataDir string
	// wallAhead is how far its wall clock is set ahead at first, wall the clock.
	wallAhead time.Duration
	wall      clock.Wall
}

// list is a flag that may be given several times, or with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(v string) error {
	for _, part := range strings.Split(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return errors.New("is empty")
		} else {
			*l = append(*l, part)
		}
	}
	return nil
}

func parseNode(args []string, stderr io.Writer) (*nodeConfig, error) {
	c := &nodeConfig{node: peerage.LocalConfig()}
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, nodeUsage); flags.PrintDefaults() }
	flags.StringVar(&c.node.Name, "name", "", "stable name of the node (default: its address)")
	flags.StringVar(&c.node.Cluster, "cluster", "peerage", "name of the cluster; nodes with another name are rejected")
	flags.StringVar(&c.node.Listen, "listen", "127.0.0.1:0", "`host:port` for peers; port 0 takes a free one")
	flags.StringVar(&c.node.Advertise, "advertise", "", "`host:port` at which peers reach this node (default: the one it listens on)")
	flags.Var((*list)(&c.node.Join), "join", "contact point: `host:port` of a node; the same list on every node; may be repeated")
	flags.Var((*list)(&c.node.Roles), "role", "a role of this node; may be repeated")
	flags.StringVar(&c.node.AppVersion, "app-version", "", "release of the application: shards go to the newest")
	flags.BoolVar(&c.node.Bootstrap, "bootstrap", false, "form a new cluster immediately; for the first start of a cluster only")
	flags.IntVar(&c.node.BootstrapExpect, "bootstrap-expect", 0, "number of contact points that must answer before the lowest of them forms a cluster; default and minimum: more than half of the list; required with names and with one address")
	flags.BoolVar(&c.node.InsecureTransport, "insecure-transport", false, "allow an address other than loopback without TLS")
	c.securityFlags(flags)
	flags.IntVar(&c.shards, "shards", sharding.DefaultShards, "number of shards of the counters; equal on all nodes")
	flags.IntVar(&c.minMembers, "min-members", 1, "number of nodes required before the first counter is placed")
	flags.IntVar(&c.replicas, "replicas", 0, "number of nodes that keep each count, so that it survives kills of less than half of them; equal on all nodes (0: only its home keeps it)")
	flags.IntVar(&c.stateBytes, "state-bytes", 0, "size of each count's state, to measure the cost of moving it")
	flags.DurationVar(&c.lameDuck, "lame-duck", 0, "how long to keep serving HTTP after /readyz became false, so that load balancers notice")
	flags.StringVar(&c.log, "log", "info", "lowest level that is logged: debug, info, warn, error")
	flags.BoolVar(&c.printAddresses, "print-addresses", false, "write one line of JSON with the addresses to standard output")
	flags.DurationVar(&c.printStats, "print-stats", 0, "interval of lines of JSON with statistics (0: never)")
	flags.BoolVar(&c.untilStdin, "until-stdin-closes", false, "end when standard input ends; a line like \"wall-offset 24h\" on it sets the wall clock")
	flags.DurationVar(&c.wallAhead, "wall-offset", 0, "how far to set the wall clock of generations and stamps ahead, for tests")
	flags.StringVar(&c.dataDir, "data-dir", "", "`directory` of this node alone, for the generation and for keys that begin with durable/")
	flags.IntVar(&c.loadRegisters, "load-registers", 0, "number of replicated registers to write and read repeatedly; with --data-dir, on disk and with entries")
	flags.StringVar(&c.history, "history", "", "record every handler run and every request in this new `file`")
	flags.IntVar(&c.loadCounters, "load-counters", 0, "number of counters to ask repeatedly")
	flags.DurationVar(&c.loadEvery, "load-every", 10*time.Millisecond, "interval of the asks to each of these counters, over all nodes")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return c, nil
}

// securityFlags are about who may reach the node, and how.
func (c *nodeConfig) securityFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.certificates.Cert, "tls-cert", "", "`file` with the node's certificate; with --tls-key and --tls-ca: mutual TLS between nodes")
	flags.StringVar(&c.certificates.Key, "tls-key", "", "`file` with the certificate's private key")
	flags.StringVar(&c.certificates.CA, "tls-ca", "", "`file` with the authorities whose certificates are accepted")
	flags.StringVar(&c.certificates.Name, "tls-name", "", "DNS name in the certificate of every node (default: each names its own host)")
	flags.StringVar(&c.keysFile, "secret-keys", "", "`file` with AES keys for memberlist's datagrams, one a line in base64; the first encrypts")
	flags.StringVar(&c.http, "http", "127.0.0.1:0", "`host:port` of the HTTP API")
	flags.Var((*list)(&c.httpHosts), "http-host", "host `name` that HTTP requests may use, besides addresses and localhost; may be repeated")
	flags.BoolVar(&c.insecureHTTP, "insecure-http", false, "allow --http an address other than loopback; the API has no authentication")
}

// secure reads what the security flags name.
func (c *nodeConfig) secure() (files *peerage.CertificateFiles, err error) {
	if err := checkHTTPAddr(c.http, c.insecureHTTP); err != nil {
		return nil, err
	}
	if c.keysFile != "" {
		if c.node.SecretKeys, err = readSecretKeys(c.keysFile); err != nil {
			return nil, fmt.Errorf("--secret-keys: %w", err)
		}
	}
	if c.certificates == (peerage.CertificateFiles{}) {
		return nil, nil
	}
	return &c.certificates, nil
}

func node(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseNode(args, stderr)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "peerage node:", err)
		}
		return exitUsage
	}
	ctx, unhook := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer unhook()
	if cfg.untilStdin {
		ctx = untilClosed(ctx, os.Stdin, cfg.command)
	}
	if err := serveNode(ctx, cfg, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "peerage node:", err)
		return exitFailed
	}
	return exitOK
}

// untilClosed ends the context when r does, and hands over each line of it.
func untilClosed(ctx context.Context, r io.Reader, line func(string)) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		// The input ends at its end or at an error.
		for lines := bufio.NewScanner(r); lines.Scan(); {
			line(lines.Text())
		}
	}()
	return ctx
}

// wallOffset begins the line of standard input that sets the wall clock.
const wallOffset = "wall-offset "

// command executes a line of standard input. It ignores unknown lines.
func (c *nodeConfig) command(line string) {
	if d, err := time.ParseDuration(strings.TrimPrefix(line, wallOffset)); err == nil {
		c.wall.Set(d)
	}
}

// server is a running `peerage node`.
type server struct {
	cfg      *nodeConfig
	node     *peerage.Node
	counters *sharding.Region[add, total]
	registry *prometheus.Registry
	log      *slog.Logger
	history  *history.Writer
	load     *load
	dataLoad *dataLoad
}

func serveNode(ctx context.Context, cfg *nodeConfig, stdout, stderr io.Writer) (err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.log)); err != nil {
		return fmt.Errorf("--log is %q: choose debug, info, warn or error", cfg.log)
	}
	s := &server{
		cfg: cfg, registry: prometheus.NewRegistry(),
		log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.history != "" {
		if s.history, err = history.Create(cfg.history); err != nil {
			return fmt.Errorf("--history: %w", err)
		}
		defer func() { err = errors.Join(err, s.history.Close()) }()
	}
	files, err := cfg.secure()
	if err != nil {
		return err
	}
	web, err := net.Listen("tcp", cfg.http)
	if err != nil {
		return fmt.Errorf("--http %s: %w", cfg.http, err)
	}
	defer web.Close()
	if err := s.start(ctx, files); err != nil {
		return err
	}
	api := newHTTPServer(guard(s.handler(), cfg.httpHosts))
	go func() {
		if err := api.Serve(web); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the HTTP API has ended; the node keeps running without it; restart the process", "err", err)
		}
	}()
	defer api.Close()
	return s.serve(ctx, web.Addr().String(), stdout)
}

func (s *server) start(ctx context.Context, files *peerage.CertificateFiles) error {
	boot := clock.Boot()
	var err error
	cfg := s.cfg.node
	cfg.CertificateFiles, cfg.LameDuck, cfg.Logger, cfg.Registerer = files, s.cfg.lameDuck, s.log, s.registry
	s.cfg.wall.Set(s.cfg.wallAhead)
	cfg.WallClock = s.cfg.wall.Now
	if s.cfg.dataDir != "" {
		cfg.DataDir, cfg.Data = s.cfg.dataDir, map[string]peerage.DataConfig{"": {Durable: []string{durablePrefix}}}
	}
	if s.node, err = peerage.New(cfg); err != nil {
		return err
	}
	s.counters, err = sharding.Register(s.node.Registry(), sharding.Type[add, total]{
		Name: "counter", Shards: s.cfg.shards, MinMembers: s.cfg.minMembers, State: sharding.Replicated{Replicas: s.cfg.replicas},
		New: func(id string) sharding.Entity[add, total] {
			self := s.node.Self()
			number, ours := entityNumber(id)
			c := &counter{entity: number, node: uint64(self.ID), name: self.Name, clock: boot, stateBytes: s.cfg.stateBytes}
			if ours {
				c.history = s.history
			}
			return c
		},
	})
	if err != nil {
		return err
	}
	if err := s.prepareLoad(boot); err != nil {
		return err
	}
	return s.node.Start(ctx)
}

// prepareLoad sets up what the node asks for by itself.
func (s *server) prepareLoad(boot clock.Clock) error {
	if (s.cfg.loadCounters > 0 || s.cfg.loadRegisters > 0) && s.history == nil {
		return errors.New("--load-counters and --load-registers need --history")
	}
	process := rand.Uint64()
	caller := func() uint64 { return uint64(s.node.Self().ID) }
	if s.cfg.loadCounters > 0 {
		s.load = &load{
			counters: s.cfg.loadCounters, every: s.cfg.loadEvery,
			turn: s.turn, leaving: s.node.Draining,
			ask: func(ctx context.Context, id string) (uint64, error) {
				t, err := s.counters.Ask(ctx, id, add{N: 1, Sent: boot.Now()})
				return t.Total, err
			},
			tell: func(ctx context.Context, id string, number uint64) error {
				return s.counters.Tell(ctx, id, add{Number: number, From: process})
			},
			reason: reasonOf, node: caller, clock: boot, history: s.history,
		}
	}
	if s.cfg.loadRegisters > 0 {
		if s.load == nil {
			return errors.New("--load-registers needs --load-counters")
		}
		s.dataLoad = &dataLoad{
			registers: s.cfg.loadRegisters, durable: s.cfg.dataDir != "", data: s.node.Data(""), process: process,
			turn: s.turn, leaving: s.node.Draining, node: caller, clock: boot,
			history: s.history, path: s.cfg.history, tried: s.load.tried,
		}
	}
	return nil
}

// serve runs until ctx ends, then stops the node in order. The HTTP API answers
// until the node is out, and requests that wait then have their answers first.
func (s *server) serve(ctx context.Context, web string, stdout io.Writer) error {
	if s.cfg.printAddresses {
		if err := writeReport(stdout, s.report("ready", s.node.Self().Addr, web)); err != nil {
			return err
		}
	}
	s.log.Info("serving", "node", s.node.Self().ID, "name", s.node.Self().Name, "listen", s.node.Self().Addr, "http", web)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		var loads sync.WaitGroup
		defer loads.Wait()
		if s.load != nil {
			loads.Go(func() { s.load.run(ctx) })
		}
		if s.dataLoad != nil {
			loads.Go(func() { s.dataLoad.run(ctx) })
		}
	}()
	s.printStats(ctx, stdout)
	<-loaded
	return s.stop(stdout)
}

// stopPatience bounds draining on top of the lame duck.
const stopPatience = 10 * time.Second

func (s *server) stop(stdout io.Writer) error {
	again, unhook := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer unhook()
	stop, cancel := context.WithTimeout(again, s.cfg.lameDuck+stopPatience)
	defer cancel()
	began := time.Now()
	err := s.node.Shutdown(stop)
	s.log.Info("stopped", "took", time.Since(began), "err", err)
	if s.cfg.printStats > 0 {
		err = errors.Join(err, writeReport(stdout, s.report("stats", "", "")))
	}
	return err
}

// printStats writes statistics as often as asked for, and returns when ctx ends.
func (s *server) printStats(ctx context.Context, stdout io.Writer) {
	if s.cfg.printStats <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(s.cfg.printStats)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := writeReport(stdout, s.report("stats", "", "")); err != nil {
				s.log.Error("cannot write statistics to standard output; check its reader", "err", err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// turn returns this node's place among the members.
func (s *server) turn() (place, of int) {
	v := s.node.View()
	if v == nil {
		return 0, 0
	}
	self := s.node.Self().ID
	return slices.IndexFunc(v.Members, func(m gossip.Member) bool { return m.ID == self }), len(v.Members)
}

func (s *server) report(kind, listen, web string) report {
	self := s.node.Self()
	r := report{
		Kind: kind, Name: self.Name, Node: self.ID.String(), Listen: listen, HTTP: web,
		Lease: s.node.LeaseValid(), WallMillis: s.cfg.wall.Now().UnixMilli(),
	}
	if v := s.node.View(); v != nil {
		r.Members, r.Epoch, r.Generation = len(v.Members), v.Epoch.String(), v.Epoch.Generation()
	}
	r.Leader = s.node.Lease().Leader
	st := s.counters.Stats()
	r.Shards, r.Entities = st.Shards, st.Entities
	if s.load != nil {
		r.Load = s.load.totals()
	}
	return r
}

// reasonOf names an error for the counts of failed attempts.
func reasonOf(err error) string {
	if name, ok := dataReason(err); ok {
		return name
	}
	for _, r := range []struct {
		err  error
		name string
	}{
		{sharding.ErrNodeLost, "node lost"}, {sharding.ErrMoved, "moved"}, {sharding.ErrNoHome, "no home"},
		{sharding.ErrPaused, "paused"}, {sharding.ErrNotReady, "not ready"}, {sharding.ErrAbandoned, "abandoned"},
		{sharding.ErrMailboxFull, "mailbox full"}, {sharding.ErrBufferFull, "buffer full"},
		{sharding.ErrNodeStopping, "node stopping"}, {sharding.ErrUnknownType, "unknown type"}, {sharding.ErrNotKept, "not kept"},
	} {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return strconv.Quote(err.Error())
}
