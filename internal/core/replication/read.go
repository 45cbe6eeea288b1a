package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// Reads
//
//	reading:    ask as many members as the level needs for state that differs from ours;
//	            merge it
//	repairing:  freeze the merged values; members that held exactly these are holders;
//	            send the values to the remaining ones; answer when holders, with this
//	            replica, fulfil the level
//
// So a value that a majority read has returned stands at a majority, and no later read
// returns less (the write-back of Attiya, Bar-Noy and Dolev's register). In the usual
// case all answers are equal, nothing but fingerprints travels, and the second phase
// costs nothing.

// reads carries out reads over the table, and answers those of peers.
type reads struct {
	*env
	members   *members
	fences    *fences
	transfers *transfers
	barrier   *barrier
	disk      *disk
	values    *values
	store     *store
	table     *table

	// held are reads of later views.
	held heldReads
}

func (rs *reads) onRead(now clock.Instant, ev Read) {
	rs.stats.Reads++
	if err := rs.table.admitRequest(ev.Level, ev.Fence, len(ev.Keys)); err != nil {
		rs.table.sendReply(ev.ID, nil, err)
		return
	}
	r := &request{id: ev.ID, level: ev.Level, fence: ev.Fence, keys: ev.Keys}
	if ev.Level.Alone() {
		rs.freezeValues(r)
		rs.table.sendReply(r.id, r.values, nil)
		return
	}
	r.disk = rs.disk.keptAmong(len(ev.Keys), func(i int) string { return ev.Keys[i] })
	rs.table.addRequest(now, r, ev.Deadline)
	rs.startReading(now, r)
}

func (rs *reads) startReading(now clock.Instant, r *request) {
	r.phase = reading
	r.exchanges, r.withheld = nil, nil
	r.held = map[gossip.NodeID][]uint64{}
	rs.table.startPhase(now, r)
	rs.askMembers(r, targets(rs.members.quorumsFor(r.level), rs.table.counts(r), rs.members.isLinked))
	rs.table.proceed(now, r)
}

// askMembers sends the request to members.
func (rs *reads) askMembers(r *request, to []gossip.NodeID) {
	if len(to) == 0 {
		return
	}
	var m Message = rs.readRequest(r)
	if r.phase == stamping {
		m = &StampQuery{Epoch: rs.members.epoch, ID: r.id, Round: r.round, Asks: r.asks}
	}
	for _, id := range to {
		p := rs.members.byID[id]
		if p == nil {
			continue
		}
		rs.transfers.sendMessage(p, m)
		if !slices.Contains(r.asked, id) {
			r.asked = append(r.asked, id)
		}
	}
}

func (rs *reads) readRequest(r *request) *ReadRequest {
	m := &ReadRequest{Epoch: rs.members.epoch, ID: r.id, Round: r.round, Fence: r.fence, Keys: r.keys, Prints: make([]uint64, len(r.keys)), Large: rs.values.largeKeys(r.keys)}
	for i, k := range r.keys {
		m.Prints[i] = rs.store.print(k)
	}
	return m
}

func (rs *reads) onReadRequest(p *peer, m *ReadRequest) {
	out := &ReadResult{Epoch: rs.members.epoch, Floor: rs.barrier.floor, Sweep: rs.barrier.sweep, ID: m.ID, Round: m.Round, Lost: rs.members.lost}
	higher, ok := rs.fences.checkTerm(p.id, m.Epoch, m.Fence)
	if !ok && rs.fences.early(m.Fence.Term, rs.members.epoch) {
		rs.held.keepRead(p.id, m)
		return
	}
	if !ok {
		out.Higher = higher
		rs.transfers.sendMessage(p, out)
		return
	}
	out.Prints = make([]uint64, len(m.Keys))
	for i, k := range m.Keys {
		it := rs.store.itemOf(k)
		if it == nil {
			continue
		}
		out.Prints[i] = it.print
		if it.print == m.Prints[i] {
			continue
		}
		if _, v := rs.values.partialValue(k); v != nil && slices.Contains(m.Large, i) {
			out.Withheld = append(out.Withheld, i)
		} else {
			out.Items = append(out.Items, full(it))
			rs.stats.ValuesSent++
		}
	}
	rs.transfers.sendStored(p, out, rs.disk.keptAmong(len(m.Keys), func(i int) string { return m.Keys[i] }))
}

