package replication

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"github.com/peerage-go/peerage/internal/clock"
)

// Large messages
//
// A message above Limits.FrameBytes is sent in parts on the bulk connection. Of one
// transfer, at most windowParts are in flight. The receiver accepts parts in order only
// and acknowledges its progress, so its memory is bounded by the bytes that it has
// received. It then handles the whole message as if that had come in one frame: the
// protocol of the message defines its meaning and its retransmission.

const windowParts = 8

// outgoing are the transfers to one peer, the first of them in flight.
type outgoing struct {
	queue []*sending
}

type sending struct {
	id     uint64
	whole  []byte
	part   int // bytes per part
	acked  int
	next   int
	at     clock.Instant
	misses int
	// jumped is one above the part that was last retransmitted because a later one had
	// arrived before it.
	jumped int
}

func (s *sending) partCount() int { return (len(s.whole) + s.part - 1) / s.part }

func (o *outgoing) busy() bool { return len(o.queue) > 0 }

func (o *outgoing) resendAt() clock.Instant {
	if len(o.queue) == 0 {
		return clock.Never
	}
	return o.queue[0].at
}

// incoming are the transfers from one peer that are not complete, oldest first.
type incoming struct {
	open []*receiving
	// at is when the newest part arrived.
	at clock.Instant
}

type receiving struct {
	id    uint64
	total int
	next  int
	got   []byte
}

// sendMessage hands a message to the shell, in parts if it is large.
func (tr *transfers) sendMessage(p *peer, m Message) {
	size := sizeOf(m)
	bulk := bulky(m, size)
	if tr.packable(m, size) {
		if k := tr.packer.pack(m); k != nil {
			m, size = k, len(k.Data)+64
		}
	}
	if size <= tr.cfg.Limits.FrameBytes {
		tr.out.Send = append(tr.out.Send, Send{To: p.id, Bulk: bulk, Msg: m, Disk: tr.onDisk})
		return
	}
	if len(p.out.queue) >= tr.cfg.Limits.Transfers {
		tr.traceEvent(TraceEvent{Kind: TraceDropped, Peer: p.id, Bytes: size, Detail: "transfers"})
		return
	}
	tr.ids++
	tr.stats.Transfers++
	whole := Append(make([]byte, 0, size+size/16), m)
	tr.traceEvent(TraceEvent{Kind: TraceTransfer, Peer: p.id, Bytes: len(whole)})
	p.out.queue = append(p.out.queue, &sending{id: tr.ids, whole: whole, part: tr.cfg.Limits.FrameBytes / 2, at: 1})
}

// bulky reports whether a message goes on the connection for transfers.
func bulky(m Message, size int) bool {
	switch m.(type) {
	case *Compare, *Differ, *Fetch, *FetchParts, *Values, *Part, *partAck:
		return true
	}
	return size > 64<<10
}

// sizeOf returns about how long the encoding of m is. Only messages that can be
// long are measured.
func sizeOf(m Message) int {
	n := 64
	switch m := m.(type) {
	case *Deltas:
		for _, e := range m.Entries {
			n += e.encodedSize()
		}
	case *ReadRequest:
		n += keysSize(m.Keys, 10)
	case *ReadResult:
		n += itemsSize(m.Items) + 8*len(m.Prints)
	case *Repair:
		n += itemsSize(m.Items)
	case *Differ:
		n += keysSize(m.Keys, 10) + 24*len(m.Vector) + 24*len(m.Fences)
	case *Fetch:
		n += keysSize(m.Keys, 2)
	case *ReadParts:
		n += len(m.Key) + 8*len(m.Sums)
	case *PartsResult:
		n += itemsSize(m.Items) + len(m.Differ)
	case *FetchParts:
		n += len(m.Key) + 8*len(m.Sums)
	case *Values:
		n += itemsSize(m.Items)
	}
	return n
}

func keysSize(keys []string, each int) (n int) {
	for _, k := range keys {
		n += len(k) + each
	}
	return n
}

func itemsSize(items []Item) (n int) {
	for i := range items {
		n += items[i].encodedSize()
	}
	return n
}

