package replication

import (
	"fmt"
	"math"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/replicator"
)

// Every message begins with its tag. The numbers never change.
const (
	tagDeltas byte = iota + 1
	tagAck
	tagReadRequest
	tagReadResult
	tagRepair
	tagRepairAck
	tagStatus
	tagCompare
	tagDiffer
	tagFetch
	tagValues
	tagPart
	tagPartAck
	tagPrepare
	tagPrepared
	tagCommit
	tagPacked
	tagFetchParts
	tagReadParts
	tagPartsResult
	tagStampQuery
	tagStampAnswer
)

// Bounds of fields on the wire, independent of a peer's Limits.
const (
	groupBytesMax   = 255
	messageBytesMax = 256 << 20
)

// Append appends the encoding of m to b.
func Append(b []byte, m Message) []byte {
	switch m := m.(type) {
	case *Deltas:
		return appendDeltas(append(b, tagDeltas), m)
	case *Ack:
		return appendAck(append(b, tagAck), m)
	case *ReadRequest:
		b = appendUs(append(b, tagReadRequest), uint64(m.Epoch), uint64(m.ID), m.Round)
		return appendInts(appendPrints(appendFence(b, m.Fence), m.Keys, m.Prints), m.Large)
	case *ReadResult:
		b = appendUs(append(b, tagReadResult), uint64(m.Epoch), m.Floor, m.Sweep, uint64(m.ID), m.Round, m.Higher, uint64(m.Lost))
		return appendInts(appendItems(appendU64s(b, m.Prints), m.Items), m.Withheld)
	case *Repair:
		return appendItems(appendUs(append(b, tagRepair), uint64(m.ID), m.Floor, m.Sweep), m.Items)
	case *RepairAck:
		return appendUs(append(b, tagRepairAck), uint64(m.Epoch), uint64(m.ID))
	case *Status:
		return appendStatus(append(b, tagStatus), m)
	case *Compare:
		return appendU64s(appendUs(append(b, tagCompare), m.Session, m.Ask, uint64(m.Start)), m.Sums)
	case *Differ:
		b = appendUs(append(b, tagDiffer), m.Session, m.Ask, uint64(m.Epoch), uint64(m.Next))
		return appendPrints(appendFences(appendVector(b, m.Vector), m.Fences), m.Keys, m.Prints)
	case *Fetch:
		return appendKeys(appendUs(append(b, tagFetch), m.Session, m.Ask, uint64(m.Credit)), m.Keys)
	case *Values:
		return appendItems(appendUs(append(b, tagValues), m.Floor, m.Sweep, m.Session, m.Ask, uint64(m.Answered)), m.Items)
	case *Part:
		b = appendUs(append(b, tagPart), m.Transfer, uint64(m.Index), uint64(m.Total))
		return wire.AppendBytes(b, m.Data)
	case *partAck:
		return appendUs(append(b, tagPartAck), m.Transfer, uint64(m.Next))
	case *Prepare:
		b = appendDrops(appendUs(append(b, tagPrepare), uint64(m.Epoch), m.Floor, m.Sweep, m.Attempt), m.Drops)
		return appendU64s(wire.AppendBool(b, m.Sweeps), m.Deletions)
	case *Prepared:
		b = appendUs(append(b, tagPrepared), uint64(m.Epoch), m.Floor, m.Attempt, uint64(len(m.Agreed)))
		for _, ok := range m.Agreed {
			b = wire.AppendBool(b, ok)
		}
		return appendFences(wire.AppendBool(b, m.MaySweep), m.Fences)
	case *Commit:
		b = appendDrops(appendUs(append(b, tagCommit), m.Floor, m.Sweep, m.MinGeneration, m.MaxForgottenStamp), m.Drops)
		return appendFences(appendU64s(appendU64s(wire.AppendBool(b, m.Sweeps), m.Agreed), m.Forgotten), m.Fences)
	case *FetchParts:
		b = wire.AppendString(appendUs(append(b, tagFetchParts), m.Session, m.Ask), m.Key)
		return appendU64s(append(appendUs(b, m.Gen, uint64(m.Kind)), m.Grain), m.Sums)
	case *ReadParts:
		b = wire.AppendString(appendUs(append(b, tagReadParts), uint64(m.ID), m.Round, uint64(m.Index)), m.Key)
		return appendU64s(append(appendUs(b, m.Gen, uint64(m.Kind)), m.Grain), m.Sums)
	case *PartsResult:
		b = appendUs(append(b, tagPartsResult), m.Floor, m.Sweep, uint64(m.Epoch), uint64(m.ID), m.Round, uint64(m.Index))
		return wire.AppendBytes(appendItems(b, m.Items), m.Differ)
	case *StampQuery:
		return appendAsks(appendUs(append(b, tagStampQuery), uint64(m.Epoch), uint64(m.ID), m.Round), m.Asks)
	case *StampAnswer:
		return appendNewest(appendUs(append(b, tagStampAnswer), uint64(m.Epoch), m.Floor, m.Sweep, uint64(m.ID), m.Round, m.Wall), m.Newest)
	case *Packed:
		return wire.AppendBytes(wire.AppendUvarint(append(b, tagPacked, m.Of), uint64(m.Raw)), m.Data)
	}
	panic(fmt.Sprintf("replicator: no encoding for %T", m))
}

