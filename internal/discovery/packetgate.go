package discovery

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
	"github.com/peerage-go/peerage/internal/transport"
)

// Rates of datagrams per second, with bursts of twice as many. In a cluster of any size,
// a node sends some twenty a second to random nodes, and receives as many.
const (
	// packetsOfSource is for the address and port of a node that discovery has,
	// packetsOfHost for all other ports of such a host: there may be a NAT.
	packetsOfSource = 200
	packetsOfHost   = 400
	// packetsOfStrangers is for all other addresses together.
	packetsOfStrangers = 200
	// packetsOfAll is for all addresses together.
	packetsOfAll = 2000
)

// packetGate filters datagrams between the UDP port and memberlist. memberlist handles
// every datagram: it unpacks compressed and nested messages without bound, accepts every
// name, answers to any address that a ping names, and has no rate limits. The gate admits
// only datagrams of the form that nodes send, at bounded rates.
//
// Without keys, a datagram proves nothing about its sender. It then introduces no node:
// an alive message passes only for a name that discovery already has at this address,
// from a stream (and so from a connection with a completed handshake). Answers go only to
// the sender's own address or to one that discovery has. With keys, the sender holds one,
// so its messages are trusted.
//
// A gate is used by one goroutine. Tried and rejected: counting messages per name (a
// forger chooses the names), and memberlist's own bounds (they apply after unpacking).
type packetGate struct {
	label string
	// keys returns the keys in use, nil without encryption.
	keys  func() [][]byte
	names *nameTable
	count *Counters

	all, strangers rateBucket
	// sources holds the buckets of single addresses; port 0 stands for all ports of a
	// host at which discovery has no node. Invariant: len(sources) <= sourcesMax.
	sources map[netip.AddrPort]*rateBucket

	log   *slog.Logger
	lines loglimit.Folder
}

// sourcesMax bounds the addresses with a bucket of their own; beyond, all buckets are
// reset.
const sourcesMax = 4096

func newPacketGate(label string, keys func() [][]byte, names *nameTable, log *slog.Logger, count *Counters) *packetGate {
	return &packetGate{label: label, keys: keys, names: names, log: log, count: count, sources: map[netip.AddrPort]*rateBucket{}}
}

// admitPacket reports whether to pass a datagram to memberlist, and counts it if not.
func (g *packetGate) admitPacket(p *transport.Packet) bool {
	from := sourceOf(p.From)
	if !g.inRate(from, p.Time) {
		g.count.PacketsFlood.Add(1)
		return false
	}
	keys := g.keys()
	body, err := unwrapPacket(p.Data, g.label, keys)
	if err == nil {
		err = g.checkMessages(body, from, len(keys) > 0)
	}
	if err == nil {
		return true
	}
	g.logRefusal(from, err, p.Time)
	switch err {
	case errForeignPacket:
		g.count.PacketsNotOurs.Add(1)
	case errUndecryptable:
		g.count.Undecryptable.Add(1)
	default:
		g.count.PacketsForbidden.Add(1)
	}
	return false
}

// inRate takes a datagram from the buckets.
func (g *packetGate) inRate(from netip.AddrPort, now time.Time) bool {
	rate := float64(packetsOfSource)
	if !g.names.hasAddr(from) {
		if !g.names.hasHost(from.Addr()) {
			return g.strangers.takeToken(now, packetsOfStrangers) && g.all.takeToken(now, packetsOfAll)
		}
		from, rate = netip.AddrPortFrom(from.Addr(), 0), packetsOfHost
	}
	b := g.sources[from]
	if b == nil {
		if len(g.sources) >= sourcesMax {
			clear(g.sources)
		}
		b = new(rateBucket)
		g.sources[from] = b
	}
	return b.takeToken(now, rate) && g.all.takeToken(now, packetsOfAll)
}

// logRefusal writes a line, one a minute for each reason: any host can send a datagram. Members name a node
// that this one has not met whenever one restarts elsewhere, so that is for debugging only.
func (g *packetGate) logRefusal(from netip.AddrPort, err error, now time.Time) {
	if err == errUnvouched {
		g.log.Debug("memberlist: datagram refused; it has no effect", slog.String("from", from.String()), slog.Any("error", err))
		return
	}
	if folded, ok := g.lines.Take(err.Error(), now); ok {
		g.log.Info("memberlist: datagram refused; it has no effect, check its sender", slog.String("from", from.String()),
			slog.Any("error", err), slog.Int(loglimit.Folded, folded))
	}
}

// checkMessages checks every message of a datagram: one refused message refuses the datagram.
func (g *packetGate) checkMessages(body []byte, from netip.AddrPort, keyed bool) error {
	parts, err := splitPacket(body)
	if err != nil {
		return err
	}
	for _, part := range parts {
		m, err := readPacketMessage(part)
		if err != nil {
			return err
		}
		if !keyed && !g.vouchedFor(&m, from) {
			return errUnvouched
		}
	}
	return nil
}

// vouchedFor reports whether an unauthenticated datagram may carry m.
func (g *packetGate) vouchedFor(m *packetMessage, from netip.AddrPort) bool {
	switch m.kind {
	case kindAlive:
		at, ok := addrPort(m.addr, m.port)
		return ok && g.names.hasName(m.node, at)
	case kindIndirectPing:
		if !g.knowsTarget(m.addr, m.port) {
			return false
		}
	case kindPing:
	default:
		return true
	}
	if len(m.sourceAddr) == 0 || m.sourcePort == 0 {
		return true // the answer goes to the sender
	}
	if ip, ok := netip.AddrFromSlice(m.sourceAddr); ok && ip.Unmap() == from.Addr() && m.sourcePort == uint64(from.Port()) {
		return true
	}
	return g.knowsTarget(m.sourceAddr, m.sourcePort)
}

func (g *packetGate) knowsTarget(ip []byte, port uint64) bool {
	at, ok := addrPort(ip, port)
	return ok && g.names.hasAddr(at)
}

// sourceOf returns the address of a datagram's sender, the zero value if it has none.
func sourceOf(a net.Addr) netip.AddrPort {
	if udp, ok := a.(*net.UDPAddr); ok {
		at := udp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	if a == nil {
		return netip.AddrPort{}
	}
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// addrPort makes an address of memberlist's parts.
func addrPort(ip []byte, port uint64) (netip.AddrPort, bool) {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || port > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port)), true
}

// rateBucket limits events to a number per second, and twice as many at a time. The zero
// value is full.
type rateBucket struct {
	used float64
	at   time.Time
}

// takeToken removes one token at now, and reports whether there was one.
func (b *rateBucket) takeToken(now time.Time, rate float64) bool {
	if now.After(b.at) {
		b.used = max(b.used-now.Sub(b.at).Seconds()*rate, 0)
		b.at = now
	}
	if b.used+1 > 2*rate {
		return false
	}
	b.used++
	return true
}
