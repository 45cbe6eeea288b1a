package peerage

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/gossip/transport"
)

// Config is how a node is set up. The zero Config is valid: a cluster of one on
// a free port of the loopback interface.
type Config struct {
	// Gossip says how the node takes part in a cluster: its name, addresses,
	// contact points, roles, and the pace of leases. Its Logger is set by the node;
	// Handlers, BlockHandlers, Flows and Transport belong to the node and must not be set.
	Gossip gossip.Config
	// CertificateFiles, if set, turns mutual TLS on for all connections between nodes,
	// with files that are read by New and again whenever they change: a renewed
	// certificate counts from the next handshake on and drops no connection, and files
	// that cannot be used leave the former in use, logged and counted
	// (peerage_transport_certificate_reloads_total). It sets Gossip.Certificates; not
	// together with that or Gossip.TLS. Off loopback set Gossip.SecretKeys as well:
	// SECURITY.md. Its Logger is by default the node's.
	CertificateFiles *transport.CertificateFiles
	// Network, if set, carries everything in memory instead of TCP: for tests of
	// programs that embed Peerage. Gossip.Transport is then set by the node;
	// Gossip.Listen names the address in that network. See
	// transport.Network for the faults it can play, and gossip.Test for settings that
	// work in a bubble of testing/synctest.
	Network *transport.Network
	// Capacity is how many shards the node can carry, in relation to others: for
	// entity types whose strategy is strategy.Weighted. Give a machine of twice the
	// size twice the number, say 200 and 100. Default: 1.
	Capacity uint32
	// MinMembers is how many members of the cluster, of whatever role, are to be up
	// before the first shard of any entity type is placed. It saves moves when many
	// nodes start at once, and keeps the first nodes of a restarted cluster from working
	// with what only their disks hold: with durable data, give it a majority of the
	// nodes. A cluster that once had as many goes on with fewer. Until then asks wait.
	// It counts where the type is coordinated, so give all nodes the same.
	// sharding.Type.MinMembers is that of one type, and counts the nodes that host it.
	// Default: 1.
	MinMembers int
	// RememberedPerSecond is how many remembered entities (sharding.Type.Remember) the
	// node starts per second, over all types. Default:
	// sharding.DefaultRememberedPerSecond.
	RememberedPerSecond int
	// RejoinAfter is the pause before a removed node joins again as a new
	// incarnation. It doubles with each removal that follows soon, up to 30 times
	// itself. Default: 200 ms. Negative: never; the node then stays without a
	// cluster and its Regions answer ErrNotReady.
	RejoinAfter time.Duration
	// Strict makes mistakes of entities' code show on one node, at some cost: set it in
	// tests. Messages and replies between entities of this node go through their codec, as
	// between nodes, and late use of a Context is always found: see sharding.Config.Strict.
	// Under the race detector it is always on. Default: false.
	Strict bool
	// Data sets up the distributed data of roles, by role: "" is the data of all
	// members, AnyRole that of each role which is not named. Default: in memory, for
	// ever. See DataConfig.
	Data map[string]DataConfig
	// DataDir is the directory for the files of durable keys, one for each role:
	// "all.keys", and "role-" before the role's name. Each node needs one of its own. It
	// must exist. A file belongs to one cluster, role and Gossip.Name. The file "generation"
	// keeps tokens rising when all nodes stop and a clock is set back; it is used without
	// durable keys, too; "origin" says of which cluster the files are, so that those of another
	// one of the same name are set aside, not merged.
	DataDir string
	// LameDuck is how long Drain goes on sending what callers in this process ask
	// for, after readiness went false: give load balancers the time to notice, say
	// 5 s. Shards are handed over meanwhile. Default: 0.
	LameDuck time.Duration
	// Logger gets warnings that an operator should see, and events at lower levels.
	// Default: discard.
	Logger *slog.Logger
	// Registerer takes the node's metrics. nil exports none. They are unregistered
	// by Shutdown and Close.
	Registerer prometheus.Registerer
}

const (
	defaultRejoinAfter = 200 * time.Millisecond
	rejoinFactorMax    = 30
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Gossip.WallClock == nil {
		c.Gossip.WallClock = time.Now
	}
	if c.RejoinAfter == 0 {
		c.RejoinAfter = defaultRejoinAfter
	}
	c.Gossip.Logger = c.Logger
	if c.Network != nil {
		c.Gossip.InsecureTransport = true // nothing leaves the process
	}
	return c
}

// gossipConfig is Gossip as it will be once the certificates have been read.
func (c *Config) gossipConfig() gossip.Config {
	cfg := c.Gossip
	if c.CertificateFiles != nil && cfg.Certificates == nil {
		cfg.Certificates = new(transport.Certificates)
	}
	return cfg
}

// Validate reports everything that is wrong with the settings at once, each
// fault with the setting's name, its value and why.
func (c Config) Validate() error {
	c = c.withDefaults()
	err := c.gossipConfig().Validate()
	own := slices.Concat(c.dataProblems(), c.certificateProblems(), c.nodeProblems())
	if len(own) == 0 {
		return err
	}
	var all gossip.ConfigError
	if e := (*gossip.ConfigError)(nil); errors.As(err, &e) {
		all.Problems = e.Problems
	}
	all.Problems = append(all.Problems, own...)
	slices.SortStableFunc(all.Problems, func(a, b gossip.Problem) int { return strings.Compare(a.Setting, b.Setting) })
	return &all
}

// nodeProblems is about what package gossip does not know, or would take and the node
// replaces.
func (c *Config) nodeProblems() (out []gossip.Problem) {
	for _, x := range []struct {
		bad                 bool
		setting, value, why string
	}{
		{c.MinMembers < 0, "MinMembers", strconv.Itoa(c.MinMembers), "must not be negative"},
		{c.RememberedPerSecond < 0, "RememberedPerSecond", strconv.Itoa(c.RememberedPerSecond), "must not be negative"},
		{c.LameDuck < 0, "LameDuck", c.LameDuck.String(), "must not be negative"},
		{c.Gossip.Transport != nil, "Transport", "set", "the node makes one for each incarnation; for one in memory set Network"},
		{len(c.Gossip.Handlers) > 0, "Handlers", "set", "the node's layers take all frames"},
		{len(c.Gossip.BlockHandlers) > 0, "BlockHandlers", "set", "the node's layers take all frames"},
		{len(c.Gossip.Flows) > 0, "Flows", "set", "the node's layers send all frames"},
	} {
		if x.bad {
			out = append(out, gossip.Problem{Setting: x.setting, Value: x.value, Why: x.why})
		}
	}
	return out
}

func (c *Config) certificateProblems() []gossip.Problem {
	if c.CertificateFiles == nil || c.Gossip.Certificates == nil {
		return nil
	}
	return []gossip.Problem{{Setting: "CertificateFiles", Value: "set", Why: "Gossip.Certificates is set as well: choose one"}}
}
