package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

const pointsNow = clock.Instant(time.Hour)

// listedPoints returns a table of 10.0.0.1 with a point for each address.
func listedPoints(addrs ...string) *pointTable {
	t := newPointTable("10.0.0.1:1")
	t.setOwn(addrs)
	for _, a := range addrs {
		if p, _ := t.findOrAdd(pointsNow, a); p != nil {
			p.listed = true
		}
	}
	return &t
}

func TestPointsAreSortedByAddress(t *testing.T) {
	table := listedPoints("10.0.0.9:1", "10.0.0.10:1", "10.0.0.1:1", "10.0.0.2:1")
	var got []string
	for _, p := range table.order {
		got = append(got, p.addr)
	}
	if want := []string{"10.0.0.2:1", "10.0.0.9:1", "10.0.0.10:1"}; !slices.Equal(got, want) || len(table.byAddr) != len(want) {
		t.Errorf("points %v, want %v without this node", got, want)
	}
	if want := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.9:1", "10.0.0.10:1"}; !slices.Equal(table.ownPoints(), want) {
		t.Errorf("own points %v, want %v", table.ownPoints(), want)
	}
	table.setOwn(nil)
	for _, p := range table.order {
		if p.listed {
			t.Errorf("%s is still listed", p.addr)
		}
	}
}

// TestAPointMovesToTheAdvertisedAddress: the name under which it was listed stands for it
// from then on, and two names of one node are one point.
func TestAPointMovesToTheAdvertisedAddress(t *testing.T) {
	table := listedPoints("a:1", "b:1")
	table.movePoint(table.byAddr["a:1"], "10.0.0.5:1")
	table.movePoint(table.byAddr["b:1"], "10.0.0.5:1")
	if len(table.order) != 1 || table.byAddr["10.0.0.5:1"] != table.order[0] || !table.order[0].listed {
		t.Fatalf("points %v", table.byAddr)
	}
	if own := table.ownPoints(); !slices.Equal(own, []string{"10.0.0.5:1"}) {
		t.Errorf("own points %v", own)
	}
	if p, added := table.findOrAdd(pointsNow, "a:1"); added || p != table.order[0] {
		t.Error("the listed name has a second point")
	}
}

func TestPointsThatAnswer(t *testing.T) {
	table := listedPoints("10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1")
	for i, cluster := range []uint64{0, 9} {
		p := table.order[i]
		p.peer, p.infoAt = gossip.NodeID(i+2), pointsNow
		p.info = &contact{Cluster: cluster, Points: []string{"10.0.0.7:1"}}
	}
	table.order[2].cause = "refused"
	all := table.allPoints()
	if want := []string{"10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.7:1"}; !slices.Equal(all, want) {
		t.Errorf("all points %v, want %v", all, want)
	}
	if got := table.answering(pointsNow, []string{"10.0.0.1:1", "10.0.0.3:1", "10.0.0.4:1"}); !slices.Equal(got, []string{"10.0.0.1:1", "10.0.0.3:1"}) {
		t.Errorf("%v answer", got)
	}
	if !table.clusterInSight(pointsNow) || table.clusterInSight(pointsNow.Add(freshFor+1)) {
		t.Error("an answer counts for freshFor")
	}
	if got := table.addrOf(3); got != "10.0.0.3:1" {
		t.Errorf("node 3 is at %q", got)
	}
	if got := table.failureCauses(); !slices.Equal(got, []string{"10.0.0.4:1: refused"}) {
		t.Errorf("causes %q", got)
	}
	table.dropAnswer(table.order[0])
	table.dropAnswer(table.order[1])
	if got := table.allPoints(); slices.Contains(got, "10.0.0.7:1") {
		t.Errorf("all points %v after the answers were dropped", got)
	}
}

func TestPointsAreABoundedNumber(t *testing.T) {
	table := newPointTable("10.0.0.1:1")
	for i := range strangersMax + contactPointsMax + 5 {
		table.findOrAdd(pointsNow, fmt.Sprintf("10.1.%d.%d:1", i/250, i%250))
	}
	if n := len(table.order); n != strangersMax+contactPointsMax || n != len(table.byAddr) {
		t.Errorf("%d points", n)
	}
	if p, added := table.findOrAdd(pointsNow, "10.1.0.0:1"); p == nil || added {
		t.Error("a known address has no point in a full table")
	}
}

// TestTheNextVisit: points that are being probed wait for the outcome.
func TestTheNextVisit(t *testing.T) {
	table := listedPoints("10.0.0.2:1", "10.0.0.3:1")
	table.order[0].next, table.order[1].next = pointsNow.Add(time.Second), pointsNow.Add(time.Minute)
	if at := table.nextVisitAt(); at != pointsNow.Add(time.Second) {
		t.Errorf("next visit at %v", at)
	}
	table.order[0].probing = true
	if at := table.nextVisitAt(); at != pointsNow.Add(time.Minute) {
		t.Errorf("next visit at %v while the first is probed", at)
	}
	table.order[1].probing = true
	if at := table.nextVisitAt(); at != clock.Never {
		t.Errorf("next visit at %v while all are probed", at)
	}
}
