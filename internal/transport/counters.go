package transport

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// Counters holds the counters of a transport. All fields are live and safe to read at any
// time; nothing is ever reset. Frames are counted together: sent ones once their block has
// been written, received ones once all that arrived together have been handed out.
type Counters struct {
	// Class is indexed by Class.
	Class [classes]ClassCounters
	// Drops counts frames, packets and streams by DropReason.
	Drops [drops]atomic.Uint64
	// HandshakeFailures counts accepted connections that ended in the handshake, by
	// Failure.
	HandshakeFailures [failures]atomic.Uint64
	// DialRefusals counts this node's handshakes that the far end refused, by Failure.
	DialRefusals [failures]atomic.Uint64
	// Dials counts attempts to connect, DialFailures those that failed for any reason.
	Dials, DialFailures atomic.Uint64
	// OversizeFrames, MalformedFrames and CorruptFrames count accepted connections that
	// were closed because of an invalid frame after the handshake; corrupt is a frame
	// whose checksum does not match.
	OversizeFrames, MalformedFrames, CorruptFrames atomic.Uint64
	// HalfFrames counts accepted connections that were closed because half-received frames
	// took more memory than Config.HalfFrameBytesMax, and theirs was the oldest.
	HalfFrames atomic.Uint64
	// Replaced counts accepted connections that a newer one of the same peer and
	// class has ended.
	Replaced atomic.Uint64
	// Fenced counts accepted connections that ended because their sender was superseded
	// by a later incarnation of its process, or dropped by the view. FencedBytes counts
	// the bytes received but unread on them.
	Fenced, FencedBytes atomic.Uint64
	// AcceptErrors counts failures to accept, such as a lack of file descriptors.
	AcceptErrors atomic.Uint64
	// Strangers is the number of accepted connections in their handshake now.
	Strangers atomic.Int64
	// Accepted is the number of accepted connections and raw streams now.
	Accepted atomic.Int64
	// Peers is the present number of learnt nodes.
	Peers atomic.Int64
	// PacketsSent, PacketBytesSent, PacketsReceived and PacketBytesReceived count
	// datagrams; the streams those opened and taken.
	PacketsSent, PacketBytesSent         atomic.Uint64
	PacketsReceived, PacketBytesReceived atomic.Uint64
	StreamsDialled, StreamsAccepted      atomic.Uint64
	// BeaconsAsked counts the questions of Inquire, BeaconsAnswered and BeaconsRefused
	// their responses.
	BeaconsAsked, BeaconsAnswered, BeaconsRefused atomic.Uint64

	queue        func(Class) int
	roundTrip    func() time.Duration
	certificates func() CertificateStats
}

// Certificates returns the state of this node's own certificate; ok is false without TLS,
// and if callbacks of the application choose the certificate.
func (c *Counters) Certificates() (s CertificateStats, ok bool) {
	if c.certificates == nil {
		return CertificateStats{}, false
	}
	return c.certificates(), true
}

// LongestRoundTrip returns the longest round-trip time of the open control connections, as the
// system estimates it now; 0 if there are none, or the system does not report it.
// It iterates over the peers.
func (c *Counters) LongestRoundTrip() time.Duration {
	if c.roundTrip == nil {
		return 0
	}
	return c.roundTrip()
}

// QueueBytes returns the bytes queued for all peers in a class, those being written
// included. It iterates over the peers.
func (c *Counters) QueueBytes(class Class) int {
	if c.queue == nil {
		return 0
	}
	return c.queue(class)
}

// Garbage returns how many accepted connections were closed because they sent no Peerage
// handshake, or nothing.
func (c *Counters) Garbage() uint64 {
	var n uint64
	for _, f := range []Failure{FailNotOurs, FailMalformed, FailOversize, FailTimeout, FailHungUp, FailTLS} {
		n += c.HandshakeFailures[f].Load()
	}
	return n
}