func appendUs(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = wire.AppendUvarint(b, v)
	}
	return b
}

func appendU64s(b []byte, vs []uint64) []byte {
	b = wire.AppendUvarint(b, uint64(len(vs)))
	for _, v := range vs {
		b = wire.AppendU64(b, v)
	}
	return b
}

func appendInts(b []byte, vs []int) []byte {
	b = wire.AppendUvarint(b, uint64(len(vs)))
	for _, v := range vs {
		b = wire.AppendUvarint(b, uint64(v))
	}
	return b
}

func appendKeys(b []byte, keys []string) []byte {
	b = wire.AppendUvarint(b, uint64(len(keys)))
	for _, k := range keys {
		b = wire.AppendString(b, k)
	}
	return b
}

func appendPrints(b []byte, keys []string, prints []uint64) []byte {
	b = wire.AppendUvarint(b, uint64(len(keys)))
	for i, k := range keys {
		b = wire.AppendU64(wire.AppendString(b, k), prints[i])
	}
	return b
}

func appendFence(b []byte, f replicator.Fence) []byte {
	return wire.AppendUvarint(wire.AppendString(b, f.Group), f.Term)
}

func appendFences(b []byte, fs []replicator.Fence) []byte {
	b = wire.AppendUvarint(b, uint64(len(fs)))
	for _, f := range fs {
		b = appendFence(b, f)
	}
	return b
}

func appendItems(b []byte, items []Item) []byte {
	b = wire.AppendUvarint(b, uint64(len(items)))
	for i := range items {
		it := &items[i]
		b = appendUs(wire.AppendString(b, it.Key), it.Gen, kindEra(it.Kind, it.Era))
		b = wire.AppendBytes(b, it.Bytes)
	}
	return b
}

func appendVector(b []byte, vs []Seen) []byte {
	b = wire.AppendUvarint(b, uint64(len(vs)))
	for _, v := range vs {
		b = appendUs(wire.AppendU64(b, uint64(v.Node)), v.Seen, v.Top-v.Seen)
	}
	return b
}

func appendDeltas(b []byte, m *Deltas) []byte {
	b = appendUs(b, uint64(m.Epoch), m.Floor, m.Sweep, m.From, uint64(len(m.Entries)))
	for _, e := range m.Entries {
		b = appendItems(appendFence(b, e.Fence), e.Items)
	}
	return b
}

func appendAck(b []byte, m *Ack) []byte {
	b = appendUs(b, uint64(m.Epoch), m.From, m.To, m.Seen, m.Lo, m.Hi, uint64(len(m.Refused)))
	for _, r := range m.Refused {
		b = append(appendUs(b, r.Seq, r.Higher), byte(r.Why))
		if r.Why != whyFence {
			b = wire.AppendString(wire.AppendUvarint(b, uint64(r.Item)), r.Entry)
			b = appendUs(wire.AppendU64(b, uint64(r.Have.Node)), r.Have.Time, r.Have.Seq, r.Wall)
		}
	}
	return b
}

func appendStatus(b []byte, m *Status) []byte {
	b = wire.AppendU64(appendUs(b, uint64(m.Epoch), m.Floor, m.Sweep, uint64(m.CaughtUp)), m.Root)
	b = appendVector(wire.AppendUvarint(b, m.Keys), m.Vector)
	b = wire.AppendBool(appendFences(b, m.Fences), m.Reply)
	b = wire.AppendBool(appendUs(b, m.MinGeneration, m.MaxForgottenStamp), m.Fresh)
	return appendUs(b, m.Dots, m.Wall, uint64(m.Lost))
}

// Light reports whether a frame holds a message that is dealt with in little time, if it
// is small: one whose handling neither scans keys nor encodes whole values.
func Light(frame []byte) bool {
	return len(frame) > 0 && (frame[0] == tagDeltas || frame[0] == tagAck || frame[0] == tagRepairAck || frame[0] == tagStampQuery || frame[0] == tagStampAnswer)
}

