package membership

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// Limits of a node's description of itself.
const (
	nameBytesMax     = 128
	metadataMax      = 8
	metadataBytesMax = 256
	contactPointsMax = 1024
	dnsNameBytesMax  = 253
	secretKeysMax    = 16
)

// Errors of this package, beside gossip.ErrRemoved.
var (
	// ErrSettings is wrapped by the errors of invalid settings, which list all of them.
	ErrSettings = errors.New("gossip: bad settings")
	// ErrNoKeys: the node was started without SecretKeys, so there are none to rotate.
	ErrNoKeys = errors.New("gossip: started without SecretKeys")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("gossip: closed")
)

// reporter receives one invalid setting: the name of the field, its value, and a text that
// states the error and the valid values.
type reporter func(setting, value, why string)

// checkSetting reports a setting that is not ok.
func (r reporter) checkSetting(ok bool, setting string, value any, why string) {
	if ok {
		return
	}
	if s, isString := value.(string); isString {
		value = strconv.Quote(s)
	}
	r(setting, fmt.Sprint(value), why)
}

// joinProblems returns nil, or an error that lists what check reports, sorted by setting.
func joinProblems(check func(reporter)) error {
	var lines []string
	check(func(setting, value, why string) {
		lines = append(lines, fmt.Sprintf("%s = %s: %s", setting, value, why))
	})
	if lines == nil {
		return nil
	}
	slices.Sort(lines)
	return fmt.Errorf("%w: %s", ErrSettings, strings.Join(lines, "; "))
}

// Validate returns nil, or an error that lists every problem.
func (c Config) Validate() error {
	return joinProblems(func(r reporter) { c.Check(r) })
}

// Check reports every invalid setting. It checks only the settings: it resolves no name and
// opens no socket.
func (c Config) Check(report func(setting, value, why string)) {
	c = c.withDefaults()
	r := reporter(report)
	c.validateIdentity(r)
	c.validateMetadata(r)
	if c.Transport == nil {
		c.validateAddresses(r)
	}
	c.validateContacts(r)
	c.validateTimes(r)
	c.validatePartition(r)
	c.validateKeys(r)
	for _, k := range []transport.Kind{transport.KindView, transport.KindEvidence} {
		if _, set := c.Handlers[k]; set {
			r("Handlers", strconv.Itoa(int(k)), "this kind belongs to package gossip")
		}
		if _, set := c.BlockHandlers[k]; set {
			r("BlockHandlers", strconv.Itoa(int(k)), "this kind belongs to package gossip")
		}
	}
}

func (c *Config) validateIdentity(r reporter) {
	r.checkSetting(printable(c.Name, nameBytesMax, " /"), "Name", c.Name,
		"a name has at most 128 printable bytes, no spaces, no slashes")
	r.checkSetting(printable(c.Cluster, nameBytesMax, " "), "Cluster", c.Cluster,
		"a cluster name has at most 128 printable bytes and no spaces")
	r.checkSetting(printable(c.Zone, appVersionBytesMax, ""), "Zone", c.Zone,
		"a zone has at most 64 printable bytes")
	r.checkSetting(printable(c.AppVersion, appVersionBytesMax, ""), "AppVersion", c.AppVersion,
		"a version has at most 64 printable bytes")
	r.checkSetting(len(c.Roles) <= rolesMax, "Roles", len(c.Roles), "a node carries at most 32 roles")
	for _, role := range c.Roles {
		r.checkSetting(role != "" && len(role) <= roleBytesMax && strings.Trim(role, roleBytes) == "", "Roles", role,
			"a role has 1 to 64 bytes from a-z A-Z 0-9 . _ -")
	}
}

func (c *Config) validateMetadata(r reporter) {
	size := 0
	for _, k := range slices.Sorted(maps.Keys(c.Metadata)) {
		value := c.Metadata[k]
		size += len(k) + len(value)
		r.checkSetting(k != "" && len(k) <= roleBytesMax && strings.Trim(k, roleBytes) == "", "Metadata", k,
			"a key has 1 to 64 bytes from a-z A-Z 0-9 . _ -")
		r.checkSetting(printable(value, metadataBytesMax, ""), "Metadata", k+"="+value, "a value is printable")
	}
	r.checkSetting(len(c.Metadata) <= metadataMax, "Metadata", len(c.Metadata), "at most 8 entries")
	r.checkSetting(size <= metadataBytesMax, "Metadata", fmt.Sprint(size, " bytes"), "keys and values have at most 256 bytes in all: every view carries them")
}

const roleBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func printable(s string, most int, without string) bool {
	return len(s) <= most && !strings.ContainsAny(s, without) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

func (c *Config) validateAddresses(r reporter) {
	host, err := splitAddr(c.Listen, true)
	r.checkSetting(err == nil, "Listen", c.Listen, reason(err))
	if err != nil {
		return
	}
	if c.Advertise != "" {
		adv, err := splitAddr(c.Advertise, true)
		r.checkSetting(err == nil, "Advertise", c.Advertise, reason(err))
		r.checkSetting(err != nil || !wildcard(adv), "Advertise", c.Advertise,
			"other nodes cannot dial an unspecified address: set the one at which they reach this node")
	} else {
		r.checkSetting(!wildcard(host), "Advertise", c.Advertise,
			"Listen = "+c.Listen+" names no particular address: set Advertise to the address at which other nodes reach this one")
	}
	r.checkSetting(c.TLS == nil || c.Certificates == nil, "TLS", "set", "CertificateFiles is set as well: choose one")
	c.validateSecrets(r)
	if !loopback(host) && !c.InsecureTransport {
		if adv, err := splitAddr(c.Advertise, true); c.Advertise != "" && err == nil {
			host = adv
		}
		c.validateOpenNetwork(r, host)
	}
}

func (c *Config) validateContacts(r reporter) {
	r.checkSetting(len(c.Join) <= contactPointsMax, "Join", len(c.Join), "at most 1024")
	fixed := c.JoinFunc == nil
	for _, p := range c.Join {
		fixed = fixed && isPlain(p)
		if srv, is := strings.CutPrefix(p, srvPrefix); is {
			r.checkSetting(srv != "" && len(srv) <= dnsNameBytesMax && !strings.ContainsAny(srv, " :/"), "Join", p,
				"srv: is followed by the name of SRV records and nothing else: their targets name the ports")
			continue
		}
		host, err := splitAddr(p, false)
		r.checkSetting(err == nil, "Join", p, reason(err))
		r.checkSetting(err != nil || !wildcard(host), "Join", p, "an unspecified address is nowhere: name a host")
	}
	r.checkSetting(len(c.FormerMembers) <= contactPointsMax, "FormerMembers", len(c.FormerMembers), "at most 1024")
	c.validateBootstrap(r, fixed)
}

// validateBootstrap refuses settings under which a node would form a second cluster
// beside a living one, after a restart or when names resolve to only some of the hosts.
func (c *Config) validateBootstrap(r reporter, literal bool) {
	expect, listed := c.BootstrapExpect, len(distinct(c.Join))
	r.checkSetting(expect >= 0, "BootstrapExpect", expect, "a count is not negative")
	if literal && expect > 1 {
		r.checkSetting(expect <= listed+1, "BootstrapExpect", expect,
			fmt.Sprintf("there are only %d contact points, so that many can never answer", listed))
	}
	switch {
	case c.Bootstrap || expect < 0:
	case literal && listed == 0:
		r.checkSetting(expect > 0 || len(c.FormerMembers) > 0 || c.peerless(), "Join", 0,
			"other nodes may have Listen = "+c.Listen+" as a contact point, and without contact points this node would form a second cluster at every restart: give all nodes the same list of addresses, or set Bootstrap on the one node that is to form the cluster, for its first start")
	case !literal && expect == 0:
		r("BootstrapExpect", "0",
			"names, and a JoinFunc, may return only some of the hosts: set how many contact points must answer before a new cluster is formed, more than half of the nodes that start first")
	case literal && listed == 1 && expect == 0:
		r("BootstrapExpect", "0",
			"the list has one address: set 1 on all nodes if the node there may form a cluster by itself, or give all nodes the same list of three addresses or more")
	case literal && expect > 0:
		r.checkSetting(expect > listed/2, "BootstrapExpect", expect,
			fmt.Sprintf("less than a majority of the %d contact points: two halves could form a cluster each; set %d or more, or leave it out", listed, listed/2+1))
	}
}

// peerless reports whether no other node can have this one's address.
func (c *Config) peerless() bool {
	host, port, err := net.SplitHostPort(c.Listen)
	return err != nil || loopback(host) && port == "0" && c.Advertise == ""
}

// distinct returns list sorted and without duplicates.
func distinct(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

func (c *Config) validateTimes(r reporter) {
	r.checkSetting(c.Members >= 0 && c.Members <= membersMost, "Members", c.Members, "between 1 and 2048, or 0 for 200")
	r.checkSetting(c.Ping >= time.Millisecond, "Ping", c.Ping, "at least 1ms")
	c.validateLease(r)
	r.checkSetting(c.RemoveAfter <= time.Hour, "RemoveAfter", c.RemoveAfter, "at most 1h")
	r.checkSetting(c.SettleAfter > 0, "SettleAfter", c.SettleAfter, "a wait is positive")
	r.checkSetting(c.DriftPPM > 0 && c.DriftPPM <= driftMax, "DriftPPM", c.DriftPPM, "between 1 and 100000")
	r.checkSetting(c.ForeignClusters <= gossip.ForeignWarn, "ForeignClusters", c.ForeignClusters, "one of the two named values")
	r.checkSetting(c.CrashEvidence <= gossip.EvidenceOff, "CrashEvidence", c.CrashEvidence, "one of the three named values")
	d := c.Discovery
	for name, v := range map[string]time.Duration{"ProbeInterval": d.ProbeInterval, "GossipInterval": d.GossipInterval,
		"PushPullInterval": d.PushPullInterval, "RejoinInterval": d.RejoinInterval} {
		r.checkSetting(v >= 10*time.Millisecond, "Discovery."+name, v, "at least 10ms")
	}
}

// driftMax is the highest DriftPPM: a tenth.
const driftMax = 100_000

// validateLease checks P, L, RemoveAfter and the clocks' error m per unit of time.
//
// Round k is sent at kP. Its ping echoes the answer to round k-1, sent about (k-1)P, and
// grants the rest of the leader lease, (k-1)P + L - mL - kP, less the margin for the
// member's clock; so the lease ends at (k-2)P + L - 2mL at the earliest, by a fast clock
// mL before that. If ping k+1 is lost, the next renewal comes at (k+2)P: that is in time
// if L - 3mL > 4P, plus the lateness of timers and messages, for which P/2 is reserved.
//
// No lease outlives the leader's newest message by more than L, so RemoveAfter >= L is
// safe. L is also the window of proofs: the newest grant is at most 3P old, a lost ping
// included, when all other members crash, and the proof takes refusalsSpanSuspectSelf, or
// readOut while there are unread bytes.
func (c *Config) validateLease(r reporter) {
	ppm := time.Duration(min(max(c.DriftPPM, 0), driftMax))
	drift := func(d time.Duration) time.Duration { return d / 1_000_000 * ppm }
	least := 4*c.Ping + c.Ping/2
	served := c.Lease-3*drift(c.Lease) >= least
	r.checkSetting(served, "Lease", c.Lease,
		fmt.Sprintf("less 3 times what clocks may drift in it (DriftPPM), at least 4.5 times Ping (%v), or one lost ping would pause the node", least))
	r.checkSetting(c.RemoveAfter-drift(c.RemoveAfter) > c.Lease+c.Ping, "RemoveAfter", c.RemoveAfter,
		fmt.Sprintf("less what clocks may drift in it (DriftPPM), more than Lease + Ping (%v): a member must not be removed while its lease runs", c.Lease+c.Ping))
	if c.CrashEvidence == gossip.EvidenceFull && served {
		window := 3*c.Ping + refusalsSpanSuspectSelf + readOut(c.Lease)
		r.checkSetting(c.Lease-drift(c.Lease) >= window, "Lease", c.Lease,
			fmt.Sprintf("less what clocks may drift in it (DriftPPM), at least %v, in which a crash is proven: later proofs cannot replace a quorum, as CrashEvidence full promises", window))
	}
}

func (c *Config) validatePartition(r reporter) {
	name := c.Partition.String()
	r.checkSetting(name != "" && printable(name, nameBytesMax, ""), "Partition", name,
		"nodes compare its String, which has 1 to 128 printable bytes")
	switch p := c.Partition.(type) {
	case gossip.StaticQuorum:
		r.checkSetting(p.N >= 1, "Partition", name, "N is at least 1")
	case gossip.AssumeCrash:
		r.checkSetting(p.After > c.RemoveAfter+c.Lease, "Partition", name,
			fmt.Sprintf("After is more than RemoveAfter + Lease (%v): a majority must have had the time to continue first", c.RemoveAfter+c.Lease))
		r.checkSetting(c.CrashEvidence == gossip.EvidenceFull, "Partition", name,
			"it counts silence as evidence, so CrashEvidence must be full")
	}
	for n := 1; n <= policyVoters; n++ {
		if err := gossip.VerifyPolicy(c.Partition, policySample(n)); err != nil {
			r("Partition", name, "it lets two parts act at the same time, or none: "+err.Error())
			return
		}
	}
}

// policyVoters is the largest view for which an application's policy is checked.
const policyVoters = 5

// policySample is a view of n plain members.
func policySample(n int) *gossip.View {
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	for i := range n {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1)}, Joined: v.Epoch, Status: gossip.Up})
	}
	return v
}

