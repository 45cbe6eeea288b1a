package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Beacons: the second signal of a crash.
//
// A refused TCP dial proves little: a router that rejects sends the same reset as the
// host of a process that has died. An ICMP error, however, names its sender. Every
// transport holds a UDP port of the same number as its TCP port, from its start until the
// last of its handlers has returned, and answers beacons on it:
//
//	question   magic, 1, nonce, sha256(NodeID, nonce, 1)        64 bytes
//	answer     magic, 2, nonce, sha256(NodeID, nonce, 2), the address it was asked at
//
// A node with another NodeID does not answer, nor does any node answer a sender without
// the NodeID. The answer is no longer than the question: it amplifies nothing.
//
// If the process has ended, its own kernel answers "port unreachable". Inquire returns
// the response and its sender; gossip decides what it proves. The nonce is random, and
// Linux returns the payload that an ICMP error quotes: an error that is late, meant for
// another socket or forged from off the path does not match. So one question suffices,
// and every further one would use up the few ICMP errors that a kernel sends to one host
// (six, then one a second).

const (
	beaconMagic = "\xf7pgb"
	beaconBytes = 64

	beaconQuestion byte = 1
	beaconAnswer   byte = 2

	beaconNonceAt = len(beaconMagic) + 1
	beaconSealAt  = beaconNonceAt + 16
	beaconAddrAt  = beaconSealAt + 16
	beaconAddrMax = beaconAddrAt + 1 + 16
)

// beaconNonce makes each question unique.
type beaconNonce [16]byte

func newBeaconNonce() (n beaconNonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// beaconSeal proves that the sender has the NodeID.
func beaconSeal(id gossip.NodeID, nonce beaconNonce, kind byte) [16]byte {
	var b [8 + 16 + 1]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	copy(b[8:], nonce[:])
	b[24] = kind
	sum := sha256.Sum256(b[:])
	return [16]byte(sum[:16])
}

// isBeacon reports whether a datagram is one of ours rather than memberlist's.
func isBeacon(b []byte) bool {
	return len(b) == beaconBytes && string(b[:len(beaconMagic)]) == beaconMagic
}

// beacon builds a datagram of a kind; at is the address for an answer.
func beacon(kind byte, id gossip.NodeID, nonce beaconNonce, at netip.Addr) []byte {
	b := make([]byte, beaconBytes)
	copy(b, beaconMagic)
	b[len(beaconMagic)] = kind
	copy(b[beaconNonceAt:], nonce[:])
	seal := beaconSeal(id, nonce, kind)
	copy(b[beaconSealAt:], seal[:])
	if at.IsValid() {
		text := at.Unmap().AsSlice()
		b[beaconAddrAt] = byte(len(text))
		copy(b[beaconAddrAt+1:], text)
	}
	return b
}

// readBeacon checks a datagram of a kind about id, and returns its nonce and address,
// which may be invalid.
func readBeacon(b []byte, kind byte, id gossip.NodeID) (nonce beaconNonce, at netip.Addr, ok bool) {
	if !isBeacon(b) || b[len(beaconMagic)] != kind {
		return nonce, at, false
	}
	copy(nonce[:], b[beaconNonceAt:])
	seal := beaconSeal(id, nonce, kind)
	if !bytes.Equal(b[beaconSealAt:beaconAddrAt], seal[:]) {
		return nonce, at, false
	}
	if n := int(b[beaconAddrAt]); n == 4 || n == 16 {
		at, _ = netip.AddrFromSlice(b[beaconAddrAt+1 : beaconAddrAt+1+n])
	}
	return nonce, at, true
}

// answerBeacon returns the answer of node id to a datagram that came in at an address,
// nil if it is no question to this node.
func answerBeacon(b []byte, id gossip.NodeID, at netip.Addr) []byte {
	nonce, _, ok := readBeacon(b, beaconQuestion, id)
	if !ok {
		return nil
	}
	return beacon(beaconAnswer, id, nonce, at)
}

// Inquiry is the outcome of one question to the UDP port of a peer.
type Inquiry struct {
	// Asked is the destination of the question, invalid if nothing could be sent.
	Asked netip.Addr
	// Outcome is the kind of the response. For an answer, By is the address at which the
	// peer received the question (invalid if it cannot determine that); for a refusal,
	// the sender of the ICMP error.
	Outcome inquiryOutcome
	By      netip.Addr
	// TTL is that of the response packet, 0 if undetermined.
	TTL int
}

// inquiryOutcome is the kind of a response to an inquiry.
type inquiryOutcome uint8

const (
	// Unanswered: no valid response arrived in time.
	Unanswered inquiryOutcome = iota
	// Answered: the process with the peer's NodeID answered.
	Answered
	// PortUnreachable: an ICMP error "port unreachable" quoted the question.
	PortUnreachable
)

// Inquirer is a Transport that can ask the UDP port of a peer whether its process holds
// it. TCP and Memory implement it; on systems other than Linux TCP receives answers but
// no refusals.
type Inquirer interface {
	// Inquire sends p one datagram and waits for the response, until ctx ends. It does
	// not use the links to p.
	Inquire(ctx context.Context, p Peer) Inquiry
	// HoldPackets drops the datagrams of WritePacket to an address for a time: each one
	// to a dead process would use up ICMP errors that its kernel sends us.
	HoldPackets(addr string, d time.Duration)
	// Authenticated reports whether connections are bound to the identity of the peer, so
	// that no other node can act in its name.
	Authenticated() bool
}

// icmpError is an error that the kernel has matched with one of our sockets.
type icmpError struct {
	v6       bool
	typ      byte
	code     byte
	offender netip.Addr
	ttl      int
	// quoted is the part of our datagram's payload that the error quotes.
	quoted []byte
}

// portUnreachable reports whether it is "port unreachable" and quotes the whole question.
func (e *icmpError) portUnreachable(question []byte) bool {
	typ, code := byte(3), byte(3)
	if e.v6 {
		typ, code = 1, 4
	}
	return e.typ == typ && e.code == code && e.offender.IsValid() && bytes.Equal(e.quoted, question)
}

// datagrams owns the UDP port: the datagrams of memberlist, and this node's own beacons.
type datagrams struct {
	waiting  chan Packet
	net      network
	life     *lifetime
	counters *Counters
	log      *limitedLogger

	// held are the addresses to which datagrams are held, until when; holding is set while
	// there may be any.
	mu      sync.Mutex
	held    map[string]time.Time
	holding atomic.Bool
}

// askPort asks the UDP port of a peer.
func (d *datagrams) askPort(ctx context.Context, p Peer) Inquiry {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life.ctx, cancel)()
	d.counters.BeaconsAsked.Add(1)
	q := d.net.inquire(ctx, p, newBeaconNonce())
	switch q.Outcome {
	case Answered:
		d.counters.BeaconsAnswered.Add(1)
	case PortUnreachable:
		d.counters.BeaconsRefused.Add(1)
	}
	return q
}