// Decode reads one message. It allocates at most a small multiple of the frame's size;
// strings and bytes that the message keeps are copies, except that Bytes and Data alias
// the frame.
func Decode(frame []byte) (Message, error) {
	r := wire.NewReader(frame)
	m := decodeMessage(r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

func decodeMessage(r *wire.Reader) Message {
	switch r.Byte() {
	case tagDeltas:
		return readDeltas(r)
	case tagAck:
		return readAck(r)
	case tagReadRequest:
		m := &ReadRequest{Epoch: readEpoch(r), ID: RequestID(r.Uvarint()), Round: r.Uvarint(), Fence: readFence(r)}
		m.Keys, m.Prints = readPrints(r)
		m.Large = readInts(r)
		return m
	case tagReadResult:
		return &ReadResult{Epoch: readEpoch(r), Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), ID: RequestID(r.Uvarint()), Round: r.Uvarint(), Higher: r.Uvarint(), Lost: readEpoch(r), Prints: readU64s(r), Items: readItems(r), Withheld: readInts(r)}
	case tagRepair:
		return &Repair{ID: RequestID(r.Uvarint()), Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), Items: readItems(r)}
	case tagRepairAck:
		return &RepairAck{Epoch: readEpoch(r), ID: RequestID(r.Uvarint())}
	case tagStatus:
		return readStatus(r)
	case tagCompare:
		return &Compare{Session: r.Uvarint(), Ask: r.Uvarint(), Start: readInt(r, "bucket", bucketCount), Sums: readU64s(r)}
	case tagDiffer:
		m := &Differ{Session: r.Uvarint(), Ask: r.Uvarint(), Epoch: readEpoch(r), Next: readInt(r, "bucket", bucketCount), Vector: readVector(r), Fences: readFences(r)}
		m.Keys, m.Prints = readPrints(r)
		return m
	case tagFetch:
		return &Fetch{Session: r.Uvarint(), Ask: r.Uvarint(), Credit: readInt(r, "credit", messageBytesMax), Keys: readKeys(r)}
	case tagValues:
		return &Values{Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), Session: r.Uvarint(), Ask: r.Uvarint(), Answered: readInt(r, "answered", messageBytesMax), Items: readItems(r)}
	case tagPart:
		return &Part{Transfer: r.Uvarint(), Index: readInt(r, "part", messageBytesMax), Total: readInt(r, "total", messageBytesMax), Data: r.Bytes("part", messageBytesMax)}
	case tagPartAck:
		return &partAck{Transfer: r.Uvarint(), Next: readInt(r, "part", messageBytesMax)}
	case tagPrepare:
		return &Prepare{Epoch: readEpoch(r), Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), Attempt: r.Uvarint(), Drops: readDrops(r), Sweeps: r.Bool(), Deletions: readU64s(r)}
	case tagPrepared:
		m := &Prepared{Epoch: readEpoch(r), Floor: r.Uvarint(), Attempt: r.Uvarint()}
		m.Agreed = make([]bool, r.Count("answers", 1))
		for i := range m.Agreed {
			m.Agreed[i] = r.Bool()
		}
		m.MaySweep, m.Fences = r.Bool(), readFences(r)
		return m
	case tagCommit:
		return &Commit{Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), MinGeneration: readTime(r, "min generation"), MaxForgottenStamp: readTime(r, "max forgotten stamp"), Drops: readDrops(r), Sweeps: r.Bool(), Agreed: readU64s(r), Forgotten: readU64s(r), Fences: readFences(r)}
	case tagPacked:
		return &Packed{Of: r.Byte(), Raw: readInt(r, "packed", packRawMax), Data: r.Bytes("packed", messageBytesMax)}
	case tagFetchParts:
		m := &FetchParts{Session: r.Uvarint(), Ask: r.Uvarint(), Key: r.String("key", keyBytesMax)}
		m.Gen, m.Kind, m.Grain, m.Sums = r.Uvarint(), readKind(r), r.Byte(), readU64s(r)
		return m
	case tagReadParts:
		m := &ReadParts{ID: RequestID(r.Uvarint()), Round: r.Uvarint(), Index: readInt(r, "index", messageBytesMax), Key: r.String("key", keyBytesMax)}
		m.Gen, m.Kind, m.Grain, m.Sums = r.Uvarint(), readKind(r), r.Byte(), readU64s(r)
		return m
	case tagPartsResult:
		m := &PartsResult{Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), Epoch: readEpoch(r), ID: RequestID(r.Uvarint()), Round: r.Uvarint()}
		m.Index, m.Items, m.Differ = readInt(r, "index", messageBytesMax), readItems(r), r.Bytes("differ", partsMax/8)
		return m
	case tagStampQuery:
		return &StampQuery{Epoch: readEpoch(r), ID: RequestID(r.Uvarint()), Round: r.Uvarint(), Asks: readAsks(r)}
	case tagStampAnswer:
		return &StampAnswer{Epoch: readEpoch(r), Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), ID: RequestID(r.Uvarint()), Round: r.Uvarint(), Wall: r.Uvarint(), Newest: readNewest(r)}
	default:
		r.Fail(wire.ErrUnknownKind)
		return nil
	}
}

