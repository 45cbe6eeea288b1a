package replication

import (
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/replicator"
)

// Claims of dots
//
// The context of a causal value lists the changes of each writer that its sender has
// seen. Replicas accept it: a dot that was claimed is never used again, and a writer that
// meets a claim about itself continues above it. A damaged or hostile frame could so use
// up the numbers of a living writer, and replicas would then ignore its later changes.
//
// So each member announces in its Status the highest sequence number that it has used
// under any key, and shows it in all values that it sends. A replica refuses a claim
// about a member that lies more than claimReserve above the number which that very member
// announced, like an item that cannot be decoded. All replicas accept claims within the
// reserve, their writer too: refusing them there would leave replicas different forever.
// Such a claim costs the writer's changes of the moment, and a 32,768th part of its
// numbers.
//
// Nodes outside the view announce nothing: they may have left, or this replica may not have
// received the view in which they joined. So every claim, also that of a member about itself,
// is bounded by dotsMax, and no replica makes a change near it (LimitError). Until it has
// caught up for the first time, a member accepts claims about itself up to dotsMax: other
// replicas may have accepted them before it joined, and would otherwise ignore its changes.

// dotsMax is the highest sequence number that a replica accepts: half of the highest that
// the wire can carry. Own changes end at ownDotsMax: one change, which uses many numbers,
// stays below dotsMax.
const (
	dotsMax    = 1 << 42
	ownDotsMax = dotsMax - claimReserve
)

// claimReserve bounds how far claims about a member may be ahead of its own announcement:
// 45 minutes without a message from it, at 100,000 changes of one key a second.
const claimReserve = 1 << 28

// claimError means that an item claims changes which a node cannot have made.
type claimError struct {
	writer           gossip.NodeID
	claimed, allowed uint64
}

func (e *claimError) Error() string {
	return fmt.Sprintf("replicator: %d changes of node %v are claimed, which can have made %d at most", e.claimed, e.writer, e.allowed)
}

// values merges the state of other replicas into the store, and notes each change where
// it matters: for the shell, and claims of dots.
type values struct {
	*env
	members *members
	clocks  *clocks
	barrier *barrier
	store   *store
	// dots is the highest sequence number of a change of this node.
	dots uint64
}

// checkClaims refuses a value that came from a peer, nil for the own file, if it claims
// changes that nodes cannot have made. It notes the highest number that the peer shows of
// its own changes.
func (vs *values) checkClaims(from *peer, v crdt.Value) error {
	causal, ok := v.(causalValue)
	if !ok || len(vs.members.peers) == 0 {
		return nil
	}
	for writer, seq := range causal.Claims() {
		id := gossip.NodeID(writer)
		p, allowed := vs.members.byID[id], uint64(dotsMax)
		switch {
		case p == from && from != nil:
			if seq <= allowed {
				p.dots = max(p.dots, seq)
			}
		case p != nil:
			allowed = min(allowed, p.dots+claimReserve)
		case id == vs.cfg.Self && vs.members.caughtUp > 0:
			allowed = min(allowed, vs.dots+claimReserve)
		}
		if seq > allowed || id == vs.cfg.Self && seq > vs.dots {
			vs.stats.FalseClaims++ // only this node can make changes of its own
		}
		if seq > allowed {
			return &claimError{writer: id, claimed: seq, allowed: allowed}
		}
		if id == vs.cfg.Self {
			vs.dots = max(vs.dots, seq)
		}
	}
	return nil
}

// noteOwnDots keeps the highest sequence number that this node has used up to date.
func (vs *values) noteOwnDots(delta crdt.Value) {
	causal, ok := delta.(causalValue)
	if !ok {
		return
	}
	for writer, seq := range causal.Claims() {
		if gossip.NodeID(writer) == vs.cfg.Self {
			vs.dots = max(vs.dots, seq)
		}
	}
}

// checkOwnDots fails if node self has no sequence number left for a change of v.
func checkOwnDots(self gossip.NodeID, v crdt.Value) error {
	causal, ok := v.(causalValue)
	if !ok {
		return nil
	}
	most := uint64(ownDotsMax)
	for writer, seq := range causal.Claims() {
		if gossip.NodeID(writer) == self && seq >= most {
			return &replicator.Error{Code: replicator.ErrLimit, Limit: "Dots", Max: int(most), Got: int(seq)}
		}
	}
	return nil
}

