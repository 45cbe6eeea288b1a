package replication

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// What fills another replica is compressed: Values, Differ, and everything that
// travels in parts. A message says how long it is unpacked, and that is checked
// before anything is allocated for it: at most packRatioMax times what came, and
// never above packRawMax. The sender keeps to the same bounds, so a message that
// compresses even better goes as it is.

const (
	// packMin is the size from which packing is tried.
	packMin      = 2 << 10
	packRatioMax = 64
	packRawMax   = 64 << 20
)

// ErrPacked means that a packed message is not what it says.
var ErrPacked = errors.New("replicator: packed message is malformed")

// Packed is another message, compressed (RFC 1951). Of is that message's tag, for
// whoever wants to name it; Raw its length in bytes.
type Packed struct {
	Of   byte
	Raw  int
	Data []byte
}

func (*Packed) message() {}

// name is that of what is in m, of those that are packed.
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

// packer holds what compressing needs, which is large, while it is in use. The
// zero packer is ready.
type packer struct {
	w    *flate.Writer
	r    io.ReadCloser
	raw  []byte
	idle bool
}

// rest gives the memory back if nothing was packed since the last time.
func (k *packer) rest() {
	if k.idle {
		*k = packer{}
	}
	k.idle = true
}

// pack returns m compressed, or nil if that is not worth it.
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

// packable reports whether a message of about size bytes is worth trying.
func (c *Core) packable(m Message, size int) bool {
	if c.cfg.NoPack || size < packMin {
		return false
	}
	switch m.(type) {
	case *Values, *Differ:
		return true
	case *Part:
		return false
	}
	return size > c.cfg.Limits.FrameBytes
}

// onPacked handles the message in m.
func (c *Core) onPacked(p *peer, m *Packed) Message {
	in, err := c.packer.unpack(m)
	if err != nil {
		c.stats.Refused++
		c.trace(TraceEvent{Kind: TraceRefused, Peer: p.id, Bytes: len(m.Data), Detail: err.Error()})
	}
	return in
}