func readEpoch(r *wire.Reader) gossip.Epoch { return gossip.Epoch(r.Uvarint()) }

func readInt(r *wire.Reader, field string, most int) int {
	v := r.Uvarint()
	if v > uint64(most) {
		r.Fail(&wire.LimitError{Field: field, Declared: v, Max: uint64(most)})
		return 0
	}
	return int(v)
}

// kindBits is how many bits a kind has before the era that shares its number.
const kindBits = 16

func kindEra(kind crdt.Kind, era uint8) uint64 { return uint64(kind) | uint64(era)<<kindBits }

func readKindEra(r *wire.Reader) (crdt.Kind, uint8) {
	n := readInt(r, "kind and era", eraMax<<kindBits|math.MaxUint16)
	return crdt.Kind(n & math.MaxUint16), uint8(n >> kindBits)
}

func readKind(r *wire.Reader) crdt.Kind { return crdt.Kind(readInt(r, "kind", math.MaxUint16)) }

// readTime reads a time of a stamp, or a generation: one at the end of its range would end
// all that comes after it.
func readTime(r *wire.Reader, field string) uint64 {
	v := r.Uvarint()
	if v >= timeMax {
		r.Fail(&wire.LimitError{Field: field, Declared: v, Max: timeMax - 1})
		return 0
	}
	return v
}

func readU64s(r *wire.Reader) []uint64 {
	out := make([]uint64, r.Count("numbers", 8))
	for i := range out {
		out[i] = r.U64()
	}
	return out
}

func readInts(r *wire.Reader) []int {
	out := make([]int, r.Count("numbers", 1))
	for i := range out {
		out[i] = readInt(r, "number", messageBytesMax)
	}
	return out
}

func readKeys(r *wire.Reader) []string {
	out := make([]string, r.Count("keys", 1))
	for i := range out {
		out[i] = r.String("key", keyBytesMax)
	}
	return out
}

func readPrints(r *wire.Reader) ([]string, []uint64) {
	n := r.Count("keys", 9)
	keys, prints := make([]string, n), make([]uint64, n)
	for i := range keys {
		keys[i], prints[i] = r.String("key", keyBytesMax), r.U64()
	}
	return keys, prints
}

func readFence(r *wire.Reader) replicator.Fence {
	return replicator.Fence{Group: r.String("group", groupBytesMax), Term: r.Uvarint()}
}

func readFences(r *wire.Reader) []replicator.Fence {
	out := make([]replicator.Fence, r.Count("fences", 2))
	for i := range out {
		out[i] = readFence(r)
	}
	return out
}

func readItems(r *wire.Reader) []Item {
	out := make([]Item, r.Count("items", 4))
	for i := range out {
		in := &out[i]
		in.Key, in.Gen = r.String("key", keyBytesMax), readTime(r, "generation")
		in.Kind, in.Era = readKindEra(r)
		in.Bytes = r.Bytes("value", messageBytesMax)
	}
	return out
}

func readVector(r *wire.Reader) []Seen {
	out := make([]Seen, r.Count("vector", 10))
	for i := range out {
		out[i] = Seen{Node: gossip.NodeID(r.U64()), Seen: r.Uvarint()}
		out[i].Top = out[i].Seen + r.Uvarint()
		if out[i].Top < out[i].Seen {
			r.Fail(&wire.LimitError{Field: "top", Declared: out[i].Top, Max: out[i].Seen})
		}
	}
	return out
}

func readDeltas(r *wire.Reader) *Deltas {
	m := &Deltas{Epoch: readEpoch(r), Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), From: r.Uvarint()}
	n := r.Count("entries", 3)
	if m.From == 0 || m.From+uint64(n) < m.From {
		r.Fail(&wire.LimitError{Field: "from", Declared: m.From, Max: 1<<64 - 1 - uint64(n)})
		return m
	}
	m.Entries = make([]*Entry, n)
	for i := range m.Entries {
		m.Entries[i] = &Entry{Fence: readFence(r), Items: readItems(r)}
	}
	return m
}

