package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/discovery/forge"
	"github.com/peerage-go/peerage/internal/transport"
)

// gateUnderTest has one node, "a", at 10.0.0.1:7101.
func gateUnderTest(t *testing.T) (*packetGate, *Counters) {
	t.Helper()
	count, names := new(Counters), newNameTable()
	if err := names.admitName("a", netip.MustParseAddrPort("10.0.0.1:7101"), false, time.Now()); err != nil {
		t.Fatal(err)
	}
	return newPacketGate("peerage-1", func() [][]byte { return nil }, names, slog.New(slog.DiscardHandler), count), count
}

// TestTheGateKnowsEachForm checks one message of each kind, valid and invalid, from an
// unknown address.
func TestTheGateKnowsEachForm(t *testing.T) {
	a, elsewhere := net.IPv4(10, 0, 0, 1).To4(), net.IPv4(10, 66, 0, 1).To4()
	type fields = map[string]any
	alive := func(name string, ip net.IP, port int) []byte {
		return forge.Message(kindAlive, fields{"Incarnation": 7, "Node": name, "Addr": []byte(ip), "Port": port, "Meta": []byte{1}, "Vsn": []byte{1, 5, 2, 0, 0, 0}})
	}
	ping := func(kind byte, target, source net.IP, port int) []byte {
		f := fields{"SeqNo": 70000, "Node": "x", "SourceAddr": []byte(source), "SourcePort": port, "SourceNode": "y"}
		if kind == kindIndirectPing {
			f["Target"], f["Port"], f["Nack"] = []byte(target), 7101, true
		}
		return forge.Message(kind, f)
	}
	ack := forge.Message(kindAck, fields{"SeqNo": 1, "Payload": nil})
	for name, test := range map[string]struct {
		body []byte
		ok   bool
	}{
		"ack":                             {ack, true},
		"nack":                            {forge.Message(kindNack, fields{"SeqNo": 1}), true},
		"suspect":                         {forge.Message(kindSuspect, fields{"Incarnation": 1, "Node": "a", "From": "b"}), true},
		"dead":                            {forge.Message(kindDead, fields{"Incarnation": 1, "Node": "a", "From": "b"}), true},
		"alive, known":                    {alive("a", a, 7101), true},
		"alive, known elsewhere":          {alive("a", elsewhere, 7101), false},
		"alive, known at another port":    {alive("a", a, 7102), false},
		"alive, unknown":                  {alive("b", a, 7101), false},
		"ping to be answered here":        {forge.Message(kindPing, fields{"SeqNo": 1, "Node": "a"}), true},
		"ping, answer to a known node":    {ping(kindPing, nil, a, 7101), true},
		"ping, answer to a victim":        {ping(kindPing, nil, elsewhere, 53), false},
		"indirect ping of a known node":   {ping(kindIndirectPing, a, a, 7101), true},
		"indirect ping of a victim":       {ping(kindIndirectPing, elsewhere, a, 7101), false},
		"indirect ping, answer elsewhere": {ping(kindIndirectPing, a, elsewhere, 53), false},
		"compound":                        {forge.Compound(ack, alive("a", a, 7101)), true},
		"compound with one unknown":       {forge.Compound(ack, alive("b", a, 7101)), false},
		"compound in compound":            {forge.Compound(forge.Compound(ack)), false},
		"compressed":                      {forge.Compressed(ack), false},
		"user message":                    {append([]byte{8}, "hello"...), false},
		"encrypted without keys":          {append([]byte{10}, "hello"...), false},
		"a field twice":                   {[]byte{kindAck, 0x82, 0xa5, 'S', 'e', 'q', 'N', 'o', 1, 0xa5, 'S', 'e', 'q', 'N', 'o', 2}, false},
		"a field of another message":      {forge.Message(kindAck, fields{"Node": "a"}), false},
		"a field of another type":         {forge.Message(kindAck, fields{"SeqNo": []int{1}}), false},
		"more behind it":                  {append(append([]byte{}, ack...), 0), false},
		"cut off":                         {ack[:len(ack)-3], false},
		"oversize":                        {forge.Message(kindAck, fields{"SeqNo": 1, "Payload": make([]byte, packetBytesMost)}), false},
	} {
		t.Run(name, func(t *testing.T) {
			g, count := gateUnderTest(t)
			p := transport.Packet{
				Data: append([]byte("\xf4\x09peerage-1"), test.body...), Time: time.Now(),
				From: net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.9.9.9:1")),
			}
			if got := g.admitPacket(&p); got != test.ok {
				t.Errorf("admitted: %v", got)
			}
			if got := count.PacketsForbidden.Load(); (got == 0) != test.ok {
				t.Errorf("%d are counted as forbidden", got)
			}
		})
	}
}

