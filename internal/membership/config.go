package membership

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// Config configures a node. The zero value is valid: a cluster of one on a free port of
// the loopback interface. Durations and counts that are zero take the default named at
// the field.
//
// The settings marked (equal) must be equal on all nodes. They are compared before a node
// is admitted, and a mismatch is logged on both sides with both values.
type Config struct {
	// Name is the stable label of the node: it survives restarts, and need not be
	// unique. At most 128 printable bytes without spaces and slashes. Default: the
	// address of Advertise or Listen; with port 0, a part of the NodeID.
	Name string
	// Cluster is the name of the cluster (equal): nodes with another name are refused. At
	// most 128 printable bytes without spaces. Default: "peerage".
	Cluster string
	// Listen is the host:port to listen on; port 0 takes a free one. Default:
	// "127.0.0.1:0".
	Listen string
	// Advertise is the host:port at which other nodes reach this one. It is required if
	// Listen names no particular address ("0.0.0.0:7101"). Default: the actual listen
	// address.
	Advertise string
	// Roles are the node's labels: at most 32, each of at most 64 bytes from
	// a-z A-Z 0-9 . _ -.
	Roles []string
	// AppVersion orders releases of the application: at most 64 printable bytes.
	AppVersion string
	// Metadata is a further description of the node for readers of views: a zone, a
	// machine's name. Every view carries it, so it is small: at most 8 entries and 256
	// bytes in all, keys of the same bytes as roles, values printable. It does not change
	// while the node runs.
	Metadata map[string]string

	// ContactPoints are addresses of other nodes of the cluster. The node probes them
	// with back-off until one admits it. At most 1024, each
	//
	//	10.0.0.7:7101                  an address,
	//	peers.example:7101             all addresses of a host name (A, AAAA), or
	//	srv:_peerage._tcp.example      all targets of SRV records, each with its port;
	//	                               priority and weight do not matter.
	//
	// Names are looked up again at every round: every second without a view, every 10 s
	// with one. A name that does not resolve is logged and keeps its last addresses.
	//
	// Give all nodes the same list; a node's own address may be in it or not. The lowest
	// address among those that answer forms a new cluster, once more than half of the
	// list answers. A node that is on no list joins only, and never forms a cluster. A
	// list of one address requires BootstrapExpect, and so does a list with names: a DNS
	// name may at first return only some of the hosts, and a majority of those few could
	// form a second cluster.
	//
	// An empty list is for a node with Bootstrap, or for one that can have no peers: Listen
	// names a loopback address and port 0.
	ContactPoints []string
	// ContactFunc returns further contact points, in the same forms. It is called at
	// every round, from one goroutine, and should honour ctx. It requires
	// BootstrapExpect.
	ContactFunc func(ctx context.Context) ([]string, error)
	// Resolver looks the names of contact points up. Default: net.DefaultResolver.
	Resolver gossip.Resolver
	// Bootstrap makes this node form a new cluster immediately, without probing its
	// contact points. A node that is restarted with Bootstrap forms another cluster
	// beside the surviving one, and one of the two yields (ForeignClusters): set it only
	// for the first start of a cluster.
	Bootstrap bool
	// BootstrapExpect is how many nodes must answer before the lowest of them forms a new
	// cluster. This node's own contact points count, as resolved, and this node itself;
	// lists of other nodes and FormerMembers do not. More than half of the list must answer
	// in any case, so a lower number is refused for a list of addresses. A higher one waits
	// for machines that may never come. With names, set more than half of the nodes that
	// start first: then incomplete answers of a name server do no harm. Default: more
	// than half of the list; required for a list of one address (1, if the node there may
	// form a cluster by itself), for names and for a ContactFunc.
	BootstrapExpect int
	// FormerMembers are addresses of nodes that an earlier incarnation of this node has met.
	// The node looks there for its cluster. They are not contact points: a node with
	// contact points does not count them. A node without any counts them, and itself, as
	// its list: it forms a new cluster only with more than half of them, unless
	// BootstrapExpect is 1. At most 1024.
	FormerMembers []string
	// SettleAfter is how long the set of answering contact points must stay the same
	// before a cluster is formed of fewer than all of them, or by a node alone. The wait
	// lasts at least twice Discovery.RejoinInterval, so that a cluster that lives, and looks
	// for its lost members at that pace, finds this node first. Default: 1 s.
	SettleAfter time.Duration
	// ReformAfter ends an incarnation whose view can never have a quorum again. If a node
	// has held no lease for so long, so many members are proven dead that the rest can
	// never be a quorum, and no cluster was found, then it ends, and the next incarnation
	// joins or forms a cluster under the rules for a fresh node. In this case the proofs
	// came too late for a takeover: for example after a majority lost power and restarted
	// as new incarnations. This is the only place where availability is chosen over
	// certainty. Default: 30 s; negative: never.
	ReformAfter time.Duration
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

	// Members is the expected number of members, at most 2048. The leader pings all of
	// them every P; above 200 the defaults of Ping, Lease and RemoveAfter are those below
	// times Members/200, so that the leader's work and traffic stay those of 200 members.
	// Worked out for 1000: P = 500 ms, L = 5 s, RemoveAfter = 10 s, and 2000 pings a
	// second. A larger cluster works but costs its leader more; a smaller one takes
	// longer to detect silence. Proven crashes are not affected. It does not follow the
	// view by itself: two nodes that hold different views would count leases by different
	// lengths. Default: 200.
	Members int
	// Ping is P (equal): the interval at which the leader pings every member. Default:
	// 100 ms.
	Ping time.Duration
	// Lease is L (equal): how long a lease lasts. At least 4.5 P, and the drift of
	// clocks on top: with less, one lost ping would pause the node. A shorter lease
	// makes takeovers after silence faster and pauses of the process costlier: with L = 1
	// s a process that pauses for less than 1 s - P loses nothing. It is also the window
	// in which certain proofs of death may replace a quorum, counted from this node's
	// newest grant: with CrashEvidence full at least 50 ms plus 3 P plus L/5. Default: 1
	// s.
	Lease time.Duration
	// RemoveAfter (equal) is the silence after which a member is removed. It is
	// longer than L plus P. Default: 2 s.
	RemoveAfter time.Duration
	// DriftPPM (equal) bounds by how much two clocks' rates may differ, in parts per
	// million. Default: 1000, that is 1 ms per second.
	DriftPPM int
	// CrashEvidence (equal) sets the effect of proofs of death. Default: full.
	CrashEvidence gossip.CrashEvidence
	// Partition (equal, by its String) decides which part continues when the members
	// cannot reach each other, and which part stops: gossip.KeepMajority,
	// gossip.StaticQuorum, gossip.KeepOldest, gossip.AssumeCrash, or the application's own.
	// Default: gossip.KeepMajority.
	Partition gossip.Policy
	// ForeignClusters (equal) is the policy for another cluster of the same name:
	// gossip.ForeignMerge ends the one of lower standing, and its nodes join the other;
	// gossip.ForeignWarn leaves both as they are, and warns. Default: gossip.ForeignMerge.
	ForeignClusters gossip.ForeignPolicy
	// Oracle, if set, is asked about members that cannot be reached, and about all of
	// them while this node's lease is not renewed: an orchestrator's API, for example. It
	// returns true only for a process that is certainly gone. It is called from
	// goroutines of its own, at most one at a time per member, and should honour ctx.
	// Only an answer within L of this node's newest grant can replace a quorum: half of L
	// remains for it when all other members vanish without a goodbye.
	Oracle func(ctx context.Context, n gossip.Node) (gone bool, err error)

	// Certificates turns mutual TLS on for all connections between peers, with files
	// that are read again when they change: transport.LoadCertificates.
	Certificates *transport.Certificates
	// TLS does the same with a config of the application's own; not together with
	// Certificates.
	TLS *tls.Config
	// SharedSecrets protects a cluster without certificates: at most 4 secrets, each of at
	// least 32 random bytes, that all nodes hold. Each connection begins with a proof, on
	// both sides, that the far end holds one, and every record of it carries a MAC. It
	// encrypts no connection, and does not authenticate single nodes: see
	// transport.TCPConfig. Datagrams are encrypted, with keys derived from the secrets
	// unless SecretKeys is set. The first is used to dial, all are accepted.
	SharedSecrets [][]byte
	// SecretKeys encrypt memberlist's gossip: at most 16 AES keys of 16, 24 or 32
	// bytes. The first encrypts, all decrypt. Node.RotateKeys changes them.
	SecretKeys [][]byte
	// InsecureTransport declares the network trusted: it allows an address other than
	// loopback without Certificates or TLS, which protect connections, and without
	// SecretKeys, which protect memberlist's datagrams (NoDiscovery sends none). Any of
	// these that are set remain in use.
	InsecureTransport bool

	// Handlers receive the frames of the layers above. The kinds of this package,
	// KindView and KindEvidence, are not among them. A handler must not block for long.
	// It drops frames that it cannot accept yet: every protocol retransmits.
	Handlers map[transport.Kind]transport.Handler
	// BlockHandlers do the same for kinds of which many frames arrive at a time.
	BlockHandlers map[transport.Kind]transport.BlockHandler
	// Flows name the flow of frames that the layers above send, by kind: frames of
	// different flows may overtake each other (transport.Transport.HandleFlows).
	Flows map[transport.Kind]func(payload []byte) transport.Flow

	// Logger receives warnings for operators, and events at lower levels. Default:
	// discard.
	Logger *slog.Logger
	// Clock measures leases. Default: clock.Boot, which counts suspend.
	Clock clock.Clock
	// WallClock supplies calendar time: a new cluster's generation, stamps of
	// last-writer-wins data, the age of deletions. No lease and no timer follows it. It
	// is called concurrently and may jump. Default: time.Now; set another one only in
	// tests.
	WallClock func() time.Time
	// Transport replaces the TCP transport: the in-memory one in tests. Its Self
	// then sets the node's id and address, and Listen, Advertise, Certificates, TLS and
	// InsecureTransport are ignored. The node closes it.
	Transport transport.Transport
	// Seed feeds random waits. Default: random.
	Seed uint64
	// NoDiscovery disables memberlist: nodes are then found only at contact points and
	// through views, and no datagram is sent or read.
	NoDiscovery bool
	// Discovery tunes memberlist.
	Discovery gossip.Discovery

	// trace receives leases and views as they change, for tests that compare nodes.
	trace tracer
}

// tracer is called in the loop with states that must never contradict between nodes.
// Either function may be nil.
type tracer struct {
	lease func(self gossip.NodeID, l view.Lease, held bool, from clock.Instant)
	view  func(self gossip.NodeID, v *gossip.View)
}

// LAN returns the defaults explicitly, for machines in one data centre.
func LAN() Config {
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

// Local returns settings for processes on one machine, with shorter intervals of
// discovery.
func Local() Config {
	c := LAN()
	c.SettleAfter = 500 * time.Millisecond
	c.Discovery.ProbeInterval = 500 * time.Millisecond
	c.Discovery.GossipInterval = 100 * time.Millisecond
	c.Discovery.RejoinInterval = time.Second
	return c
}

// Test returns settings for tests in one process, on the in-memory transport: Local with
// a quick ReformAfter, on the runtime's clock, which testing/synctest drives. Call it
// inside the bubble.
func Test() Config {
	c := Local()
	c.ReformAfter = 5 * time.Second
	c.Clock = clock.Runtime()
	return c
}

// withDefaults returns c with every zero setting replaced by its default.
func (c Config) withDefaults() Config {
	d := LAN()
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
