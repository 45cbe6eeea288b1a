package membership_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/transport"
)

// cluster is a cluster of two nodes on a network in memory.
type cluster struct {
	network *transport.Network
	a, b    *membership.Node
}

// withTwo starts a cluster of two, runs f with it and closes it.
func withTwo(configure func(*membership.Config), f func(ctx context.Context, c *cluster)) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := &cluster{network: transport.NewNetwork(transport.NetworkConfig{Seed: 1})}
	start := func(id gossip.NodeID, addr string, contacts ...string) (*membership.Node, error) {
		cfg := membership.TestConfig()
		cfg.Name, cfg.Join, cfg.BootstrapExpect = addr, contacts, len(contacts)
		if configure != nil {
			configure(&cfg)
		}
		t, err := c.network.Transport(transport.MemoryConfig{Config: cfg.TransportConfig(id), Listen: addr})
		if err != nil {
			return nil, err
		}
		cfg.Transport = t
		n, err := membership.Start(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return n, n.WaitUp(ctx)
	}
	var err error
	if c.a, err = start(1, "10.0.0.1:7101"); err == nil {
		defer c.a.Close()
		c.b, err = start(2, "10.0.0.2:7101", "10.0.0.1:7101")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.b.Close()
	f(ctx, c)
}

// Events of the cluster are delivered in order. Here one of two nodes crashes.
func ExampleNode_Subscribe() {
	withTwo(nil, func(_ context.Context, c *cluster) {
		alone := make(chan struct{})
		stop := c.a.Subscribe(func(ev membership.Event) {
			switch ev := ev.(type) {
			case gossip.MemberJoined:
				fmt.Println(ev.Member.Name, "joined")
			case gossip.MemberLeft:
				fmt.Println(ev.Member.Name, "left")
			case gossip.MemberRemoved:
				fmt.Printf("%s was removed: %v\n", ev.Member.Name, ev.Cause) // ev.Evidence names the proof
				close(alone)
			case gossip.LeaderChanged:
				fmt.Println("the leader is", ev.Leader)
			case gossip.LeaseChanged:
				// Pause, or resume, what runs here: ev.Valid.
			case gossip.QuorumLost:
				// Warn the operator that only ev.Reachable can be reached.
			case gossip.Removed:
				// This incarnation has ended, for ev.Reason.
			}
		})
		c.network.Crash("10.0.0.2:7101")
		<-alone
		stop()
	})
	// Output:
	// 10.0.0.1:7101 joined
	// 10.0.0.2:7101 joined
	// the leader is 0000000000000001
	// 10.0.0.2:7101 was removed: dead
}

// Check reports all problems of the settings.
func ExampleConfig_Check() {
	var problems []string
	cfg := membership.Config{Name: "a b", Lease: 200 * time.Millisecond, Listen: "0.0.0.0:7101"}
	cfg.Check(func(setting, value, _ string) { problems = append(problems, setting+" = "+value) })
	slices.Sort(problems)
	fmt.Println(strings.Join(problems, "\n"))
	// Output:
	// Advertise = ""
	// Join = 0
	// Lease = 200ms
	// Listen = "0.0.0.0:7101"
	// Name = "a b"
	// SecretKeys = 0
}

// Every view carries roles, metadata and the release of the application.
func ExampleConfig_metadata() {
	withTwo(func(c *membership.Config) {
		c.Roles, c.AppVersion = []string{"billing"}, "1.4.0"
		c.Metadata = map[string]string{"zone": "b"}
	}, func(_ context.Context, c *cluster) {
		for _, m := range c.b.View().WithRole("billing") {
			fmt.Println(m.Name, m.AppVersion, m.Metadata["zone"])
		}
	})
	// Output:
	// 10.0.0.1:7101 1.4.0 b
	// 10.0.0.2:7101 1.4.0 b
}

// The handler answers with Status; put a password in front of it.
func ExampleNode_Handler() {
	withTwo(nil, func(_ context.Context, c *cluster) {
		w := httptest.NewRecorder()
		c.a.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/membership", nil))
		var s membership.Status
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s.State, len(s.View.Members), s.Lease.Leader, s.Protocol.Part)
	})
	// Output: up 2 true leader
}

// Counters for a metrics library of the application's own; package metrics exports all of
// them to Prometheus.
func ExampleNode_Stats() {
	withTwo(nil, func(_ context.Context, c *cluster) {
		s := c.a.Stats()
		fmt.Println(s.Members[gossip.Up], s.LeaseValid, s.Leader, s.LeaseLost, s.Evidence[membership.EvidenceRefused])
	})
	// Output: 2 true true 0 0
}

// An orchestrator's API as the oracle: its answer about a process that has certainly
// ended counts as proof. No network can prove that a host has lost power.
func ExampleConfig_oracle() {
	goneFromTheAPI := map[string]bool{"10.0.0.2:7101": true}
	withTwo(func(c *membership.Config) {
		c.Oracle = func(_ context.Context, n gossip.Node) (bool, error) { return goneFromTheAPI[n.Addr], nil }
	}, func(_ context.Context, c *cluster) {
		removed := make(chan gossip.MemberRemoved, 1)
		c.a.Subscribe(func(ev membership.Event) {
			if e, is := ev.(gossip.MemberRemoved); is {
				removed <- e
			}
		})
		c.network.PowerOff("10.0.0.2:7101")
		e := <-removed
		fmt.Println(e.Member.Name, e.Cause != gossip.CauseLeft)
	})
	// Output: 10.0.0.2:7101 true
}

// A subscriber that may block receives its events from a Feed: nothing waits for it.
func ExampleFeed() {
	withTwo(nil, func(ctx context.Context, c *cluster) {
		feed := new(membership.Feed)
		c.a.Subscribe(feed.Put)
		alone := make(chan struct{})
		feed.Subscribe(func(ev gossip.Event) {
			switch ev := ev.(type) {
			case gossip.MemberJoined:
				fmt.Println(ev.Member.Name, "joined")
			case gossip.MemberLeft:
				fmt.Println(ev.Member.Name, "left")
				close(alone)
			case gossip.Missed:
				// Discard the state so far: the current state follows.
			}
		})
		if err := c.b.Leave(ctx); err != nil {
			fmt.Println(err)
		}
		<-alone
		fmt.Println(feed.Close(ctx), feed.Missed())
	})
	// Output:
	// 10.0.0.1:7101 joined
	// 10.0.0.2:7101 joined
	// 10.0.0.2:7101 left
	// <nil> 0
}
