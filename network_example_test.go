package peerage_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
)

// Two nodes in one process, on a network in memory: one of them crashes, and the other one
// continues.
func ExampleNetwork() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	network := peerage.NewNetwork(1)
	network.SetUsual(peerage.NetworkPath{Latency: time.Millisecond})
	start := func(name, addr string, join ...string) *peerage.Node {
		cfg := peerage.LocalConfig()
		cfg.Network, cfg.Name, cfg.Listen = network, name, addr
		cfg.Bootstrap, cfg.Join = join == nil, join
		if join != nil {
			cfg.BootstrapExpect = 1
		}
		node, err := peerage.Start(ctx, cfg)
		check(err)
		check(node.WaitReady(ctx))
		return node
	}
	a := start("a", "10.0.0.1:7101")
	defer a.Close()
	b := start("b", "10.0.0.2:7101", "10.0.0.1:7101")
	defer b.Close()

	removed := make(chan gossip.MemberRemoved)
	defer a.Subscribe(func(e gossip.Event) {
		if e, is := e.(gossip.MemberRemoved); is {
			removed <- e
		}
	})()
	network.Split(peerage.CutDropped, []string{"10.0.0.1:7101"}, []string{"10.0.0.2:7101"})
	network.Heal() // before a lease has ended, so the cut has no effect

	network.Crash("10.0.0.2:7101")
	fmt.Println((<-removed).Member.Name, "was removed; ready:", a.Ready())
	// Output:
	// b was removed; ready: true
}

// New, Start and Validate return all problems of the settings together.
func ExampleConfigError() {
	err := peerage.Config{
		Name: "a b", Listen: "0.0.0.0:7101", Lease: 200 * time.Millisecond,
		CertificateFiles: &peerage.CertificateFiles{Cert: "node.pem", Key: "node.key", CA: "ca.pem"},
		Resolver:         net.DefaultResolver,
		Discovery:        peerage.Discovery{ProbeInterval: time.Millisecond},
	}.Validate()
	var e *peerage.ConfigError
	if errors.As(err, &e) {
		for _, p := range e.Problems {
			fmt.Println(p.Setting, "=", p.Value)
		}
	}
	// Output:
	// Advertise = ""
	// Discovery.ProbeInterval = 1ms
	// Join = 0
	// Lease = 200ms
	// Name = "a b"
	// SecretKeys = 0
}