// TestAttackDatagramFlood sends 100,000 datagrams a second: those of unknown sources pass
// at their own rate, and take nothing from those of a known node.
func TestAttackDatagramFlood(t *testing.T) {
	g, count := gateUnderTest(t)
	ack := append([]byte("\xf4\x09peerage-1"), forge.Message(kindAck, map[string]any{"SeqNo": 1})...)
	now := time.Now()
	from := func(addr string) *transport.Packet {
		return &transport.Packet{Data: ack, Time: now, From: net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
	}
	strangers, honest := 0, 0
	for i := range 200_000 {
		now = now.Add(10 * time.Microsecond)
		if g.admitPacket(from(fmt.Sprintf("10.%d.%d.9:1", i>>8&0xff, i&0xff|1<<7))) {
			strangers++
		}
		if i%2000 == 0 && g.admitPacket(from("10.0.0.1:7101")) { // 50 a second
			honest++
		}
	}
	if strangers > 2*packetsOfStrangers+2*packetsOfStrangers+1 || honest != 100 {
		t.Errorf("%d of strangers and %d of 100 of a known node pass", strangers, honest)
	}
	if got := count.PacketsFlood.Load(); got != uint64(200_000-strangers) {
		t.Errorf("%d are counted", got)
	}
}

// TestNamesAreBounded fills the table with invented names: members and existing names are
// still admitted, and room is freed when nodes have gone.
func TestNamesAreBounded(t *testing.T) {
	names, now := newNameTable(), time.Now()
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
	}
	took := 0
	for i := range 20_000 {
		if names.admitName(fmt.Sprint(i), at(i), false, now) == nil {
			took++
		}
		now = now.Add(time.Millisecond)
	}
	if most := newNamesBurst + 20*newNamesRate + 1; took > most {
		t.Errorf("%d names in 20 s, want at most %d", took, most)
	}
	for i := range 20_000 {
		now = now.Add(time.Second / newNamesRate)
		_ = names.admitName(fmt.Sprint("more", i), at(i), false, now)
	}
	if n := names.nameCount(); n != namesMax {
		t.Errorf("%d names", n)
	}
	if err := names.admitName("late", at(1), false, now); !errors.Is(err, errTooManyNames) {
		t.Errorf("one more: %v", err)
	}
	if err := names.admitName("0", at(0), false, now); err != nil {
		t.Errorf("a known name: %v", err)
	}
	if err := names.admitName("0", at(1), false, now); !errors.Is(err, errNodeMoved) {
		t.Errorf("a known name elsewhere: %v", err)
	}
	if err := names.admitName("member", at(1), true, now); err != nil {
		t.Errorf("a member: %v", err)
	}
	for i := range 100 {
		names.markGone(fmt.Sprint(i), now)
	}
	if err := names.admitName("late", at(1), false, now.Add(time.Minute)); err != nil {
		t.Errorf("after a hundred have gone: %v", err)
	}
}

// FuzzPacketGate checks any datagram: the gate neither panics nor allocates much.
func FuzzPacketGate(f *testing.F) {
	f.Add([]byte{kindCompound, 1, 0, 3, kindAck, 0x80, 0})
	f.Add([]byte{kindAlive, 0x81, 0xa4, 'N', 'o', 'd', 'e', 0xa1, 'a'})
	f.Add([]byte{kindChecksum, 0, 0, 0, 0, kindAck, 0x80})
	names := newNameTable()
	g := newPacketGate("peerage-1", func() [][]byte { return nil }, names, slog.New(slog.DiscardHandler), new(Counters))
	f.Fuzz(func(t *testing.T, body []byte) {
		data := append([]byte("\xf4\x09peerage-1"), body...)
		_, _ = unwrapPacket(data, "peerage-1", [][]byte{testKey(1)})
		now := time.Now()
		g.strangers, g.all = rateBucket{}, rateBucket{}
		passed := g.admitPacket(&transport.Packet{Data: data, Time: now})
		if passed && len(data) > packetBytesMost {
			t.Errorf("%d bytes pass", len(data))
		}
	})
}

// TestForgedDatagramsHaveOurLabel: otherwise the attacks that forge makes would fail at the
// label, and show nothing.
func TestForgedDatagramsHaveOurLabel(t *testing.T) {
	d := &Discovery{cfg: &Config{Cluster: "billing"}}
	body := forge.Message(kindNack, map[string]any{"SeqNo": 1})
	got, err := unwrapPacket(forge.Labelled("billing", body), d.memberlistConfig().Label, nil)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("unwrapped to %x, %v", got, err)
	}
	if _, err := unwrapPacket(forge.Labelled("other", body), d.memberlistConfig().Label, nil); err == nil {
		t.Error("the label of another cluster was accepted")
	}
}
