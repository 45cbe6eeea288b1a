package deploy_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage"
)

// headless is the DNS name of a headless service: it resolves to the addresses of pods, as
// each of them sees them. Build it with newHeadless.
type headless struct {
	// late is how long a record takes to reach another pod, after the pod has started or has
	// ended: endpoints, the name server's cache, the cache of the node. A pod sees its own
	// record immediately.
	late time.Duration
	// readyOnly is publishNotReadyAddresses: false.
	readyOnly bool

	mu   sync.Mutex
	pods map[netip.Addr]*record
}

// record is the record of one pod.
type record struct {
	node         *peerage.Node
	began, ended time.Time
}

func newHeadless(late time.Duration) *headless {
	return &headless{late: late, pods: map[netip.Addr]*record{}}
}

// publish publishes the record of a pod that starts.
func (h *headless) publish(addr netip.Addr) *record {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &record{began: time.Now()}
	h.pods[addr] = r
	return r
}

// retract withdraws the record of a pod that ends.
func (h *headless) retract(addr netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods[addr].ended = time.Now()
}

// lookUp returns the records that the pod at viewer sees.
func (h *headless) lookUp(viewer netip.Addr) (all []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for addr, r := range h.pods { // order-free: sorted below
		since, gone := time.Since(r.began), !r.ended.IsZero() && time.Since(r.ended) >= h.late
		seen := addr == viewer || since >= h.late
		if h.readyOnly {
			seen = r.node != nil && r.node.Ready()
		}
		if seen && !gone {
			all = append(all, addr)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// started sets the node of a record, for readyOnly.
func (h *headless) started(r *record, n *peerage.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.node = n
}

// podResolver is the resolver of one pod.
type podResolver struct {
	dns *headless
	pod netip.Addr
}

var _ peerage.Resolver = podResolver{}

func (r podResolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if all := r.dns.lookUp(r.pod); host == "peerage-peers" && len(all) > 0 {
		return all, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (r podResolver) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}