func readAck(r *wire.Reader) *Ack {
	m := &Ack{Epoch: readEpoch(r), From: r.Uvarint(), To: r.Uvarint(), Seen: r.Uvarint(), Lo: r.Uvarint(), Hi: r.Uvarint()}
	m.Refused = make([]Refusal, r.Count("refused", 3))
	for i := range m.Refused {
		f := &m.Refused[i]
		f.Seq, f.Higher, f.Why = r.Uvarint(), r.Uvarint(), why(r.Byte())
		if f.Why != whyFence {
			f.Item, f.Entry = readInt(r, "item", messageBytesMax), r.String("entry", messageBytesMax)
			f.Have = crdt.Stamp{Node: crdt.NodeID(r.U64()), Time: readTime(r, "time"), Seq: r.Uvarint()}
			f.Wall = r.Uvarint()
		}
	}
	return m
}

func readStatus(r *wire.Reader) *Status {
	m := &Status{Epoch: readEpoch(r), Floor: r.Uvarint(), Sweep: readTime(r, "sweep"), CaughtUp: readEpoch(r), Root: r.U64(), Keys: r.Uvarint()}
	m.Vector, m.Fences, m.Reply = readVector(r), readFences(r), r.Bool()
	m.MinGeneration, m.MaxForgottenStamp, m.Fresh = readTime(r, "min generation"), readTime(r, "max forgotten stamp"), r.Bool()
	m.Dots, m.Wall, m.Lost = r.Uvarint(), r.Uvarint(), readEpoch(r)
	return m
}

func appendDrops(b []byte, ds []Drop) []byte {
	b = wire.AppendUvarint(b, uint64(len(ds)))
	for i := range ds {
		d := &ds[i]
		b = wire.AppendUvarint(wire.AppendString(b, d.Key), kindEra(d.Kind, d.Era))
		b = wire.AppendU64(appendUs(b, d.Gen, uint64(d.Garbage.Items)), d.Garbage.Digest)
		b = wire.AppendUvarint(b, uint64(len(d.Writers)))
		for _, n := range d.Writers {
			b = wire.AppendU64(b, uint64(n))
		}
	}
	return b
}

func readDrops(r *wire.Reader) []Drop {
	out := make([]Drop, r.Count("drops", 13))
	for i := range out {
		d := &out[i]
		d.Key = r.String("key", keyBytesMax)
		d.Kind, d.Era = readKindEra(r)
		d.Gen = r.Uvarint()
		d.Garbage.Items, d.Garbage.Digest = readInt(r, "garbage", messageBytesMax), r.U64()
		for range r.Count("writers", 8) {
			d.Writers = append(d.Writers, crdt.NodeID(r.U64()))
		}
	}
	return out
}

func appendAsks(b []byte, asks []stampAsk) []byte {
	b = wire.AppendUvarint(b, uint64(len(asks)))
	for i := range asks {
		b = wire.AppendUvarint(wire.AppendString(b, asks[i].Key), uint64(len(asks[i].Entries)))
		for _, e := range asks[i].Entries {
			b = wire.AppendString(b, e)
		}
	}
	return b
}

func readAsks(r *wire.Reader) []stampAsk {
	out := make([]stampAsk, r.Count("asks", 2))
	for i := range out {
		out[i].Key = r.String("key", keyBytesMax)
		out[i].Entries = make([]string, r.Count("entries", 1))
		for j := range out[i].Entries {
			out[i].Entries[j] = r.String("entry", messageBytesMax)
		}
	}
	return out
}

func appendNewest(b []byte, ns []Newest) []byte {
	b = wire.AppendUvarint(b, uint64(len(ns)))
	for i := range ns {
		b = append(wire.AppendBool(wire.AppendUvarint(b, ns[i].Gen), ns[i].Live), ns[i].Era)
		b = appendUs(wire.AppendUvarint(b, uint64(len(ns[i].Times))), ns[i].Times...)
	}
	return b
}

func readNewest(r *wire.Reader) []Newest {
	out := make([]Newest, r.Count("newest", 4))
	for i := range out {
		out[i].Gen, out[i].Live, out[i].Era = readTime(r, "generation"), r.Bool(), r.Byte()
		if out[i].Era > eraMax {
			r.Fail(&wire.LimitError{Field: "era", Declared: uint64(out[i].Era), Max: eraMax})
			return nil
		}
		out[i].Times = make([]uint64, r.Count("times", 1))
		for j := range out[i].Times {
			out[i].Times[j] = readTime(r, "time")
		}
	}
	return out
}
