package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// leading returns a core that leads an idle view of n up members, and their ids.
func leading(n int) (*Core, []gossip.NodeID, clock.Instant) {
	now := clock.Instant(time.Hour)
	c := New(Config{Self: gossip.Node{ID: 1}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove, DriftPPM: testDrift}, now)
	var out Effects
	c.Step(now, Form{Generation: 1}, &out)
	v := &gossip.View{Cluster: c.view.Cluster, Epoch: c.view.Epoch + 1, Members: c.view.Members[:1:1]}
	var ids []gossip.NodeID
	for i := 2; i <= n; i++ {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i), Name: "n", Addr: "a"}, Joined: v.Epoch, Status: gossip.Up})
		ids = append(ids, gossip.NodeID(i))
	}
	c.adopt0(v, now)
	c.leadership.followView(c.view)
	return c, ids, now
}

// round runs one round: the tick that sends it and every answer.
func round(c *Core, ids []gossip.NodeID, now clock.Instant, out *Effects, pong *Pong) clock.Instant {
	now = now.Add(testPing)
	out.Reset()
	c.Step(now, Tick{}, out)
	*pong = Pong{Ballot: c.leadership.ballot, Epoch: c.view.Epoch, Round: c.leadership.round, T0: 1}
	for _, id := range ids {
		now++
		c.Step(now, Received{From: id, Msg: pong}, out)
		c.Deadline()
	}
	return now
}

func BenchmarkLeaderRound(b *testing.B) {
	for _, n := range []int{5, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, ids, now := leading(n)
			var out Effects
			var pong Pong
			b.ReportAllocs()
			for b.Loop() {
				now = round(c, ids, now, &out, &pong)
			}
			if !c.holder.lease.Valid(now) || len(c.view.Members) != n {
				b.Fatal("does not lead")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/member")
		})
	}
}

func BenchmarkMemberPing(b *testing.B) {
	for _, n := range []int{5, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, _, now := leading(n)
			c := New(Config{Self: gossip.Node{ID: gossip.NodeID(n)}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, now)
			c.adopt0(l.view, now)
			var out Effects
			ping := &Ping{Ballot: l.leadership.ballot, Cluster: l.view.Cluster, Epoch: l.view.Epoch, Life: true, Remaining: testLease / 2}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(testPing)
				out.Reset()
				ping.Round, ping.Echo = ping.Round+1, int64(now)
				c.Step(now, Received{From: 1, Msg: ping}, &out)
				c.Deadline()
			}
			if !c.holder.lease.Valid(now) {
				b.Fatal("holds no lease")
			}
		})
	}
}

func (c *Core) adopt0(v *gossip.View, now clock.Instant) {
	var out Effects
	c.now, c.out = now, &out
	c.adoptView(v)
}

// TestARoundAllocatesItsMessages: in a round an idle leader allocates once for the pings
// and once for the lease that it publishes, whatever the size.
func TestARoundAllocatesItsMessages(t *testing.T) {
	for _, n := range []int{5, 1000} {
		c, ids, now := leading(n)
		var out Effects
		var pong Pong
		for range 10 {
			now = round(c, ids, now, &out, &pong)
		}
		events := make([]Event, len(ids))
		for i, id := range ids {
			events[i] = Received{From: id, Msg: &pong}
		}
		got := testing.AllocsPerRun(20, func() {
			now = now.Add(testPing)
			out.Reset()
			c.Step(now, Tick{}, &out)
			pong.Round = c.leadership.round
			for _, ev := range events {
				now++
				c.Step(now, ev, &out)
			}
		})
		if got > 3 {
			t.Errorf("%d members: %v allocations in a round", n, got)
		}
	}
}