// resendParts sends the parts that are due of the transfer in flight.
func (tr *transfers) resendParts(now clock.Instant, p *peer) {
	if len(p.out.queue) == 0 || now.Before(p.out.queue[0].at) {
		return
	}
	s := p.out.queue[0]
	if s.next > 0 {
		s.misses++
	}
	if s.misses > 8 {
		tr.traceEvent(TraceEvent{Kind: TraceDropped, Peer: p.id, Bytes: len(s.whole), Detail: "transfer unanswered"})
		p.out.queue = p.out.queue[1:]
		return
	}
	s.next = s.acked
	tr.sendParts(now, p, s)
}

func (tr *transfers) sendParts(now clock.Instant, p *peer, s *sending) {
	for ; s.next < s.partCount() && s.next < s.acked+windowParts; s.next++ {
		data := s.whole[s.next*s.part : min(len(s.whole), (s.next+1)*s.part)]
		tr.sendMessage(p, &Part{Transfer: s.id, Index: s.next, Total: len(s.whole), Data: data})
	}
	s.at = now.Add(2 * tr.wait(s.misses))
}

func (tr *transfers) onPartAck(now clock.Instant, p *peer, m *partAck) {
	if len(p.out.queue) == 0 || p.out.queue[0].id != m.Transfer {
		return
	}
	s := p.out.queue[0]
	if m.Next == s.acked && s.jumped <= m.Next && s.next > s.acked+1 {
		// A part arrived after a gap.
		s.jumped, s.next = m.Next+1, m.Next
		tr.sendParts(now, p, s)
	}
	if m.Next <= s.acked || m.Next > s.partCount() {
		return
	}
	s.acked, s.next, s.misses = m.Next, max(s.next, m.Next), 0
	if s.acked < s.partCount() {
		tr.sendParts(now, p, s)
		return
	}
	p.out.queue = p.out.queue[1:]
	tr.resendParts(now, p)
}

// onPart acknowledges a part, and returns the whole message if the part completes it.
func (tr *transfers) onPart(now clock.Instant, p *peer, m *Part) (whole Message) {
	r := tr.receivingOf(p, m)
	if r == nil {
		return nil
	}
	if m.Index == r.next && len(r.got)+len(m.Data) <= r.total && len(m.Data) > 0 {
		r.got = append(r.got, m.Data...)
		r.next++
		p.in.at = now
	}
	tr.sendMessage(p, &partAck{Transfer: m.Transfer, Next: r.next})
	if len(r.got) < r.total || r.got == nil {
		return nil
	}
	encoded := r.got
	// The remaining record marks the transfer as complete: a duplicate part must not
	// begin it anew.
	r.got, r.total = nil, 0
	whole, err := Decode(encoded)
	if err != nil {
		tr.stats.Refused++
		tr.traceEvent(TraceEvent{Kind: TraceRefused, Peer: p.id, Bytes: len(encoded), Detail: err.Error()})
		return nil
	}
	switch whole.(type) {
	case *Part, *partAck:
		tr.stats.Refused++
		return nil
	}
	return whole
}

// receivingOf returns the transfer that a part belongs to, a new one for a first part. When
// there are too many, it drops the oldest.
func (tr *transfers) receivingOf(p *peer, m *Part) *receiving {
	for _, r := range p.in.open {
		if r.id == m.Transfer {
			return r
		}
	}
	most := 2*tr.cfg.Limits.ValueBytes + tr.cfg.Limits.RequestBytes
	if m.Index != 0 || m.Total > most || len(m.Data) == 0 {
		return nil
	}
	if len(p.in.open) >= 2*tr.cfg.Limits.Transfers {
		p.in.open = p.in.open[1:]
	}
	r := &receiving{id: m.Transfer, total: m.Total}
	p.in.open = append(p.in.open, r)
	return r
}

// Messages that fill another replica are compressed: Values, Differ, and all that are
// sent in parts. A packed message carries its unpacked length, which the receiver checks
// before it allocates: at most packRatioMax times the received bytes, and never above
// packRawMax. The sender keeps to the same bounds, so a message that compresses even
// better is sent unpacked.

const (
	// packMin is the size from which packing is tried.
	packMin      = 2 << 10
	packRatioMax = 64
	packRawMax   = 64 << 20
)

// ErrPacked means that a packed message does not match its header.
var ErrPacked = errors.New("replicator: packed message is malformed")