func (rs *reads) onReadResult(now clock.Instant, p *peer, m *ReadResult) {
	took := rs.values.mergeItems(p, m.Items)
	rs.stats.ValuesReceived += uint64(len(m.Items))
	rs.members.inheritLost(m.Lost)
	r := rs.table.open[m.ID]
	if r == nil || r.phase == writing || r.phase == stamping || !slices.Contains(r.asked, p.id) {
		return
	}
	if !r.fence.Zero() && rs.fences.refuseTerm(p.id, r.fence.Group, m.Higher, m.Epoch) {
		return
	}
	if m.Higher > r.fence.Term && !r.fence.Zero() {
		rs.fences.raise(replicator.Fence{Group: r.fence.Group, Term: m.Higher})
		rs.table.finishRequest(r, &replicator.Error{Code: replicator.ErrFenced, Fence: r.fence, Higher: m.Higher})
		return
	}
	if len(m.Prints) != len(r.keys) || !took {
		return
	}
	if r.phase == reading && m.Round != r.round {
		return
	}
	if slices.ContainsFunc(m.Withheld, func(i int) bool { return i >= len(r.keys) }) {
		return
	}
	if r.phase == reading && rs.fetchWithheld(p, r, m) {
		return
	}
	if r.phase == reading {
		r.answers[p.id] = m.Epoch
		r.held[p.id] = m.Prints
		rs.table.proceed(now, r)
		return
	}
	if r.held[p.id] == nil {
		r.held[p.id] = m.Prints
		rs.noteHolder(r, p, m.Epoch)
		rs.table.proceed(now, r)
	}
}

// freezeValues fixes the values that the read returns.
func (rs *reads) freezeValues(r *request) {
	r.prints = make([]uint64, len(r.keys))
	r.values = make([]crdt.Value, len(r.keys))
	for i, k := range r.keys {
		it := rs.store.itemOf(k)
		if it == nil {
			continue
		}
		if r.prints[i] = it.print; it.value != nil && r.isRead() {
			r.values[i] = it.value.Clone()
		}
	}
}

// startRepairing turns the answers into holders and repairs.
func (rs *reads) startRepairing(now clock.Instant, r *request) {
	rs.freezeValues(r)
	r.phase = repairing
	answered := r.answers
	r.answers = map[gossip.NodeID]gossip.Epoch{}
	for _, p := range rs.members.peers {
		if epoch, ok := answered[p.id]; ok {
			rs.noteHolder(r, p, epoch)
		}
	}
	rs.table.proceed(now, r)
}

// repairsFor returns the values that some answering members lack, but for large ones.
func (rs *reads) repairsFor(r *request) []Item {
	var out []Item
	for i, k := range r.keys {
		stale := false
		for _, held := range r.held { // order-free: any of them will do
			stale = stale || held[i] != r.prints[i]
		}
		if _, large := rs.values.partialValue(k); large != nil {
			continue
		}
		if it := rs.store.itemOf(k); stale && it != nil {
			out = append(out, full(it))
		}
	}
	return out
}

// noteHolder notes that a member holds the read's values, or sends them.
func (rs *reads) noteHolder(r *request, p *peer, epoch gossip.Epoch) {
	if slices.Equal(r.held[p.id], r.prints) {
		r.answers[p.id] = epoch
		return
	}
	if len(r.repairs) < len(r.keys) {
		r.repairs = rs.repairsFor(r)
	}
	rs.sendRepair(r, p)
}

func (rs *reads) onRepair(p *peer, m *Repair) {
	if !rs.values.mergeItems(p, m.Items) {
		return
	}
	rs.stats.ValuesReceived += uint64(len(m.Items))
	if !rs.disk.storableAll(m.Items) {
		return
	}
	rs.transfers.sendStored(p, &RepairAck{Epoch: rs.members.epoch, ID: m.ID}, rs.disk.keptItems(m.Items))
}

func (rs *reads) onRepairAck(now clock.Instant, p *peer, m *RepairAck) {
	r := rs.table.open[m.ID]
	if r == nil || r.phase != repairing || r.held[p.id] == nil {
		return
	}
	r.answers[p.id] = m.Epoch
	rs.table.proceed(now, r)
}