// ClassCounters counts the traffic of one class.
type ClassCounters struct {
	FramesSent, BytesSent         atomic.Uint64
	FramesReceived, BytesReceived atomic.Uint64
	// Connections is the number of outgoing connections now.
	Connections atomic.Int64
	// Lost counts outgoing connections that broke.
	Lost atomic.Uint64
	// Writes counts write calls, WriteNanos the time spent in them. WriteStalls
	// counts those that took longer than 10 ms: the peer or the network is slow.
	Writes, WriteNanos, WriteStalls atomic.Uint64
}

// DropReason is the reason for which a frame, packet or stream was dropped. The String
// forms are the labels of metrics.
type DropReason uint8

const (
	// DropQueueFull: Send returned ErrQueueFull.
	DropQueueFull DropReason = iota
	// DropUnknownPeer: Send returned ErrUnknownPeer.
	DropUnknownPeer
	// DropTooLarge: Send returned ErrFrameTooLarge.
	DropTooLarge
	// DropClosed: Send returned ErrClosed.
	DropClosed
	// DropLost: queued, or in the block being written, when the connection broke.
	DropLost
	// DropDialFailed: queued when an attempt to connect failed.
	DropDialFailed
	// DropForgotten: queued when the peer was forgotten or unlearnt.
	DropForgotten
	// DropReplaced: fully received on a connection that a newer one had ended.
	DropReplaced
	// DropFenced: fully received on a connection of an incarnation that a later one of
	// its process has superseded, or that the view has dropped.
	DropFenced
	// DropNoHandler: received, but its kind has no handler.
	DropNoHandler
	// DropPacketQueue: a datagram that found Packets full.
	DropPacketQueue
	// DropPacketSend: a datagram too large, refused by the operating system, or held
	// (HoldPackets).
	DropPacketSend
	// DropStreamQueue: a raw stream that found Streams full.
	DropStreamQueue
	drops
)

// String returns the reason as a label.
func (r DropReason) String() string {
	if r >= drops {
		return "unknown"
	}
	return [drops]string{"queue_full", "unknown_peer", "too_large", "closed", "lost", "dial_failed",
		"forgotten", "replaced", "fenced", "no_handler", "packet_queue", "packet_send", "stream_queue"}[r]
}

// limitedLogger is a slog.Logger that folds lines about strangers and refusals: a refused node tries
// again every second. Of lines that differ only in ports, one a minute is written.
type limitedLogger struct {
	log   *slog.Logger
	lines loglimit.Folder
}

func newLimitedLogger(l *slog.Logger) *limitedLogger { return &limitedLogger{log: l} }

// ports matches the port behind an address. A stranger dials from a new one each time.
var ports = regexp.MustCompile(`:\d+`)

// kindOf returns the text by which a line is folded.
func kindOf(msg string, attrs []slog.Attr) string {
	kind := []string{msg}
	for _, a := range attrs {
		kind = append(kind, a.Value.String())
	}
	return ports.ReplaceAllString(strings.Join(kind, " "), "")
}

// writeLine writes a line if the level is enabled and its kind is not folded now.
func (l *limitedLogger) writeLine(level slog.Level, msg string, attrs ...slog.Attr) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	folded, ok := l.lines.Take(kindOf(msg, attrs), time.Now())
	if !ok {
		return
	}
	if folded > 0 {
		attrs = append(attrs, slog.Int(loglimit.Folded, folded))
	}
	l.log.LogAttrs(context.Background(), level, msg, attrs...)
}

// refusal writes a line about a handshake that this node or its peer refused.
func (l *limitedLogger) refusal(msg, addr string, r *refusal) {
	level := slog.LevelWarn
	if r.code == FailSuperseded || r.code == FailForgotten || r.code == FailDropped {
		level = slog.LevelInfo // part of ordinary life
	}
	l.writeLine(level, msg, slog.String("addr", addr), slog.String("failure", r.code.String()), slog.String("reason", r.reason))
}
