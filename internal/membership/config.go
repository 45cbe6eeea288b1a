package membership

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/discovery"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// Config configures a node. The zero value is valid: a cluster of one on a free port of the
// loopback interface.
//
// The first fields are settings of peerage.Config, with its names and defaults; they are
// documented there.
type Config struct {
	Name              string
	Cluster           string
	Listen            string
	Advertise         string
	Roles             []string
	Zone              string
	AppVersion        string
	Metadata          map[string]string
	Join              []string
	JoinFunc          func(ctx context.Context) ([]string, error)
	Resolver          gossip.Resolver
	Bootstrap         bool
	BootstrapExpect   int
	SettleAfter       time.Duration
	ReformAfter       time.Duration
	Members           int
	Ping              time.Duration
	Lease             time.Duration
	RemoveAfter       time.Duration
	DriftPPM          int
	CrashEvidence     gossip.CrashEvidence
	Partition         gossip.Policy
	ForeignClusters   gossip.ForeignPolicy
	Oracle            func(ctx context.Context, n gossip.Node) (gone bool, err error)
	TLS               *tls.Config
	SharedSecrets     [][]byte
	SecretKeys        [][]byte
	InsecureTransport bool
	Logger            *slog.Logger
	WallClock         func() time.Time
	Seed              uint64
	NoDiscovery       bool
	Discovery         gossip.Discovery

	// FormerMembers are addresses of nodes that an earlier incarnation of this node has met.
	// The node looks there for its cluster. They are not contact points: a node with
	// contact points does not count them. A node without any counts them, and itself, as
	// its list: it forms a new cluster only with more than half of them, unless
	// BootstrapExpect is 1. At most 1024.
	FormerMembers []string
	// MinGeneration is the lowest generation of a cluster that this node may form: above
	// those that it has met in earlier incarnations. A node that forms a cluster while
	// this node answers respects it, too. Default: the wall clock in seconds.
	MinGeneration uint32
	// Origin is that of this node's files (gossip.View.Origin), 0 if it has none. A cluster
	// that this node forms keeps it.
	Origin uint64
	// Process and Incarnation order the frames of one process's incarnations; see
	// transport.Config. Package peerage sets both. Defaults: those of transport.Config,
	// right for a process that has one incarnation.
	Process, Incarnation uint64
	// LeastGeneration is the lowest generation of a cluster that may admit this node; a
	// cluster below opens that generation first. It lies above those of other clusters of
	// which the node was a member, so that tokens never go back.
	LeastGeneration uint32
	// Certificates turns mutual TLS on for all connections between peers, with files
	// that are read again when they change: transport.LoadCertificates.
	Certificates *transport.Certificates
	// Handlers receive the frames of the layers above. The kinds of this package,
	// KindView and KindEvidence, are not among them. A handler must not block for long.
	// It drops frames that it cannot accept yet: every protocol retransmits.
	Handlers map[transport.Kind]transport.Handler
	// BlockHandlers do the same for kinds of which many frames arrive at a time.
	BlockHandlers map[transport.Kind]transport.BlockHandler
	// Flows name the flow of frames that the layers above send, by kind: frames of
	// different flows may overtake each other (transport.Transport.HandleFlows).
	Flows map[transport.Kind]func(payload []byte) (f transport.Flow, urgent bool)
	// Clock measures leases. Default: clock.Boot, which counts suspend.
	Clock clock.Clock
	// Removed receives how long after the loss of its connection to a member this node adopts a
	// view without it. A member whose connection never broke is left out. It is called in the
	// loop and must not block; nil receives nothing.
	Removed func(cause gossip.Cause, after time.Duration)
	// Transport replaces the TCP transport: the in-memory one in tests. Its Self
	// then sets the node's id and address, and Listen, Advertise, Certificates, TLS and
	// InsecureTransport are ignored. The node closes it.
	Transport transport.Transport
	// trace receives leases and views as they change, for tests that compare nodes.
	trace tracer
}

// tracer is called in the loop with states that must never contradict between nodes.
// Either function may be nil.
type tracer struct {
	lease func(self gossip.NodeID, l view.Lease, held bool, from clock.Instant)
	view  func(self gossip.NodeID, v *gossip.View)
}

// lanConfig returns the defaults, for machines in one data centre.
func lanConfig() Config {
	return Config{
		Cluster: "peerage", Listen: "127.0.0.1:0",
		SettleAfter: time.Second, ReformAfter: 30 * time.Second,
		Ping: 100 * time.Millisecond, Lease: time.Second, RemoveAfter: 2 * time.Second,
		DriftPPM: 1000,
		Discovery: gossip.Discovery{
			ProbeInterval: time.Second, GossipInterval: 200 * time.Millisecond,
			PushPullInterval: 15 * time.Second, RejoinInterval: 2 * time.Second,
		},
	}
}

