package discovery

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/discovery/forge"
	"github.com/peerage-go/peerage/internal/transport"
)

// crafted is a datagram without keys, and whether it may pass.
type crafted struct {
	body []byte
	pass bool
	// passFrom is the only sender from which the datagram passes even though pass is false.
	passFrom netip.AddrPort
}

// craftedDatagrams are of nodes a, which is known, and b, which is not.
func craftedDatagrams(a, b netip.AddrPort) []crafted {
	type fields = map[string]any
	alive := func(name string, at netip.AddrPort) []byte {
		return forge.Message(kindAlive, fields{"Incarnation": 7, "Node": name, "Addr": at.Addr().AsSlice(), "Port": at.Port(), "Meta": []byte{1}, "Vsn": []byte{1, 5, 2, 0, 0, 0}})
	}
	asked := func(kind byte, of, answerTo netip.AddrPort) []byte {
		f := fields{"SeqNo": 1, "Node": "n", "SourceAddr": answerTo.Addr().AsSlice(), "SourcePort": answerTo.Port(), "SourceNode": "s"}
		if kind == kindIndirectPing {
			f["Target"], f["Port"], f["Nack"] = of.Addr().AsSlice(), of.Port(), true
		}
		return forge.Message(kind, f)
	}
	ack := forge.Message(kindAck, fields{"SeqNo": 1, "Payload": nil})
	return []crafted{
		{body: ack, pass: true},
		{body: alive("a", a), pass: true},
		{body: alive("b", b)},
		{body: alive("a", b)},
		{body: forge.Compound(ack, alive("a", a)), pass: true},
		{body: forge.Compound(ack, alive("b", b))},
		{body: forge.Compressed(ack)},
		{body: asked(kindPing, a, a), pass: true},
		{body: asked(kindPing, a, b), passFrom: b},
		{body: asked(kindIndirectPing, a, a), pass: true},
		{body: asked(kindIndirectPing, b, a)},
	}
}

// FuzzDatagrams sends a gate datagrams of several sources over time, some of them changed, while
// names come and go: four bytes for each. Those that may not pass never do, and no source, and no
// number of sources, exceeds its rate.
func FuzzDatagrams(f *testing.F) {
	a, b := netip.MustParseAddrPort("10.0.0.1:7101"), netip.MustParseAddrPort("10.0.0.2:7102")
	all := craftedDatagrams(a, b)
	for i := range all {
		f.Add([]byte{byte(i), 0, 0, 0, byte(i), 1, 0, 0, byte(i), 9, 200, 3})
	}
	f.Add([]byte{8, 2, 0, 0}) // the answer goes to the sender, as it may
	f.Add(slices.Repeat([]byte{0, 4, 0, 0}, 500))
	f.Add(slices.Concat(slices.Repeat([]byte{0, 2, 0, 0}, 500), []byte{255, 0, 0, 0}, slices.Repeat([]byte{0, 2, 0, 0}, 900)))
	f.Add(slices.Repeat([]byte{2, 200, 1, 5}, 100))
	sources := []netip.AddrPort{a, netip.AddrPortFrom(a.Addr(), 9), b, netip.MustParseAddrPort("10.9.9.9:1")}
	f.Fuzz(func(t *testing.T, script []byte) {
		names, began := newNameTable(), time.Unix(1e9, 0)
		g := newPacketGate("peerage-1", func() [][]byte { return nil }, names, slog.New(slog.DiscardHandler), new(Counters))
		if err := names.admitName("a", a, true, began); err != nil {
			t.Fatal(err)
		}
		now, passed := began, map[netip.AddrPort]float64{}
		for i := 0; i+4 <= len(script); i += 4 {
			step := script[i : i+4]
			now = now.Add(time.Duration(step[2]) * time.Millisecond)
			if step[0] == 255 { // another name comes or goes
				name := string([]byte{'x', step[1] % 8})
				if names.markGone(name, now); step[3]%2 == 0 {
					_ = names.admitName(name, netip.AddrPortFrom(b.Addr(), 8000+uint16(step[3])), false, now)
				}
				checkNames(t, names)
				continue
			}
			c := all[int(step[0])%len(all)]
			body, changed := slices.Clone(c.body), step[1]&4 != 0
			if changed {
				body[int(step[3])%len(body)] ^= 1 << (step[1] >> 5)
			}
			from := sources[step[1]%4]
			if !g.admitPacket(&transport.Packet{Data: append([]byte("\xf4\x09peerage-1"), body...), Time: now, From: net.UDPAddrFromAddrPort(from)}) {
				continue
			}
			if passed[from]++; !c.pass && from != c.passFrom && !changed && !names.hasAddr(b) {
				t.Fatalf("%x passed", body)
			}
			most := now.Sub(began).Seconds() + 2
			// b is a stranger until a name of its host comes, and again when the last one has gone.
			if passed[a] > packetsOfSource*most+1 || passed[sources[1]] > packetsOfHost*most+1 ||
				passed[b] > (packetsOfHost+packetsOfStrangers)*most+2 || passed[sources[3]] > packetsOfStrangers*most+1 {
				t.Fatalf("%v datagrams pass in %v", passed, now.Sub(began))
			}
		}
	})
}

// checkNames compares the counts of a table with its names.
func checkNames(t *testing.T, names *nameTable) {
	t.Helper()
	hosts, addrs := map[netip.Addr]int{}, map[netip.AddrPort]int{}
	for _, k := range names.byName {
		hosts[k.at.Addr()]++
		addrs[k.at]++
	}
	if len(hosts) != len(names.hosts) || len(addrs) != len(names.addrs) {
		t.Fatalf("%d hosts and %d addresses are counted, %d and %d exist", len(names.hosts), len(names.addrs), len(hosts), len(addrs))
	}
	for at, n := range addrs {
		if names.addrs[at] != n || names.hosts[at.Addr()] != hosts[at.Addr()] {
			t.Fatalf("%d names at %v, counted as %d", n, at, names.addrs[at])
		}
	}
}
