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

// Config holds the settings of a node. The zero Config is valid: a cluster of one, on a
// free port of the loopback interface.
type Config struct {
	// Gossip holds the node's part in the cluster: its name, addresses, contact points,
	// roles, and the timing of leases. The node sets its Logger. Handlers, BlockHandlers,
	// Flows and Transport belong to the node and must not be set.
	Gossip gossip.Config
	// CertificateFiles, if set, turns on mutual TLS for all connections between nodes. New
	// reads the files, and the node reads them again whenever they change. A renewed
	// certificate takes effect at the next handshake and drops no connection. If the
	// changed files cannot be used, the former ones stay in use; this is logged and counted
	// (peerage_transport_certificate_reloads_total).
	//
	// CertificateFiles sets Gossip.Certificates; do not set that or Gossip.TLS as well. On
	// addresses other than loopback, also set Gossip.SecretKeys: see SECURITY.md. Its
	// Logger defaults to the node's.
	CertificateFiles *transport.CertificateFiles
	// Network, if set, carries all traffic in memory instead of TCP: for tests of programs
	// that embed Peerage. The node then sets Gossip.Transport; Gossip.Listen is the address
	// in that network. See transport.Network for the faults it can simulate, and
	// gossip.Test for settings that work in a bubble of testing/synctest.
	Network *transport.Network
	// Capacity is the number of shards that the node can carry, relative to the other
	// nodes, for entity types whose strategy is strategy.Weighted. Give a machine of twice
	// the size twice the number, for example 200 and 100. Default: 1.
	Capacity uint32
	// MinMembers is the number of members, of any role, that must be up before the first
	// shard of any type is placed. Until then, asks wait. Once this number has been
	// reached, the cluster keeps placing shards even if members leave.
	//
	// It saves moves when many nodes start together. It also keeps the first nodes of a
	// restarted cluster from working only with what their own disks hold: with durable
	// data, set it to a majority of the nodes. The coordinator of a type applies its own
	// value, so give all nodes the same. sharding.Type.MinMembers is the bound of one type,
	// and counts the nodes that host the type. Default: 1.
	MinMembers int
	// RememberedPerSecond is the number of remembered entities (sharding.Type.Remember)
	// that the node starts per second, over all types. Default:
	// sharding.DefaultRememberedPerSecond.
	RememberedPerSecond int
	// RejoinAfter is the pause before a removed node joins again as a new incarnation. It
	// doubles with each removal that follows soon, up to 30 times the setting. Default: 200
	// ms. If negative, the node never joins again, and its Regions return ErrNotReady.
	RejoinAfter time.Duration
	// Strict makes a single node show mistakes in the code of entities, at some cost: set
	// it in tests. Messages and replies between entities of this node go through their
	// codec, as between nodes, and any late use of a Context is detected: see
	// sharding.Config.Strict. Under the race detector, Strict is always on. Default: false.
	Strict bool
	// Data holds the settings of the distributed data, by role. The key "" is the data of
	// all members; AnyRole stands for each role that is not named. Default: in memory,
	// never expiring. See DataConfig.
	Data map[string]DataConfig
	// DataDir is the directory of this node's files. It must exist. Each node needs a
	// directory of its own. A file belongs to one cluster, role and Gossip.Name. The files
	// are:
	//
	//  - "all.keys" and "role-ROLE.keys": the durable keys, one file for each role.
	//  - "generation": keeps tokens rising when all nodes stop and a clock is set back. It is
	//    also used without durable keys.
	//  - "origin": names the cluster of the files, so that the files of another cluster of the same
	//    name are set aside, not merged.
	DataDir string
	// LameDuck is how long, after readiness became false, Drain keeps sending messages for
	// callers in this process: time for load balancers to notice, for example 5 s. Shards are
	// handed over meanwhile. Default: 0.
	LameDuck time.Duration
	// Logger receives warnings for operators, and events at lower levels. Default: discard.
	Logger *slog.Logger
	// Registerer registers the node's metrics. If nil, none are exported. Shutdown and
	// Close unregister them.
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

// gossipConfig returns Gossip as it will be once the certificates have been read.
func (c *Config) gossipConfig() gossip.Config {
	cfg := c.Gossip
	if c.CertificateFiles != nil && cfg.Certificates == nil {
		cfg.Certificates = new(transport.Certificates)
	}
	return cfg
}

// Validate returns an error that lists every invalid setting with its name, its value and
// the reason. It returns nil if there is none.
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

// nodeProblems checks the settings that package gossip does not have, and those that
// package gossip accepts but the node replaces.
func (c *Config) nodeProblems() (out []gossip.Problem) {
	for _, x := range []struct {
		bad                 bool
		setting, value, why string
	}{
		{c.MinMembers < 0, "MinMembers", strconv.Itoa(c.MinMembers), "must not be negative"},
		{c.RememberedPerSecond < 0, "RememberedPerSecond", strconv.Itoa(c.RememberedPerSecond), "must not be negative"},
		{c.LameDuck < 0, "LameDuck", c.LameDuck.String(), "must not be negative"},
		{c.Gossip.Transport != nil, "Transport", "set", "the node makes one for each incarnation; set Network for one in memory"},
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
