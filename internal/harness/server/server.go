package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

// server is a running `peerage node`.
type server struct {
	cfg      *Config
	node     *peerage.Node
	counters *sharding.Region[load.Add, load.Total]
	registry *prometheus.Registry
	log      *slog.Logger
	history  *history.Writer
	marker   *marker // nil without a history
	costAt   time.Time
	load     *load.Callers
	dataLoad *load.Data
	// reliableLoad is nil without --load-reliable.
	reliableLoad *load.Reliable
}

// Serve runs a node until ctx ends, and then stops it in order.
func Serve(ctx context.Context, cfg *Config, stdout, stderr io.Writer) (err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log)); err != nil {
		return fmt.Errorf("--log is %q: choose debug, info, warn or error", cfg.Log)
	}
	s := &server{cfg: cfg, registry: prometheus.NewRegistry(), log: newLogger(cfg, stderr, level)}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if _, ok := strategies[cfg.Strategy]; !ok {
		return fmt.Errorf("--strategy is %q: choose %s or %s", cfg.Strategy, StrategyEven, StrategyExternal)
	}
	if cfg.History != "" {
		if s.history, err = history.Create(cfg.History); err != nil {
			return fmt.Errorf("--history: %w", err)
		}
		defer func() { err = errors.Join(err, s.history.Close()) }()
	}
	if s.history != nil {
		s.marker = &marker{Handler: s.log.Handler(), history: s.history, clock: clock.Boot(), self: func() gossip.NodeID { return s.node.Self().ID }}
		s.log = slog.New(s.marker)
	}
	files, err := cfg.secure()
	if err != nil {
		return err
	}
	page, err := cfg.dashboardOptions()
	if err != nil {
		return err
	}
	page.Logger = s.log
	web, err := cfg.listenHTTP()
	if err != nil {
		return err
	}
	defer web.Close()
	cfg.Node.Metadata = publishHTTP(cfg, web.Addr().String())
	if err := s.start(ctx, files); err != nil {
		return err
	}
	front := newHTTPServer(guard((&api{node: s.node, counters: s.counters, registry: s.registry, external: cfg.Strategy == StrategyExternal, dashboard: page, profiles: cfg.Profiles}).handler(), cfg.HTTPHosts), s.log)
	go func() {
		if err := front.Serve(web); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the HTTP API has ended; the node keeps running without it; restart the process", "err", err)
		}
	}()
	defer front.Close()
	return s.serve(ctx, web.Addr().String(), stdout)
}

// listenHTTP opens the port of the HTTP API.
func (c *Config) listenHTTP() (net.Listener, error) {
	web, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", c.HTTP, err)
	}
	if !c.HTTPTLS {
		return web, nil
	}
	settings, err := apiTLS(c.Certificates)
	if err != nil {
		web.Close()
		return nil, err
	}
	return tls.NewListener(web, settings), nil
}

// publishHTTP returns the node's metadata with the address of its HTTP API, by which the
// commands find every member. An API on all addresses is found at the host of the node.
func publishHTTP(c *Config, addr string) map[string]string {
	if host, port, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host).IsUnspecified() {
		if here, _, err := net.SplitHostPort(cmp.Or(c.Node.Advertise, c.Node.Listen)); err == nil {
			addr = net.JoinHostPort(here, port)
		}
	}
	metadata := map[string]string{harness.HTTPMetadata: addr}
	maps.Copy(metadata, c.Node.Metadata)
	return metadata
}

