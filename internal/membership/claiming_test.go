package membership

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

func newClaims(self gossip.NodeID) claims {
	return claims{self: self, rng: rand.New(rand.NewPCG(1, uint64(self)))}
}

// TestAClaimNeedsAllVoters: one missing or late grant, or one refusal, and it fails.
func TestAClaimNeedsAllVoters(t *testing.T) {
	const now = clock.Instant(time.Hour)
	c := newClaims(1)
	round, ok := c.beginClaim(now, []gossip.NodeID{2, 3, 3})
	if !ok || c.mayClaim(now) || c.nextClaimAt(now) != now.Add(claimFor+1) {
		t.Fatalf("begun: %v, next at %v", ok, c.nextClaimAt(now))
	}
	for name, v := range map[string]struct {
		from  gossip.NodeID
		round uint64
	}{"a node that was not asked": {4, round}, "an earlier claim": {2, round - 1}} {
		if c.expects(v.from, &claimVote{Round: v.round, Granted: true}) {
			t.Errorf("the vote of %s counts", name)
		}
	}
	if c.countGrant(now, 2) {
		t.Error("succeeded without node 3")
	}
	if c.expects(2, &claimVote{Round: round}) {
		t.Error("a second vote of node 2 counts")
	}
	if late := now.Add(claimFor + 1); !c.isExpired(late) || c.isExpired(now.Add(claimFor)) {
		t.Error("a claim expires after claimFor")
	}
	if !c.countGrant(now.Add(claimFor), 3) {
		t.Error("all have granted it in time")
	}
	c = newClaims(1)
	c.beginClaim(now, []gossip.NodeID{2})
	if c.countGrant(now.Add(claimFor+1), 2) {
		t.Error("a grant after claimFor counts: the promises of the others may have ended")
	}
}

// TestOnePromiseAtATime: a claim waits for the end of a promise to another node, a promise
// may be renewed, and a claimant that gives up releases its own.
func TestOnePromiseAtATime(t *testing.T) {
	const now = clock.Instant(time.Hour)
	c := newClaims(1)
	c.promiseTo(now, 2)
	if !c.promisedOther(now, 3) || c.promisedOther(now, 2) {
		t.Error("the promise to node 2 excludes others, and not node 2")
	}
	if _, ok := c.beginClaim(now, nil); ok {
		t.Error("claimed against a promise")
	}
	end := now.Add(promiseFor)
	if c.mayClaim(end.Add(-1)) || !c.mayClaim(end) || c.nextClaimAt(now) != end {
		t.Errorf("claims again at %v, want %v", c.nextClaimAt(now), end)
	}
	if _, ok := c.beginClaim(end, []gossip.NodeID{2}); !ok || !c.promisedOther(end, 2) {
		t.Error("a claim promises to this node itself")
	}
	c.retryLater(end)
	if c.promisedOther(end, 2) {
		t.Error("the claim is dropped, its promise is not")
	}
	if at := c.nextClaimAt(end); at < end.Add(askEvery) || at >= end.Add(3*askEvery) {
		t.Errorf("it claims again after %v", at.Sub(end))
	}
	if c.mayClaim(end) {
		t.Error("no pause after a claim that failed")
	}
}
