package replication

import (
	"math/bits"
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Reads of large values
//
// A read request carries the fingerprints of the values here, so a replica with equal
// values answers with fingerprints alone. A replica that holds a large value in another
// state withholds it, if the asker holds a large one too; the asker then compares it in
// parts, as sessions do:
//
//	asker    ReadRequest   fingerprints, and which values are large here
//	replica  ReadResult    small values that differ; which large ones differ
//	asker    ReadParts     sums of the parts of one of them
//	replica  PartsResult   the parts that differ, and which ones they were
//
// A stale replica is repaired with the parts in which it differs, found in the same way.
// Replicas keep no state of these exchanges.

// ReadParts asks for the parts of the read's key with number Index that differ from the
// asker's, whose parts have Sums.
type ReadParts struct {
	ID    RequestID
	Round uint64
	Index int
	Key   string
	Gen   uint64
	Kind  crdt.Kind
	Grain uint8
	Sums  []uint64
}

// PartsResult answers ReadParts with one item: the parts for which Differ has a bit. If
// Differ is empty, the item is the whole value, since the two cannot be compared in
// parts.
type PartsResult struct {
	Floor  uint64
	Sweep  uint64
	Epoch  gossip.Epoch
	ID     RequestID
	Round  uint64
	Index  int
	Items  []Item
	Differ []byte
}

func (*ReadParts) isMessage()   {}
func (*PartsResult) isMessage() {}

// exchange is the comparison of one value of a read with one member's.
type exchange struct {
	peer  gossip.NodeID
	index int
	// sums are the own ones when the member was asked.
	sums  []uint64
	grain uint8
	// answered is set once the member has answered; differ then has a bit for each part
	// that differs, or is empty for all.
	answered bool
	differ   []byte
}

// withheld is an answer to a read that waits for parts.
type withheld struct {
	result *ReadResult
	open   []int
}

func (r *request) exchangeWith(id gossip.NodeID, index int) *exchange {
	for _, x := range r.exchanges {
		if x.peer == id && x.index == index {
			return x
		}
	}
	return nil
}

// largeKeys returns the numbers of the keys whose values can be compared in parts.
func (vs *values) largeKeys(keys []string) (out []int) {
	for i, k := range keys {
		if _, v := vs.partialValue(k); v != nil {
			out = append(out, i)
		}
	}
	return out
}

// fetchWithheld asks for the parts of what a member has withheld; false if it need not.
func (rs *reads) fetchWithheld(p *peer, r *request, m *ReadResult) bool {
	w := &withheld{result: m}
	for _, i := range m.Withheld {
		if rs.store.print(r.keys[i]) == m.Prints[i] {
			continue // another member has sent it meanwhile
		}
		w.open = append(w.open, i)
		if !rs.compareParts(p, r, i) {
			// It is no longer large here.
			rs.askMembers(r, []gossip.NodeID{p.id})
			return true
		}
	}
	if len(w.open) == 0 {
		return false
	}
	if r.withheld == nil {
		r.withheld = map[gossip.NodeID]*withheld{}
	}
	r.withheld[p.id] = w
	return true
}

// compareParts asks a member for the parts in which its value differs.
func (rs *reads) compareParts(p *peer, r *request, index int) bool {
	it, v := rs.values.partialValue(r.keys[index])
	if v == nil {
		return false
	}
	grain := v.Grain()
	sums := v.PartSums(partsOf(it.bytes), grain)
	if sums == nil {
		return false
	}
	r.exchanges = slices.DeleteFunc(r.exchanges, func(x *exchange) bool { return x.peer == p.id && x.index == index })
	r.exchanges = append(r.exchanges, &exchange{peer: p.id, index: index, sums: sums, grain: grain})
	rs.transfers.sendMessage(p, &ReadParts{ID: r.id, Round: r.round, Index: index, Key: it.key, Gen: it.gen, Kind: it.kind(), Grain: grain, Sums: sums})
	return true
}

func (rs *reads) onReadParts(p *peer, m *ReadParts) {
	out := &PartsResult{Floor: rs.barrier.floor, Sweep: rs.barrier.sweep, Epoch: rs.members.epoch, ID: m.ID, Round: m.Round, Index: m.Index}
	out.Items, out.Differ = rs.values.partsFor(&FetchParts{Key: m.Key, Gen: m.Gen, Kind: m.Kind, Grain: m.Grain, Sums: m.Sums})
	rs.transfers.sendStored(p, out, rs.kept(m.Key))
}

func (rs *reads) onPartsResult(now clock.Instant, p *peer, m *PartsResult) {
	took := rs.values.mergeItems(p, m.Items)
	rs.stats.ValuesReceived += uint64(len(m.Items))
	r := rs.table.open[m.ID]
	if r == nil || r.phase == writing || m.Round != r.round || !took {
		return
	}
	x := r.exchangeWith(p.id, m.Index)
	if x == nil || x.answered {
		return
	}
	x.answered, x.differ = true, m.Differ
	if r.phase == repairing {
		if r.held[p.id] != nil {
			rs.sendRepair(r, p)
		}
		return
	}
	w := r.withheld[p.id]
	if w == nil {
		return
	}
	if w.open = slices.DeleteFunc(w.open, func(i int) bool { return i == m.Index }); len(w.open) > 0 {
		return
	}
	delete(r.withheld, p.id)
	r.answers[p.id], r.held[p.id] = w.result.Epoch, w.result.Prints
	rs.table.proceed(now, r)
}

// sendRepair sends a stale member the values of the read that it lacks, once all comparisons
// with it are answered.
func (rs *reads) sendRepair(r *request, p *peer) {
	if r.repairs == nil {
		r.repairs = rs.repairsFor(r)
	}
	items, waits := slices.Clip(r.repairs), false
	for i, k := range r.keys {
		it, v := rs.values.partialValue(k)
		if v == nil || r.held[p.id][i] == r.prints[i] {
			continue
		}
		switch x := r.exchangeWith(p.id, i); {
		case r.held[p.id][i] == 0:
			items = append(items, full(it))
		case x == nil || !x.answered:
			if rs.compareParts(p, r, i) {
				waits = true
			} else {
				items = append(items, full(it))
			}
		default:
			items = append(items, lacking(it, v, x))
		}
	}
	if waits {
		return
	}
	rs.stats.Repairs++
	rs.traceEvent(TraceEvent{Kind: TraceRepair, Peer: p.id})
	rs.transfers.sendMessage(p, &Repair{ID: r.id, Floor: rs.barrier.floor, Sweep: rs.barrier.sweep, Items: items})
}

// lacking returns the parts of a value that differed at a member, or have changed since
// the comparison.
func lacking(it *item, v partialValue, x *exchange) Item {
	now := v.PartSums(len(x.sums), x.grain)
	if now == nil || len(x.differ)*8 < len(x.sums) {
		return full(it)
	}
	want := make([]bool, len(now))
	for i := range want {
		want[i] = now[i] != x.sums[i] || x.differ[i/8]>>(i%8)&1 != 0
	}
	return Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Bytes: v.Part(want, x.grain).Append(nil)}
}

