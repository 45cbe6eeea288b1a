package transport

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func TestBeaconsAreAnsweredByTheirNodeOnly(t *testing.T) {
	nonce, at := newBeaconNonce(), netip.MustParseAddr("192.0.2.7")
	question := beacon(beaconQuestion, 7, nonce, netip.Addr{})
	answer := answerBeacon(question, 7, at)
	got, where, ok := readBeacon(answer, beaconAnswer, 7)
	if !ok || got != nonce || where != at {
		t.Errorf("the answer says %x, %v, %v", got, where, ok)
	}
	if len(answer) > len(question) {
		t.Errorf("%d bytes are answered by %d", len(question), len(answer))
	}
	for name, b := range map[string][]byte{
		"another node's": beacon(beaconQuestion, 8, nonce, netip.Addr{}), "an answer": answer,
		"cut off": question[:beaconBytes-1], "longer": append(bytes.Clone(question), 0), "memberlist's": append([]byte{244}, question...),
	} {
		if answerBeacon(b, 7, at) != nil {
			t.Errorf("%s is answered", name)
		}
	}
	if _, _, ok := readBeacon(answer, beaconAnswer, 8); ok {
		t.Error("an answer counts for another node")
	}
}

func TestPortUnreachable(t *testing.T) {
	question := beacon(beaconQuestion, 7, newBeaconNonce(), netip.Addr{})
	other := beacon(beaconQuestion, 7, newBeaconNonce(), netip.Addr{})
	host := netip.MustParseAddr("192.0.2.7")
	good := icmpError{typ: 3, code: 3, offender: host, quoted: question}
	if !good.portUnreachable(question) || !(&icmpError{v6: true, typ: 1, code: 4, offender: host, quoted: question}).portUnreachable(question) {
		t.Error("port unreachable is none")
	}
	for name, e := range map[string]icmpError{
		"host unreachable": {typ: 3, code: 1, offender: host, quoted: question}, "prohibited": {typ: 3, code: 13, offender: host, quoted: question},
		"of version 6": {v6: true, typ: 3, code: 3, offender: host, quoted: question}, "no offender": {typ: 3, code: 3, quoted: question},
		"another question": {typ: 3, code: 3, offender: host, quoted: other}, "eight bytes": {typ: 3, code: 3, offender: host, quoted: question[:8]},
		"nothing quoted": {typ: 3, code: 3, offender: host},
	} {
		if e.portUnreachable(question) {
			t.Errorf("%s counts", name)
		}
	}
}

// TestInquiries: in memory and over real sockets, a living process answers, and the host
// of one that is gone refuses in its own name.
func TestInquiries(t *testing.T) {
	start := map[string]func(id gossip.NodeID) Transport{
		"tcp": func(id gossip.NodeID) Transport {
			tr, err := NewTCP(TCPConfig{Config: Config{ID: id, Name: "n", Cluster: "c"}})
			if err != nil {
				t.Fatal(err)
			}
			return tr
		},
	}
	network := NewNetwork(NetworkConfig{})
	start["memory"] = func(id gossip.NodeID) Transport {
		tr, err := network.Transport(MemoryConfig{Config: Config{ID: id, Name: "n", Cluster: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	for name, start := range start {
		t.Run(name, func(t *testing.T) {
			a, b := start(1), start(2)
			for _, tr := range []Transport{a, b} {
				if err := tr.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tr.Close() }()
			}
			ask := func(p Peer, most time.Duration) Inquiry {
				ctx, cancel := context.WithTimeout(t.Context(), most)
				defer cancel()
				return a.(Inquirer).Inquire(ctx, p)
			}
			if q := ask(b.Self(), 30*time.Second); q.Outcome != Answered || name == "memory" && q.By != q.Asked {
				t.Errorf("a living process: %+v", q)
			}
			if q := ask(Peer{ID: 3, Addr: b.Self().Addr}, 300*time.Millisecond); q.Outcome != Unanswered {
				t.Errorf("another node there: %+v", q)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if !refusalsAreTold && name == "tcp" {
				t.Skip("this system does not tell the sender of a refusal")
			}
			if q := ask(b.Self(), 30*time.Second); q.Outcome != PortUnreachable || q.By != q.Asked || q.TTL == 0 {
				t.Errorf("a process that is gone: %+v", q)
			}
		})
	}
}

// TestTheBeaconOutlivesHandlers: while a handler runs, the port answers, even if all else
// has closed.
func TestTheBeaconOutlivesHandlers(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	a, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewTCP(TCPConfig{Config: Config{ID: 2, Name: "b", Cluster: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	b.Handle(KindEntity, func(gossip.NodeID, []byte) {
		close(entered)
		<-release
	})
	for _, tr := range []*TCP{a, b} {
		if err := tr.Start(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = a.Close() }()
	a.Learn(b.Self())
	if err := a.Send(2, Message, KindEntity, []byte{1}); err != nil {
		t.Fatal(err)
	}
	<-entered
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	gone := func() bool {
		_, err := a.Probe(t.Context(), b.Self().Addr)
		return err != nil
	}
	for !gone() {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if q := a.Inquire(ctx, b.Self()); q.Outcome != Answered {
		t.Errorf("a handler runs, and the port says %+v", q)
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestHeldPackets(t *testing.T) {
	a, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	a.HoldPackets("127.0.0.1:9", time.Hour)
	if _ = a.WritePacket([]byte("x"), "127.0.0.1:9"); a.Counters().PacketsSent.Load() != 0 {
		t.Error("a held datagram was sent")
	}
	if _ = a.WritePacket([]byte("x"), "127.0.0.1:10"); a.Counters().PacketsSent.Load() != 1 {
		t.Error("another one was held")
	}
	a.HoldPackets("127.0.0.1:9", -1)
	if _ = a.WritePacket([]byte("x"), "127.0.0.1:9"); a.Counters().PacketsSent.Load() != 2 {
		t.Error("it is held for ever")
	}
}