// withDefaults returns c with every zero setting replaced by its default.
func (c Config) withDefaults() Config {
	d := lanConfig()
	orString(&c.Cluster, d.Cluster)
	orString(&c.Listen, d.Listen)
	orDuration(&c.SettleAfter, d.SettleAfter)
	orDuration(&c.ReformAfter, d.ReformAfter)
	orDuration(&c.Ping, c.scaleWithMembers(d.Ping))
	orDuration(&c.Lease, c.scaleWithMembers(d.Lease))
	orDuration(&c.RemoveAfter, c.scaleWithMembers(d.RemoveAfter))
	orDuration(&c.Discovery.ProbeInterval, d.Discovery.ProbeInterval)
	orDuration(&c.Discovery.GossipInterval, d.Discovery.GossipInterval)
	orDuration(&c.Discovery.PushPullInterval, d.Discovery.PushPullInterval)
	orDuration(&c.Discovery.RejoinInterval, d.Discovery.RejoinInterval)
	if c.DriftPPM == 0 {
		c.DriftPPM = d.DriftPPM
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.WallClock == nil {
		c.WallClock = time.Now
	}
	if c.Clock == nil {
		c.Clock = clock.Boot()
	}
	if c.Partition == nil {
		c.Partition = gossip.KeepMajority{}
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	return c
}

// authenticates reports whether nodes prove their identity to each other.
func (c *Config) authenticates() bool {
	return c.Certificates != nil || c.TLS != nil || len(c.SharedSecrets) > 0
}

// scaleWithMembers returns a default that grows with the members.
func (c *Config) scaleWithMembers(d time.Duration) time.Duration {
	return d * time.Duration(min(max(c.Members, membersUsual), membersMost)) / membersUsual
}

const (
	membersUsual = 200
	membersMost  = 2048
)

func orString(s *string, def string) {
	if *s == "" {
		*s = def
	}
}

func orDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

// settings returns, by name, the settings that must be equal on all nodes of a cluster.
// The handshake compares them and refuses with both values.
func (c *Config) settings() map[string]string {
	return map[string]string{
		"Ping":          c.Ping.String(),
		"Lease":         c.Lease.String(),
		"RemoveAfter":   c.RemoveAfter.String(),
		"DriftPPM":      strconv.Itoa(c.DriftPPM),
		"CrashEvidence": evidenceLevel(c.CrashEvidence),
		"Partition":     c.Partition.String(),

		"ForeignClusters": c.ForeignClusters.String(),
	}
}

func evidenceLevel(e gossip.CrashEvidence) string {
	switch e {
	case gossip.EvidenceFull:
		return "full"
	case gossip.EvidenceWithinQuorum:
		return "within quorum"
	case gossip.EvidenceOff:
		return "off"
	}
	return strconv.Itoa(int(e))
}

// TransportConfig returns the configuration of a transport for this node, for
// applications that set Transport. The id must be random and new at every start.
func (c Config) TransportConfig(id gossip.NodeID) transport.Config {
	c = c.withDefaults()
	return transport.Config{
		ID: id, Name: c.nodeName(id), Cluster: c.Cluster, Process: c.Process, Incarnation: c.Incarnation,
		Settings: c.settings(), Logger: c.Logger,
	}
}

// nodeName returns the name, or its default.
func (c *Config) nodeName(id gossip.NodeID) string {
	switch {
	case c.Name != "":
		return c.Name
	case c.Advertise != "" && !strings.HasSuffix(c.Advertise, ":0"):
		return c.Advertise
	case !strings.HasSuffix(c.Listen, ":0"):
		return c.Listen
	}
	return "node-" + id.String()[:8]
}

// openTransport opens the port.
func openTransport(c *Config, id gossip.NodeID) (transport.Transport, error) {
	t, err := transport.NewTCP(transport.TCPConfig{
		Config: c.TransportConfig(id),
		Listen: c.Listen, Advertise: c.Advertise, Certificates: c.Certificates, TLS: c.TLS, SharedSecrets: c.SharedSecrets,
	})
	if err != nil {
		return nil, fmt.Errorf("gossip: Listen = %q: %w", c.Listen, err)
	}
	return t, nil
}

// discoveryConfig returns the configuration of discovery.
func (c *Config) discoveryConfig() *discovery.Config {
	return &discovery.Config{
		Cluster: c.Cluster, SecretKeys: c.SecretKeys, Logger: c.Logger,
		ProbeInterval: c.Discovery.ProbeInterval, GossipInterval: c.Discovery.GossipInterval,
		PushPullInterval: c.Discovery.PushPullInterval, RejoinInterval: c.Discovery.RejoinInterval,
		CodeNode: codeNode,
	}
}
