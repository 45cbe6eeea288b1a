package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func holderOf(self gossip.NodeID, word string) *leaseHolder {
	return &leaseHolder{history: historyOf(self, word)}
}

// grant returns a ping that grants the rest of a lease, on a request sent ago.
func (h *leaseHolder) grant(ago, rest time.Duration) *Ping {
	return &Ping{Epoch: h.view.Epoch, Echo: int64(h.now) - int64(ago), Remaining: rest}
}

func TestLeaseRunsFromItsRequest(t *testing.T) {
	h := holderOf(2, "uu")
	h.adoptGrant(h.grant(30*time.Millisecond, 500*time.Millisecond))
	if want := h.now.Add(470 * time.Millisecond); h.lease.Until != want || h.out.Lease == nil || h.grantedAt != h.now.Add(-30*time.Millisecond) {
		t.Errorf("%+v granted at %v, want until %v", h.lease, h.grantedAt, want)
	}
	h.out.Lease = nil
	h.adoptGrant(h.grant(60*time.Millisecond, 400*time.Millisecond))
	if h.out.Lease != nil {
		t.Errorf("an older grant changes the lease to %+v", h.lease)
	}
}

func TestLeaseIgnoresGrantsThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(h *leaseHolder, p *Ping){
		"an echo from the future":       func(h *leaseHolder, p *Ping) { p.Echo = int64(h.now) + 1 },
		"longer than a lease":           func(_ *leaseHolder, p *Ping) { p.Remaining = testLease + 1 },
		"no echo":                       func(_ *leaseHolder, p *Ping) { p.Echo = 0 },
		"another view":                  func(_ *leaseHolder, p *Ping) { p.Epoch++ },
		"a node that asked to leave":    func(h *leaseHolder, _ *Ping) { h.waiveLease() },
		"a node that is no voter":       func(h *leaseHolder, _ *Ping) { h.status = gossip.Joining },
		"a ping that grants no lease":   func(_ *leaseHolder, p *Ping) { p.Remaining = 0 },
		"a rest below zero in the ping": func(_ *leaseHolder, p *Ping) { p.Remaining = -1 },
	} {
		h := holderOf(2, "uu")
		p := h.grant(0, testLease/2)
		change(h, p)
		if h.adoptGrant(p); h.lease.Valid(h.now) || h.grantedAt != 0 {
			t.Errorf("%s: lease until %v at %v", name, h.lease.Until, h.now)
		}
	}
}

func TestLeaseInAnotherGenerationAbandonsInstances(t *testing.T) {
	for _, lapsed := range []bool{false, true} {
		for _, another := range []bool{false, true} {
			h := holderOf(2, "uu")
			h.adoptGrant(h.grant(0, testLease/2))
			if h.out.Abandon {
				t.Error("the first lease abandons instances")
			}
			next := h.after()
			if another {
				next.Epoch = gossip.FirstEpoch(2)
			}
			h.advanceTo(next, next.Member(2))
			if lapsed {
				h.now = h.lease.Until
			}
			h.adoptGrant(h.grant(0, testLease/2))
			if want := lapsed && another; h.out.Abandon != want {
				t.Errorf("lapsed %v, another generation %v: abandon %v", lapsed, another, h.out.Abandon)
			}
		}
	}
}

func TestLeaseSurvivesTheLossOfLeadership(t *testing.T) {
	h := holderOf(1, "uu")
	h.adoptLeaderLease(h.now.Add(testLease), h.now)
	h.loseLeaderLease()
	if h.lease.Leader || !h.lease.Valid(h.now) || h.out.Lease == nil || h.out.Lease.Leader {
		t.Errorf("%+v, published %+v", h.lease, h.out.Lease)
	}
}
