package peerage

import (
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/transport"
)

const (
	defaultCluster     = "peerage"
	defaultRejoinAfter = 200 * time.Millisecond
	rejoinFactorMax    = 30
)

func (c Config) withDefaults() Config {
	if c.Cluster == "" {
		c.Cluster = defaultCluster
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.WallClock == nil {
		c.WallClock = time.Now
	}
	if c.RejoinAfter == 0 {
		c.RejoinAfter = defaultRejoinAfter
	}
	if c.Network != nil {
		c.InsecureTransport = true // nothing leaves the process
	}
	return c
}

// membership returns the settings of the membership, without frame handlers and transport.
func (c *Config) membership(certificates *transport.Certificates) membership.Config {
	return membership.Config{
		Name: c.Name, Cluster: c.Cluster, Listen: c.Listen, Advertise: c.Advertise,
		Roles: c.Roles, Zone: c.Zone, AppVersion: c.AppVersion, Metadata: c.Metadata,

		Join: c.Join, JoinFunc: c.JoinFunc, Resolver: c.Resolver,
		Bootstrap: c.Bootstrap, BootstrapExpect: c.BootstrapExpect,
		SettleAfter: c.SettleAfter, ReformAfter: c.ReformAfter,

		Members: c.Members, Ping: c.Ping, Lease: c.Lease, RemoveAfter: c.RemoveAfter, DriftPPM: c.DriftPPM,
		CrashEvidence: c.CrashEvidence, Partition: c.Partition, ForeignClusters: c.ForeignClusters, Oracle: c.Oracle,

		Certificates: certificates, TLS: c.TLS, SharedSecrets: c.SharedSecrets, SecretKeys: c.SecretKeys,
		InsecureTransport: c.InsecureTransport,

		Logger: c.Logger, Clock: c.clock, WallClock: c.WallClock, Seed: c.Seed,
		NoDiscovery: c.NoDiscovery, Discovery: c.Discovery,
	}
}

// membershipToCheck returns the settings of the membership as they will be once the
// certificates have been read. Both TLS and CertificateFiles are a problem of the node.
func (c *Config) membershipToCheck() membership.Config {
	if c.CertificateFiles == nil || c.TLS != nil {
		return c.membership(nil)
	}
	return c.membership(new(transport.Certificates))
}

// loadCertificates reads CertificateFiles. It returns nil if they are not set.
func (c *Config) loadCertificates() (*transport.Certificates, error) {
	f := c.CertificateFiles
	if f == nil {
		return nil, nil
	}
	return transport.LoadCertificates(transport.CertificateFiles{
		Cert: f.Cert, Key: f.Key, CA: f.CA, Name: f.Name, CheckEvery: f.CheckEvery, Logger: c.Logger,
	})
}
