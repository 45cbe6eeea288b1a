package peeragetest

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/peerage-go/peerage"
)

// hosts resolves the names of nodes without DNS. All methods are safe for concurrent use.
type hosts struct {
	mu     sync.Mutex
	byName map[string]netip.Addr
}

var _ peerage.Resolver = (*hosts)(nil)

func newHosts() *hosts { return &hosts{byName: map[string]netip.Addr{}} }

func (h *hosts) addName(name, addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byName[name] = netip.MustParseAddrPort(addr).Addr()
}

// LookupNetIP returns the address of the node of that name.
func (h *hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	addr, known := h.byName[host]
	if !known {
		return nil, &net.DNSError{Err: "no node of that name has started", Name: host, IsNotFound: true}
	}
	return []netip.Addr{addr}, nil
}

// LookupSRV finds nothing: the kit has no service records.
func (h *hosts) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no service records", Name: name, IsNotFound: true}
}
