package gossip

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Discovery tunes memberlist. It does not affect safety, only how fast and at what cost
// nodes are discovered.
type Discovery struct {
	// ProbeInterval is how often memberlist probes a node. Default: 1 s.
	ProbeInterval time.Duration
	// GossipInterval is how often memberlist sends news to some nodes. Default: 200 ms.
	GossipInterval time.Duration
	// PushPullInterval is how often memberlist exchanges its whole table with a node.
	// Default: 15 s.
	PushPullInterval time.Duration
	// RejoinInterval is how often contact points and recently lost addresses are joined
	// again, so that a healed network becomes one cluster. Default: 2 s.
	RejoinInterval time.Duration
}

// Resolver resolves names of hosts and services. *net.Resolver implements it. Its methods are called from one
// goroutine of each node, and should honour ctx.
type Resolver interface {
	// LookupNetIP returns the addresses of a host; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	// LookupSRV returns the records of name; service and proto are empty.
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}
