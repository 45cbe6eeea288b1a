package peerage

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding"
)

// Config holds the settings of a node. The zero Config is valid: a cluster of one, on a
// free port of the loopback interface. Durations and counts that are zero take the default
// named at the field.
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
	// Roles are the node's labels. At most 32, each of at most 64 bytes from
	// a-z A-Z 0-9 . _ -.
	Roles []string
	// Zone is the part of the data centre that fails as a whole with this node: an availability
	// zone, a rack, a power line. Copies of a shard's replicated states are spread over as many
	// zones as there are. At most 64 printable bytes. Default: none.
	Zone string
	// AppVersion orders releases of the application: new shards go to the newest. At most 64
	// printable bytes.
	AppVersion string
	// Metadata is a further description of the node for readers of views, such as a
	// machine's name. Every view carries it, so keep it small. At most 8 entries and 256
	// bytes in all, keys of the same bytes as roles, values printable. It does not change
	// while the node runs.
	Metadata map[string]string

	// Join lists the contact points: addresses of other nodes of the cluster. The node probes
	// them with back-off until one admits it. There are at most 1024. Each is one of these:
	//
	//	10.0.0.7:7101                  an address
	//	peers.example:7101             all addresses of a host name (A, AAAA)
	//	srv:_peerage._tcp.example      all targets of SRV records, each with its port;
	//	                               priority and weight do not matter
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
	Join []string
	// JoinFunc returns further contact points, in the same forms as Join. It is called at
	// every round, from one goroutine, and should honour ctx. It requires
	// BootstrapExpect.
	JoinFunc func(ctx context.Context) ([]string, error)
	// Resolver resolves the names of contact points. Default: net.DefaultResolver.
	Resolver Resolver
	// Bootstrap makes this node form a new cluster immediately, without probing its
	// contact points. A node that is restarted with Bootstrap forms another cluster
	// beside the surviving one, and one of the two yields (ForeignClusters): set it only
	// for the first start of a cluster.
	Bootstrap bool
	// BootstrapExpect is how many nodes must answer before the lowest of them forms a new
	// cluster. This node's own contact points count, as resolved, and this node itself;
	// lists of other nodes do not. More than half of the list must answer
	// in any case, so a lower number is refused for a list of addresses. A higher one waits
	// for machines that may never come. With names, set more than half of the nodes that
	// start first: then incomplete answers of a name server do no harm. Default: more
	// than half of the list; required for a list of one address (1, if the node there may
	// form a cluster by itself), for names and for a JoinFunc.
	BootstrapExpect int
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

	// Members is the expected number of members. At most 2048. The leader pings each member
	// once in the time of Ping. Above 200 members the defaults of Ping, Lease and RemoveAfter
	// are those below times Members/200, so that the leader's work and traffic stay those of
	// 200 members. For 1000 members Ping is 500 ms, Lease 5 s and RemoveAfter 10 s, and the
	// leader sends 2000 pings a second. A cluster larger than Members works but costs its
	// leader more; a smaller one takes longer to detect silence. Proven crashes are not
	// affected. Members does not follow the view: two nodes that hold different views would
	// count leases by different lengths. Default: 200.
	Members int
	// Ping is P (equal): the interval at which the leader pings every member. It must be
	// above the longest round trip between two nodes: elections, and the first lease of a node
	// that joins, need an answer within P. Raise Lease and RemoveAfter with it. Default:
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
	// CrashEvidence (equal) sets the effect of proofs of death. Default:
	// gossip.EvidenceFull.
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
	// goroutines of its own, one at a time per member, and should honour ctx.
	// Only an answer within L of this node's newest grant can replace a quorum: half of L
	// remains for it when all other members vanish without a goodbye.
	Oracle func(ctx context.Context, n gossip.Node) (gone bool, err error)

	// CertificateFiles, if set, turns on mutual TLS for all connections between nodes. New
	// reads the files, and the node reads them again whenever they change. A renewed
	// certificate takes effect at the next handshake and drops no connection. If the
	// changed files cannot be used, the former ones stay in use; this is logged and counted
	// (peerage_transport_certificate_reloads_total).
	//
	// On addresses other than loopback, also set SecretKeys: see SECURITY.md.
	CertificateFiles *CertificateFiles
	// TLS turns on mutual TLS with a config of the application's own; not together with
	// CertificateFiles.
	TLS *tls.Config
	// SharedSecrets protects a cluster without certificates: all nodes hold the same secrets.
	// At most 4, each of at least 32 random bytes. Each connection begins with a proof, on
	// both sides, that the far end holds one, and every record of it carries a MAC. It
	// encrypts no connection, and does not authenticate single nodes: see SECURITY.md.
	// Datagrams are encrypted, with keys derived from the secrets unless SecretKeys is set.
	// The node dials with the first secret, and accepts connections made with any of them.
	SharedSecrets [][]byte
	// SecretKeys encrypt memberlist's gossip. At most 16 AES keys of 16, 24 or 32
	// bytes. The first encrypts, all decrypt. Node.RotateKeys replaces them.
	SecretKeys [][]byte
	// InsecureTransport declares the network trusted: it allows an address other than
	// loopback without CertificateFiles or TLS, which protect connections, and without
	// SecretKeys, which protect memberlist's datagrams (NoDiscovery sends none). Any of
	// these that are set remain in use.
	InsecureTransport bool

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
	// RememberedPerSecond bounds the remembered entities (sharding.Type.Remember) that the
	// node starts per second, over all types, beside the bound of the starts in progress
	// (sharding.Type.Remember). Default: 0, no bound of the rate.
	RememberedPerSecond int
	// RejoinAfter is the pause before a removed node joins again as a new incarnation. It
	// doubles with each removal that follows soon, up to 30 times the setting. Default: 200
	// ms. If negative, the node never joins again, and its Regions return ErrNotReady.
	RejoinAfter time.Duration
	// Strict makes a single node show mistakes in the code of entities, at some cost: set
	// it in tests. Messages and replies between entities of this node go through their
	// codec, as between nodes, and any late use of a Context is detected. Under the race
	// detector, Strict is always on. Default: false.
	Strict bool
	// Interceptors wrap the calls of all entity types on this node, outermost first: see
	// sharding.Interceptor. Those of a type (sharding.Type.Interceptors) run within them.
	// Default: none.
	Interceptors []sharding.Interceptor
	// Data holds the settings of the distributed data, by role. The key "" is the data of
	// all members; AnyRole stands for each role that is not named. Default: in memory,
	// never expiring. See DataConfig.
	Data map[string]DataConfig
	// DataDir is the directory of this node's files. It must exist. Each node needs a
	// directory of its own. A file belongs to one cluster, role and Name. The files
	// are:
	//
	//  - "all.keys" and "role-ROLE.keys": the durable keys, one file for each role.
	//  - "generation": keeps tokens rising when all nodes stop and a clock is set back. It is
	//    also used without durable keys.
	//  - "origin": names the cluster of the files, so that the files of another cluster of
	//    the same name are set aside, not merged.
	DataDir string
	// LameDuck is how long, after readiness became false, Drain keeps sending messages for
	// callers in this process: time for load balancers to notice, for example 5 s. Shards are
	// handed over meanwhile. Default: 0.
	LameDuck time.Duration
	// Logger receives warnings for operators, and events at lower levels. Default: discard.
	Logger *slog.Logger
	// Registerer registers the node's metrics. Shutdown and Close unregister them. Default:
	// none are exported.
	Registerer prometheus.Registerer

	// Network, if set, carries all traffic in memory instead of TCP: for tests of programs
	// that embed Peerage. Listen is the address in that network; Advertise, CertificateFiles,
	// TLS and InsecureTransport are ignored. TestConfig returns settings for a network in a
	// bubble of testing/synctest.
	Network *Network
	// WallClock supplies calendar time: a new cluster's generation, stamps of
	// last-writer-wins data, the age of deletions. No lease and no timer follows it. It
	// is called concurrently and may jump. Default: time.Now; set another one only in
	// tests.
	WallClock func() time.Time
	// Seed feeds random waits. Default: random.
	Seed uint64
	// NoDiscovery disables memberlist: nodes are then found only at contact points and
	// through views, and no datagram is sent or read.
	NoDiscovery bool
	// Discovery tunes memberlist. Default: those of Discovery.
	Discovery Discovery

	clock clock.Clock // measures leases; nil: clock.Boot
}