// Packed is another message, compressed (RFC 1951). Of is that message's tag, for
// callers that name it; Raw its length in bytes.
type Packed struct {
	Of   byte
	Raw  int
	Data []byte
}

func (*Packed) isMessage() {}

// name returns the name of the message in m.
func (m *Packed) name() string {
	switch m.Of {
	case tagDeltas:
		return "deltas"
	case tagReadRequest:
		return "read"
	case tagReadResult:
		return "read_result"
	case tagRepair:
		return "repair"
	case tagDiffer:
		return "differ"
	case tagFetch:
		return "fetch"
	case tagValues:
		return "values"
	case tagReadParts:
		return "read_parts"
	case tagPartsResult:
		return "parts_result"
	}
	return "packed"
}

// transfers sends messages: whole, compressed, or in parts.
type transfers struct {
	*env
	packer packer
}

// packer holds the buffers of compression, which are large, while they are in use. The
// zero packer is ready.
type packer struct {
	w    *flate.Writer
	r    io.ReadCloser
	raw  []byte
	idle bool
}

// releaseIfIdle releases the memory if no message was packed since the last call.
func (k *packer) releaseIfIdle() {
	if k.idle {
		*k = packer{}
	}
	k.idle = true
}

// pack returns m compressed, or nil if that saves too little.
func (k *packer) pack(m Message) *Packed {
	k.idle = false
	k.raw = Append(k.raw[:0], m)
	var out bytes.Buffer
	out.Grow(len(k.raw) / 2)
	if k.w == nil {
		// The level is valid.
		k.w, _ = flate.NewWriter(&out, flate.BestSpeed)
	} else {
		k.w.Reset(&out)
	}
	// A bytes.Buffer takes everything.
	_, _ = k.w.Write(k.raw)
	_ = k.w.Close()
	n := out.Len()
	if n > len(k.raw)-len(k.raw)/8 || len(k.raw) > n*packRatioMax || len(k.raw) > packRawMax {
		return nil
	}
	return &Packed{Of: k.raw[0], Raw: len(k.raw), Data: out.Bytes()}
}

// unpack returns the message in m.
func (k *packer) unpack(m *Packed) (Message, error) {
	if m.Raw > packRawMax || m.Raw > len(m.Data)*packRatioMax || m.Raw < 1 {
		return nil, fmt.Errorf("%w: %d bytes in %d", ErrPacked, m.Raw, len(m.Data))
	}
	k.idle = false
	in := bytes.NewReader(m.Data)
	if k.r == nil {
		k.r = flate.NewReader(in)
	} else if err := k.r.(flate.Resetter).Reset(in, nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	raw := make([]byte, m.Raw)
	if n, err := io.ReadFull(k.r, raw); err != nil {
		return nil, fmt.Errorf("%w: %d bytes, not %d: %w", ErrPacked, n, m.Raw, err)
	}
	var more [1]byte
	if n, err := k.r.Read(more[:]); n != 0 || !errors.Is(err, io.EOF) || in.Len() > 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrPacked, m.Raw)
	}
	if raw[0] != m.Of || m.Of == tagPacked {
		return nil, fmt.Errorf("%w: tag %d in %d", ErrPacked, raw[0], m.Of)
	}
	return Decode(raw)
}

// packable reports whether to try to compress a message of about size bytes.
func (tr *transfers) packable(m Message, size int) bool {
	if tr.cfg.NoPack || size < packMin {
		return false
	}
	switch m.(type) {
	case *Values, *Differ:
		return true
	case *Part:
		return false
	}
	return size > tr.cfg.Limits.FrameBytes
}

// unpack returns the message in m, nil if it is malformed.
func (tr *transfers) unpack(p *peer, m *Packed) Message {
	in, err := tr.packer.unpack(m)
	if err != nil {
		tr.stats.Refused++
		tr.traceEvent(TraceEvent{Kind: TraceRefused, Peer: p.id, Bytes: len(m.Data), Detail: err.Error()})
	}
	return in
}

// sendStored sends a message, which rests on the disk if kept is true.
func (tr *transfers) sendStored(p *peer, m Message, kept bool) {
	tr.onDisk = kept
	tr.sendMessage(p, m)
	tr.onDisk = false
}