func newLogger(cfg *Config, w io.Writer, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func (s *server) start(ctx context.Context, files *peerage.CertificateFiles) error {
	boot := clock.Boot()
	var err error
	cfg := s.cfg.Node
	cfg.CertificateFiles, cfg.LameDuck, cfg.Logger, cfg.Registerer = files, s.cfg.LameDuck, s.log, s.registry
	s.cfg.wall.Set(s.cfg.WallAhead)
	cfg.WallClock = s.cfg.wall.Now
	if s.cfg.DataDir != "" {
		cfg.DataDir, cfg.Data = s.cfg.DataDir, map[string]peerage.DataConfig{"": {Durable: []string{load.DurablePrefix}}}
	}
	if s.node, err = peerage.New(cfg); err != nil {
		return err
	}
	s.counters, err = sharding.Register(s.node.Registry(), sharding.Type[load.Add, load.Total]{
		Name: "counter", Shards: s.cfg.Shards, MinMembers: s.cfg.MinMembers, State: sharding.Replicated{Replicas: s.cfg.Replicas},
		Strategy: strategies[s.cfg.Strategy],
		New: func(id string) sharding.Entity[load.Add, load.Total] {
			self := s.node.Self()
			number, ours := load.EntityNumber(id)
			c := &load.Counter{Entity: number, Node: uint64(self.ID), Name: self.Name, Clock: boot, StateBytes: s.cfg.StateBytes}
			if ours && s.history != nil {
				c.History = s.history
				s.history.Write(history.Record{Op: history.Created, Entity: number, Node: uint64(self.ID), Start: boot.Now()})
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
	if s.marker != nil {
		s.node.Subscribe(s.marker.onEvent)
	}
	return s.node.Start(ctx)
}

// prepareLoad sets up what the node asks for by itself.
func (s *server) prepareLoad(boot clock.Clock) error {
	if (s.cfg.LoadCounters > 0 || s.cfg.LoadRegisters > 0) && s.history == nil {
		return errors.New("--load-counters and --load-registers need --history")
	}
	if (s.cfg.LoadSet || s.cfg.LoadReliable) && s.cfg.LoadCounters == 0 {
		return errors.New("--load-set and --load-reliable need --load-counters")
	}
	process := rand.Uint64()
	caller := func() uint64 { return uint64(s.node.Self().ID) }
	if s.cfg.LoadCounters > 0 {
		s.load = &load.Callers{
			Counters: s.cfg.LoadCounters, Every: s.cfg.LoadEvery, InFlight: cmp.Or(s.cfg.LoadInFlight, load.InFlightMax),
			Turn: s.turn, Leaving: s.node.Draining,
			Ask: load.PlantAsk(func(ctx context.Context, id string) (uint64, error) {
				t, err := s.counters.Ask(ctx, id, load.Add{N: 1, Sent: boot.Now()})
				return t.Total, err
			}, &load.Counter{Node: caller(), Clock: boot, History: s.history}),
			Tell: load.PlantTell(func(ctx context.Context, id string, number uint64) error {
				return s.counters.Tell(ctx, id, load.Add{Number: number, From: process, Sent: boot.Now()})
			}),
			Reason: load.ReasonOf, Node: caller, Clock: boot, History: s.history,
		}
	}
	if s.cfg.LoadRegisters > 0 || s.cfg.LoadSet {
		if s.load == nil {
			return errors.New("--load-registers needs --load-counters")
		}
		s.dataLoad = &load.Data{
			Registers: s.cfg.LoadRegisters, Set: s.cfg.LoadSet, Durable: s.cfg.DataDir != "", Data: s.node.Data(""), Process: process,
			Turn: s.turn, Leaving: s.node.Draining, Node: caller, Clock: boot,
			History: s.history, Path: s.cfg.History, Tried: s.load.Tried,
		}
	}
	if s.cfg.LoadReliable {
		return s.prepareReliable(boot, process, caller)
	}
	return nil
}

// prepareReliable sets up the reliable messages of the node.
func (s *server) prepareReliable(boot clock.Clock, process uint64, caller func() uint64) error {
	l := &load.Reliable{
		First: s.cfg.LoadCounters, Every: 2 * s.cfg.LoadEvery, Process: process,
		Turn: s.turn, Leaving: s.node.Draining, Node: caller, Tried: s.load.Tried, Clock: boot, History: s.history,
	}
	producer, err := s.counters.Reliable(l.Config())
	l.Producer, s.reliableLoad = load.PlantProducer(producer), l
	return err
}

// serve runs until ctx ends, then stops the node in order. The HTTP API answers
// until the node is out, and requests that wait then have their answers first.
func (s *server) serve(ctx context.Context, web string, stdout io.Writer) error {
	if s.cfg.PrintAddresses {
		if err := harness.WriteReport(stdout, s.report("ready", s.node.Self().Addr, web)); err != nil {
			return err
		}
	}
	s.log.Info("serving", "node", s.node.Self().ID, "name", s.node.Self().Name, "listen", s.node.Self().Addr, "http", web)
	if s.cfg.OnReady != nil {
		go func() {
			if s.node.WaitReady(ctx) == nil {
				s.cfg.OnReady()
			}
		}()
	}
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		var loads sync.WaitGroup
		defer loads.Wait()
		if s.load != nil {
			loads.Go(func() { s.load.Run(ctx) })
		}
		if s.dataLoad != nil {
			loads.Go(func() { s.dataLoad.Run(ctx) })
		}
		if s.reliableLoad != nil {
			loads.Go(func() { s.reliableLoad.Run(ctx) })
		}
	}()
	s.printStats(ctx, stdout)
	<-loaded
	if s.cfg.OnStop != nil {
		s.cfg.OnStop()
	}
	return s.shutDownNode(stdout)
}

func (s *server) shutDownNode(stdout io.Writer) error {
	again, unhook := s.cfg.Force()
	defer unhook()
	stop, cancel := context.WithTimeout(again, s.cfg.LameDuck+harness.StopPatience)
	defer cancel()
	began := time.Now()
	err := s.node.Shutdown(stop)
	if err == nil {
		s.log.Info("stopped", "took", time.Since(began))
	} else {
		s.log.Info("stopped", "took", time.Since(began), "err", err)
	}
	if s.cfg.PrintStats > 0 {
		err = errors.Join(err, harness.WriteReport(stdout, s.report("stats", "", "")))
	}
	return err
}

// printStats writes statistics as often as asked for, and returns when ctx ends.
func (s *server) printStats(ctx context.Context, stdout io.Writer) {
	if s.cfg.PrintStats <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(s.cfg.PrintStats)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := harness.WriteReport(stdout, s.report("stats", "", "")); err != nil {
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

func (s *server) report(kind, listen, web string) harness.Report {
	self := s.node.Self()
	r := harness.Report{
		Kind: kind, Name: self.Name, Node: self.ID.String(), Listen: listen, HTTP: web, At: clock.Boot().Now(),
		Lease: s.node.LeaseValid(), WallMillis: s.cfg.wall.Now().UnixMilli(),
	}
	if v := s.node.View(); v != nil {
		r.Members, r.Epoch, r.Generation = len(v.Members), v.Epoch.String(), v.Epoch.Generation()
	}
	r.Leader = s.node.Lease().Leader
	st := s.counters.Stats()
	r.Shards, r.Entities = st.Shards, st.Entities
	if s.load != nil {
		r.Load = s.load.Totals()
	}
	if now := time.Now(); kind == "stats" && now.Sub(s.costAt) >= costEvery {
		s.costAt, r.Cost = now, s.cost()
	}
	return r
}