// readLoop hands datagrams to memberlist. It continues while Close waits for handlers,
// so that beacons are answered.
func (d *datagrams) readLoop() {
	b := make([]byte, 64<<10)
	for {
		n, from, err := d.net.readPacket(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			_ = sleep(d.life.ctx, 5*time.Millisecond) // transient, such as an ICMP error
			continue
		}
		if d.life.ctx.Err() != nil {
			continue
		}
		d.counters.PacketsReceived.Add(1)
		d.counters.PacketBytesReceived.Add(uint64(n))
		p := Packet{Data: append([]byte(nil), b[:n]...), From: from, Time: time.Now()}
		select {
		case d.waiting <- p:
		default:
			d.counters.Drops[DropPacketQueue].Add(1)
		}
	}
}

// writeTo sends a datagram; a loss is counted.
func (d *datagrams) writeTo(b []byte, addr string) error {
	if d.life.ctx.Err() != nil {
		return ErrClosed
	}
	if d.holds(addr) {
		d.counters.Drops[DropPacketSend].Add(1)
		return nil
	}
	if len(b) > packetBytesMax {
		d.counters.Drops[DropPacketSend].Add(1)
		return ErrFrameTooLarge
	}
	if err := d.net.writePacket(b, addr); err != nil {
		// On an unexpected write error memberlist abandons a probe without suspecting the
		// node; a lost datagram it handles.
		d.counters.Drops[DropPacketSend].Add(1)
		d.log.writeLine(slog.LevelDebug, "datagram not sent", slog.String("to", addr), slog.Any("error", err))
		return nil
	}
	d.counters.PacketsSent.Add(1)
	d.counters.PacketBytesSent.Add(uint64(len(b)))
	return nil
}

// heldMax bounds the addresses to which datagrams are held at the same time.
const heldMax = 4096

// holdAddr drops datagrams to an address for a time.
func (d *datagrams) holdAddr(addr string, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if len(d.held) >= heldMax {
		for a, until := range d.held {
			if !now.Before(until) {
				delete(d.held, a)
			}
		}
	}
	if len(d.held) < heldMax {
		if d.held == nil {
			d.held = map[string]time.Time{}
		}
		d.held[addr] = now.Add(wait)
		d.holding.Store(true)
	}
}

// holds reports whether datagrams to an address are held now.
func (d *datagrams) holds(addr string) bool {
	if !d.holding.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.held[addr]
	if ok && !time.Now().Before(until) {
		delete(d.held, addr)
		ok = false
	}
	d.holding.Store(len(d.held) > 0)
	return ok
}
