package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Limits of a node's description of itself, which keep a hello small.
const (
	nameBytesMax     = 128
	addrBytesMax     = 256
	settingsMax      = 64
	settingNameMax   = 64
	settingValueMax  = 256
	reasonBytesMax   = 1024
	helloBytesMax    = 32 << 10
	packetBytesMax   = 65507
	frameHeaderBytes = 12
)

// Config configures both transports. Its zero value is not valid: ID, Name and Cluster
// are required; every other field's zero value stands for its default.
type Config struct {
	// ID is this incarnation: random, new at every start.
	ID gossip.NodeID
	// Name is the stable label of the node, at most 128 bytes.
	Name string
	// Process and Incarnation order the frames of one process's successive incarnations:
	// peers that have accepted incarnation k of a process accept no frame of an earlier
	// one, however late the network delivers it. A process draws Process at random when
	// it starts and counts its incarnations; the transport of one must be closed before
	// that of the next is built. Defaults: the ID, and 1, for processes that have one
	// incarnation.
	Process     uint64
	Incarnation uint64
	// Cluster is the name of the cluster, at most 128 bytes. Nodes of another
	// cluster are refused, in both directions.
	Cluster string
	// Settings are the values that must be equal on every node, by name (at most 64 of
	// them, names of 64 and values of 256 bytes). A node that differs is refused with a
	// reason that names the setting and both values.
	Settings map[string]string

	// Control, Message, Bulk and Data bound the classes. Defaults: frames of 1, 4, 8
	// and 1 MiB; queues of 4, 16, 32 and 4 MiB per peer.
	Control, Message, Bulk, Data classLimits

	// DialTimeout bounds the opening of a connection, without TLS and handshake. Default
	// 1 s: a lost SYN is tried again by the kernel after 1 s, by us a little later.
	DialTimeout time.Duration
	// HandshakeTimeout bounds the handshake, TLS included, on both sides. Default 2 s. A
	// shorter one frees the slots of silent strangers sooner, but fails correct peers on
	// an overloaded machine.
	HandshakeTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait between attempts to connect: the first is
	// made immediately, the n-th after min(BackoffMin * 2^(n-2), BackoffMax), of which up
	// to a quarter is taken off to spread the peers. Defaults 10 ms and 1 s: refusals
	// come after 0, 10, 30, 70, 150 ms, also after a hang-up or another failure, so tens
	// of milliseconds show several; and a returned peer is found within 1 s.
	BackoffMin, BackoffMax time.Duration

	// StrangersMax bounds the accepted connections whose handshake is not done yet,
	// StrangersPerSourceMax those from one address (IPv6: one /64 network). A newcomer
	// always gets a slot; when the source has none left, its oldest connection is closed
	// for it; when no slots are left at all, the oldest of the source with most; and from
	// half of StrangersMax on, with a rising probability, a random one. Those closed are
	// counted as busy; nodes among them dial again. Defaults 256 and 64.
	StrangersMax, StrangersPerSourceMax int
	// HalfFrameBytesMax bounds the memory of all partially received frames together. If
	// it does not suffice, the connection of the oldest of them is closed and counted. At
	// least the largest frame; default 256 MiB.
	HalfFrameBytesMax int
	// AcceptedMax bounds the accepted connections and raw streams. Default 8192.
	AcceptedMax int
	// PeersMax bounds the learnt nodes. Default 4096.
	PeersMax int
	// ForgottenMax bounds the list of forgotten nodes. Default 4096.
	ForgottenMax int
	// PacketsMax and StreamsMax bound the channels to memberlist. Defaults 1024
	// and 128.
	PacketsMax, StreamsMax int

	// Logger receives messages for operators; nil discards.
	Logger *slog.Logger
}

// classLimits bounds one class of traffic. The zero value stands for the class's
// defaults.
type classLimits struct {
	// FrameBytesMax bounds a frame's payload. It must be equal on all nodes: a
	// receiver closes a connection on which a larger frame is announced.
	FrameBytesMax int
	// QueueBytesMax bounds the queue for one peer, the bytes being written included: at
	// least twice the largest frame. Each connected peer may cost this much memory while
	// it reads too slowly, and up to twice as much if frames of a size between 1 and 64
	// KiB leave blocks half empty.
	QueueBytesMax int
}

