package transport_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// A node with mutual TLS from files that may be replaced while it runs. LoadCertificates
// reports all problems immediately.
func ExampleLoadCertificates() {
	certificates, err := transport.LoadCertificates(transport.CertificateFiles{
		Cert: "/etc/peerage/tls.crt",
		// Key and CA are missing.
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = transport.NewTCP(transport.TCPConfig{
		Config:       transport.Config{ID: 1, Name: "a", Cluster: "orders"},
		Certificates: certificates,
	})
	fmt.Println(err)
	// Output:
	// transport: CertificateFiles.Key is empty
	// transport: CertificateFiles.CA is empty
}

// Two transports over real connections, one frame, and one that is refused.
func ExampleTCP() {
	open := func(id gossip.NodeID, cluster string, got func(string)) *transport.TCP {
		t, err := transport.NewTCP(transport.TCPConfig{Config: transport.Config{ID: id, Name: cluster, Cluster: cluster}})
		if err != nil {
			panic(err)
		}
		t.Handle(transport.KindEntity, func(_ gossip.NodeID, payload []byte) { got(string(payload)) })
		if err := t.Start(); err != nil {
			panic(err)
		}
		return t
	}
	came := make(chan string, 1)
	a := open(1, "orders", nil)
	b := open(2, "orders", func(s string) { came <- s })
	c := open(3, "billing", nil)
	defer a.Close()
	defer b.Close()
	defer c.Close()

	a.Learn(b.Self())
	fmt.Println(a.Send(2, transport.Message, transport.KindEntity, []byte("hello")))
	fmt.Println(<-came)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := c.Probe(ctx, a.Self().Addr)
	var refused *transport.RefusedError
	fmt.Println(errors.As(err, &refused), refused.Code)
	// Output:
	// <nil>
	// hello
	// true cluster
}

// A network in memory with its faults, for tests of programs that embed Peerage: slow and
// lossy paths, partitions that drop or reject, one way or both, crashes, hosts without
// power, processes that stand still. In a bubble of testing/synctest no time is lost.
func ExamplePath() {
	net := transport.NewNetwork(transport.NetworkConfig{Seed: 7})
	net.SetUsual(transport.Path{Latency: time.Millisecond, Jitter: time.Millisecond, Loss: 0.01})
	open := func(id gossip.NodeID, addr string) transport.Transport {
		t, err := net.Transport(transport.MemoryConfig{Config: transport.Config{ID: id, Name: addr, Cluster: "shop"}, Listen: addr})
		if err != nil {
			panic(err)
		}
		if err := t.Start(); err != nil {
			panic(err)
		}
		return t
	}
	a, b := open(1, "10.0.0.1:7101"), open(2, "10.0.0.2:7101")
	defer a.Close()
	defer b.Close()
	look := func(patience time.Duration) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		who, err := a.Probe(ctx, "10.0.0.2:7101")
		fmt.Println(who.Name, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, context.DeadlineExceeded))
	}
	net.Split(transport.Rejected, []string{"10.0.0.1:7101"}, []string{"10.0.0.2:7101"})
	look(time.Minute)
	net.SetPath("10.0.0.2:7101", "10.0.0.1:7101", transport.Path{Cut: transport.Dropped}) // one way
	net.SetPath("10.0.0.1:7101", "10.0.0.2:7101", transport.Path{})
	look(100 * time.Millisecond)
	net.Heal()
	net.Pause("10.0.0.2:7101") // as SIGSTOP does; and Crash, PowerOff
	net.Resume("10.0.0.2:7101")
	look(time.Minute)
	// Output:
	//  true false
	//  false true
	// 10.0.0.2:7101 false false
}