// Discovery tunes memberlist. It does not affect safety, only how fast and at what cost
// nodes are discovered.
type Discovery = gossip.Discovery

// Resolver resolves names of contact points. *net.Resolver implements it.
type Resolver = gossip.Resolver

// CertificateFiles names the files of a node's certificate. Cert, Key and CA are required,
// in PEM. Key must belong to Cert. Cert must be signed by one of CA, for servers as well as
// for clients.
type CertificateFiles struct {
	// Cert holds the node's certificate, then those between it and the CA, if any. It is
	// required.
	Cert string
	// Key holds its private key. It is required.
	Key string
	// CA holds every trusted authority. It is required. Use one that signs only for this
	// cluster: with Name empty, any holder of a client certificate of it is admitted. To
	// change the authority, add the new one here on all nodes, then replace all
	// certificates, then remove the old one.
	CA string
	// Name, if set, is a DNS name that the certificate of every node must carry, on both
	// sides. Empty: the certificate names the host at which its node is reached
	// (Advertise), and the dialling side checks that.
	Name string
	// CheckEvery is the least interval between checks of the files: at handshakes, and
	// when statistics are read. Default: 1 s.
	CheckEvery time.Duration
}

// LocalConfig returns settings for processes on one machine, with shorter intervals of
// discovery than those of the zero Config.
func LocalConfig() Config {
	return Config{
		SettleAfter: 500 * time.Millisecond,
		Discovery: Discovery{
			ProbeInterval: 500 * time.Millisecond, GossipInterval: 100 * time.Millisecond,
			RejoinInterval: time.Second,
		},
	}
}

// TestConfig returns settings for tests in one process: LocalConfig with a quick
// ReformAfter, on the runtime's clock, which testing/synctest drives. Call it inside the
// bubble, and set Network.
func TestConfig() Config {
	c := LocalConfig()
	c.ReformAfter = 5 * time.Second
	c.clock = clock.Runtime()
	return c
}

// dataOf returns the settings of a role.
func (c *Config) dataOf(role string) DataConfig {
	if d, named := c.Data[role]; named {
		return d
	}
	return c.Data[AnyRole]
}