func (c *Config) class(cl Class) *classLimits {
	switch cl {
	case Control:
		return &c.Control
	case Message:
		return &c.Message
	case Data:
		return &c.Data
	default:
		return &c.Bulk
	}
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	for cl, frame := range [classes]int{1 << 20, 4 << 20, 8 << 20, 1 << 20} {
		l := c.class(Class(cl))
		orDefault(&l.FrameBytesMax, frame)
		orDefault(&l.QueueBytesMax, 4*l.FrameBytesMax)
	}
	if c.Process == 0 {
		c.Process = uint64(c.ID)
	}
	if c.Incarnation == 0 {
		c.Incarnation = 1
	}
	orDefault(&c.DialTimeout, time.Second)
	orDefault(&c.HandshakeTimeout, 2*time.Second)
	orDefault(&c.BackoffMin, 10*time.Millisecond)
	orDefault(&c.BackoffMax, time.Second)
	orDefault(&c.StrangersMax, 256)
	orDefault(&c.StrangersPerSourceMax, 64)
	orDefault(&c.HalfFrameBytesMax, 256<<20)
	orDefault(&c.AcceptedMax, 8192)
	orDefault(&c.PeersMax, 4096)
	orDefault(&c.ForgottenMax, 4096)
	orDefault(&c.PacketsMax, 1024)
	orDefault(&c.StreamsMax, 128)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns all problems of c, with zero fields replaced by their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("transport: "+format, args...))
		}
	}
	check(c.ID != 0, "ID is zero")
	check(c.Name != "" && len(c.Name) <= nameBytesMax, "Name %q: 1 to %d bytes are allowed", c.Name, nameBytesMax)
	check(c.Cluster != "" && len(c.Cluster) <= nameBytesMax, "Cluster %q: 1 to %d bytes are allowed", c.Cluster, nameBytesMax)
	check(len(c.Settings) <= settingsMax, "Settings has %d entries, at most %d are allowed", len(c.Settings), settingsMax)
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		value := c.Settings[name]
		check(name != "" && len(name) <= settingNameMax && len(value) <= settingValueMax,
			"Settings[%q] = %q: name of 1 to %d bytes, value of at most %d", name, value, settingNameMax, settingValueMax)
	}
	for cl := range classes {
		l := c.class(cl)
		check(l.FrameBytesMax > 0 && l.FrameBytesMax <= 1<<30, "%v: FrameBytesMax %d is not within 1 and 2^30", cl, l.FrameBytesMax)
		check(l.QueueBytesMax >= 2*(l.FrameBytesMax+frameBytesAround),
			"%v: QueueBytesMax %d is less than twice the largest frame (%d)", cl, l.QueueBytesMax, l.FrameBytesMax)
		check(c.HalfFrameBytesMax >= l.FrameBytesMax, "HalfFrameBytesMax %d is less than the largest frame of %v (%d)", c.HalfFrameBytesMax, cl, l.FrameBytesMax)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"DialTimeout", c.DialTimeout}, {"HandshakeTimeout", c.HandshakeTimeout}, {"BackoffMin", c.BackoffMin}} {
		check(d.d > 0, "%s %v is negative", d.name, d.d)
	}
	check(c.BackoffMax >= c.BackoffMin, "BackoffMax %v is below BackoffMin %v", c.BackoffMax, c.BackoffMin)
	for _, n := range []struct {
		name string
		n    int
	}{{"StrangersMax", c.StrangersMax}, {"StrangersPerSourceMax", c.StrangersPerSourceMax}, {"AcceptedMax", c.AcceptedMax}, {"PeersMax", c.PeersMax},
		{"ForgottenMax", c.ForgottenMax}, {"PacketsMax", c.PacketsMax}, {"StreamsMax", c.StreamsMax}} {
		check(n.n > 0, "%s %d is negative", n.name, n.n)
	}
	return errors.Join(errs...)
}