// bitmapOf packs want, eight to a byte.
func bitmapOf(want []bool) []byte {
	out := make([]byte, (len(want)+7)/8)
	for i, on := range want {
		if on {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return out
}

// A value above partialMin that stands here in another state is not fetched whole: the
// question carries the sums of its parts, and the answer the parts that differ, which
// form an ordinary value (partialValue). An exchange costs eight bytes per partBytes of
// the value, and one part per difference. Only the primary source is asked so: a part
// does not show whether a helper holds the same value.
const (
	partialMin = 32 << 10
	partBytes  = 2 << 10
	partsMax   = 4096
)

// FetchParts asks for the parts of a key that differ from the sender's, whose parts have
// Sums. Values answers it with one item: the parts that differ, or the whole value if the
// two cannot be compared so.
type FetchParts struct {
	Session uint64
	Ask     uint64
	Key     string
	Gen     uint64
	Kind    crdt.Kind
	Grain   uint8
	Sums    []uint64
}

func (*FetchParts) isMessage() {}

// partialValue returns the value of a key if it must be compared in parts.
func (vs *values) partialValue(key string) (it *item, v partialValue) {
	it = vs.store.itemOf(key)
	if it == nil || it.bytes < vs.cfg.PartialMin {
		return nil, nil
	}
	v, ok := it.value.(partialValue)
	if !ok {
		return nil, nil
	}
	return it, v
}

// partsOf returns into how many parts a value of that size is cut: a power of two.
func partsOf(size int) int { return min(1<<bits.Len(uint(size/partBytes)), partsMax) }

// askParts returns the question for the parts of a key, or nil if it must be fetched
// whole.
func (ss *sessions) askParts(key string) *FetchParts {
	it, v := ss.values.partialValue(key)
	if v == nil {
		return nil
	}
	m := &FetchParts{Session: ss.current.id, Key: key, Gen: it.gen, Kind: it.kind(), Grain: v.Grain()}
	if m.Sums = v.PartSums(partsOf(it.bytes), m.Grain); m.Sums == nil {
		return nil
	}
	return m
}

func (ss *sessions) onFetchParts(p *peer, m *FetchParts) {
	out := &Values{Floor: ss.barrier.floor, Sweep: ss.barrier.sweep, Session: m.Session, Ask: m.Ask, Answered: 1}
	out.Items, _ = ss.values.partsFor(m)
	ss.transfers.sendMessage(p, out)
}

// partsFor answers a question for parts: with the parts that differ and their bitmap, with
// the whole value if the two cannot be compared so, or with nothing if the key does not
// exist.
func (vs *values) partsFor(m *FetchParts) (items []Item, differ []byte) {
	it := vs.store.itemOf(m.Key)
	if it == nil {
		return nil, nil
	}
	if in, differ := partsBeyond(it, m); in != nil {
		vs.stats.PartsSent++
		return []Item{*in}, differ
	}
	vs.stats.ValuesSent++
	return []Item{full(it)}, nil
}

// partsBeyond returns the parts of it that differ from those of m and which ones they
// are, or nil.
func partsBeyond(it *item, m *FetchParts) (in *Item, differ []byte) {
	v, ok := it.value.(partialValue)
	if !ok || it.gen != m.Gen || it.kind() != m.Kind || len(m.Sums) > partsMax {
		return nil, nil
	}
	sums := v.PartSums(len(m.Sums), m.Grain)
	if sums == nil {
		return nil, nil
	}
	want := make([]bool, len(sums))
	for i := range sums {
		want[i] = sums[i] != m.Sums[i]
	}
	return &Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Bytes: v.Part(want, m.Grain).Append(nil)}, bitmapOf(want)
}