// mergeItems merges items that another replica sent. It returns false if one of them was
// refused: then this replica must not confirm them.
func (vs *values) mergeItems(p *peer, items []Item) (ok bool) {
	return vs.mergeNoting(p, items, func(Refusal) {})
}

// mergeNoting does the work of mergeItems, and calls note with each refusal that the writer of
// an item must receive.
func (vs *values) mergeNoting(p *peer, items []Item, note func(Refusal)) (ok bool) {
	ok = true
	vs.barrier.empty = vs.barrier.empty && len(items) == 0
	for i := range items {
		err := vs.mergeItem(p, &items[i], func(r Refusal) {
			r.Item = i
			note(r)
		})
		if err == nil {
			continue
		}
		ok = false
		e := TraceEvent{Kind: TraceRefused, Peer: p.id, Key: items[i].Key, Bytes: len(items[i].Bytes), Detail: err.Error()}
		if ahead, is := err.(*replicator.Error); is && ahead.Code == replicator.ErrAhead {
			e.Kind = TraceAhead
			vs.stats.Ahead++
			note(Refusal{Why: whyAhead, Item: i, Have: crdt.Stamp{Time: ahead.Stamp.Time >> tickBits << tickBits}, Wall: ahead.Wall})
		} else {
			vs.stats.Refused++
		}
		vs.traceEvent(e)
	}
	return ok
}

// mergeItem merges one item that a peer sent, or one of the own file if from is nil. It
// calls note with refusals that the writer of the item must receive.
func (vs *values) mergeItem(from *peer, in *Item, note func(Refusal)) error {
	if err := vs.checkRoom(in); err != nil {
		return err
	}
	var v crdt.Value
	if in.Kind != 0 {
		var err error
		if v, err = crdt.Decode(in.Kind, in.Bytes); err != nil {
			return err
		}
	}
	if err := vs.checkClaims(from, v); err != nil {
		return err
	}
	if err := malformed(in, v); err != nil {
		return err
	}
	v, ahead := vs.clocks.admitStamps(from, in.Key, v)
	if ahead != nil && emptied(v) {
		return ahead
	}
	it := vs.store.obtain(in.Key)
	if v != nil && (it.gen == in.Gen || joinsAcross(it.gen, in.Gen)) {
		staleIn(it, v, in.Era, note)
	}
	gen, era := it.gen, it.era
	if vs.store.absorb(it, in.Gen, in.Era, v) {
		vs.reportChange(it)
	}
	if assert.Enabled {
		it.assertAbove(gen, era)
	}
	if ahead != nil {
		return ahead
	}
	return nil
}

// checkRoom checks an item of another replica against twice the limits.
func (vs *values) checkRoom(in *Item) error {
	l := &vs.cfg.Limits
	it := vs.store.itemOf(in.Key)
	switch {
	case len(in.Key) > l.KeyBytes*2:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "KeyBytes", Max: 2 * l.KeyBytes, Got: len(in.Key)}
	case it == nil && vs.store.keys >= 2*l.Keys:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "Keys", Max: 2 * l.Keys, Got: vs.store.keys}
	case len(in.Bytes) > 2*l.ValueBytes || it != nil && it.bytes > 2*l.ValueBytes:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "ValueBytes", Max: 2 * l.ValueBytes, Got: len(in.Bytes)}
	case vs.store.bytes+len(in.Bytes) > 2*l.TotalBytes:
		return &replicator.Error{Code: replicator.ErrLimit, Limit: "TotalBytes", Max: 2 * l.TotalBytes, Got: vs.store.bytes}
	}
	return nil
}

// reportChange reports a key as changed, once per step.
func (vs *values) reportChange(it *item) {
	if vs.out == nil {
		return // in Restore: no caller has seen an earlier state
	}
	it.changedAt = vs.now
	if it.marked != vs.steps {
		it.marked = vs.steps
		vs.out.Changed = append(vs.out.Changed, it.key)
	}
}

// removeItem removes an item as if its key had never existed.
func (vs *values) removeItem(it *item) {
	if it.value != nil {
		vs.reportChange(it)
	}
	vs.store.removeItem(it)
}

// full returns the whole state of a key for the wire.
func full(it *item) Item {
	out := Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind()}
	if it.value != nil {
		out.Bytes = it.value.Append(make([]byte, 0, it.bytes))
	}
	return out
}