func (c *Config) validateKeys(r reporter) {
	r.checkSetting(len(c.SecretKeys) <= secretKeysMax, "SecretKeys", len(c.SecretKeys), "at most 16: every one is tried")
	for i, k := range c.SecretKeys {
		n := len(k)
		// The value is a secret, so only its length is shown.
		r.checkSetting(n == 16 || n == 24 || n == 32, "SecretKeys", fmt.Sprintf("[%d] of %d bytes", i, n),
			"an AES key has 16, 24 or 32 bytes")
	}
}

// splitAddr checks a host:port and returns the host.
func splitAddr(addr string, portMayBeZero bool) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("not a host:port: %v", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	if n == 0 && !portMayBeZero {
		return "", fmt.Errorf("port 0 cannot be dialled")
	}
	if strings.ContainsAny(host, " /") {
		return "", fmt.Errorf("host %q is not a host name or IP address", host)
	}
	return host, nil
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func wildcard(host string) bool {
	if host == "" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// validateSecrets checks SharedSecrets without showing them.
func (c *Config) validateSecrets(r reporter) {
	r.checkSetting(len(c.SharedSecrets) <= sharedSecretsMax, "SharedSecrets", len(c.SharedSecrets), "at most 4: every one is tried")
	for i, s := range c.SharedSecrets {
		r.checkSetting(len(s) >= sharedSecretBytesMin, "SharedSecrets", fmt.Sprintf("[%d] of %d bytes", i, len(s)),
			"a secret has at least 32 bytes from a random source, since guesses can be tried out on recorded handshakes")
	}
	r.checkSetting(len(c.SharedSecrets) == 0 || c.TLS == nil && c.Certificates == nil, "SharedSecrets", len(c.SharedSecrets),
		"CertificateFiles or TLS is set as well: choose one")
}

// isPrivate reports whether a host is an address that is not routed on the internet: any
// reader is then on the operator's own network.
func isPrivate(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast())
}

// validateOpenNetwork requires protection of both halves of the port. SharedSecrets keep
// unknown nodes and forgers out, but not readers: that suffices if the advertised address
// of this node is private.
func (c *Config) validateOpenNetwork(r reporter, host string) {
	if len(c.SharedSecrets) > 0 {
		r.checkSetting(isPrivate(host), "Listen", c.Listen,
			"other nodes reach this one at "+host+", which is not a private address, and SharedSecrets encrypt no connection: any host on the path could read everything; set CertificateFiles instead, or InsecureTransport as well")
		return
	}
	r.checkSetting(c.TLS != nil || c.Certificates != nil, "Listen", c.Listen,
		"not a loopback address, and neither CertificateFiles nor TLS is set: any host on the network could join, read and forge (SecretKeys cover datagrams only); set one of them, or SharedSecrets on a private network, or InsecureTransport")
	r.checkSetting(len(c.SecretKeys) > 0 || c.NoDiscovery, "SecretKeys", 0,
		"Listen = "+c.Listen+" is not a loopback address, and TLS does not cover memberlist's datagrams: any host on the network could forge them; set a key, or NoDiscovery, or InsecureTransport")
}

func isPlain(addr string) bool {
	_, err := netip.ParseAddrPort(addr)
	return err == nil
}

var _ gossip.Resolver = (*net.Resolver)(nil)

// srvPrefix marks a contact point that is the name of SRV records.
const srvPrefix = "srv:"
