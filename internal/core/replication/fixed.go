package replication

import (
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
)

// Stamps of the caller's
//
// A write under a stamp of its caller's wins or loses by that stamp. If a newer one stands
// here, nothing is changed and the update fails with StaleError. If one stands at a replica
// that the write reaches, the acknowledgement says so, and the update fails too: the value
// stands here until the newer one comes. A majority write meets every value that was
// acknowledged at a majority before, so a nil error there means that it won over all of them.

// standing returns the stamp and the value of an entry of v, and whether it is deleted.
func standing(v crdt.Value, entry string) (s crdt.Stamp, val string, deleted bool) {
	switch v := v.(type) {
	case *crdt.LWWRegister[string]:
		val, _ = v.Value()
		return v.Stamp(), val, false
	case *entryMap:
		s, _ = v.Stamp(entry)
		val, live := v.Get(entry)
		return s, val, !live
	}
	return s, "", false
}

// checkFixed fails if a write under a stamp of its caller's must not be made, or loses.
func (c *Core) checkFixed(op *plannedOp, p *replicator.Plan, it *item) error {
	raw := rawStampTime(op, p, it)
	if len(p.Fixed) == 0 && raw == 0 {
		return nil
	}
	wall := c.judgingWall()
	if wall > 0 {
		wall = min(wall, lowerMedian(c.readings()))
	}
	check := func(t uint64) error {
		switch {
		case t >= timeMax:
			return fmt.Errorf("%w: key %q: time %d is malformed", replicator.ErrAhead, op.Key, t)
		case tooFar(t, wall):
			return &replicator.AheadError{Key: op.Key, Stamp: t >> tickBits, Wall: wall, Node: c.cfg.Self}
		}
		return nil
	}
	if err := check(raw); err != nil {
		return err
	}
	for i := range p.Fixed {
		f := &p.Fixed[i]
		if err := check(f.Stamp.Time); err != nil {
			return err
		}
		if f.Yield || it == nil || it.value == nil {
			continue
		}
		have, val, deleted := standing(it.value, f.Entry)
		if order := f.Stamp.Compare(have); order < 0 || order == 0 && (val != f.Value || deleted != f.Delete) {
			return &replicator.StaleError{Key: op.Key, Entry: f.Entry, Have: have, Node: c.cfg.Self}
		}
	}
	return nil
}

// rawStampTime tries a change that stamps entries without declaring them in Fixed, on a copy,
// and returns its newest time; 0 for all other changes.
func rawStampTime(op *plannedOp, p *replicator.Plan, it *item) uint64 {
	if p.Apply == nil || p.Stamped != nil || len(p.Fixed) > 0 {
		return 0
	}
	// The kind has been tried by decide.
	v, _ := crdt.New(op.Kind)
	if _, stamped := v.(crdt.Stamped); !stamped {
		return 0
	}
	if it != nil && it.value != nil {
		v = it.value.Clone()
	}
	d := p.Apply(v)
	if isNil(d) {
		return 0
	}
	t, _ := newestStamp(d)
	return t
}

// staleIn notes the entries of v, of some era, that are older than those which stand in it.
func staleIn(it *item, v crdt.Value, era uint8, note func(Refusal)) {
	if it == nil || it.value == nil || it.value.Kind() != v.Kind() || era > it.era {
		return
	}
	look := func(entry string) {
		mine, _, _ := standing(v, entry)
		have, _, _ := standing(it.value, entry)
		if have = lower(have, it.era-era); mine.Compare(have) < 0 {
			note(Refusal{Why: whyStale, Entry: entry, Have: have})
		}
	}
	switch v := v.(type) {
	case *crdt.LWWRegister[string]:
		look("")
	case *entryMap:
		if v.Len()+v.Tombstones() > staleMax {
			return // an update of so many entries has to read back what stands
		}
		for k := range v.All() { // order-free: each entry by itself
			look(k)
		}
		for k := range v.Deleted() { // order-free: each entry by itself
			look(k)
		}
	}
}

// staleMax bounds the entries of a change that are compared one by one.
const staleMax = 4096

// lost returns the error of a request one of whose writes lost, nil if none has.
func (r *request) lost(ref *Refusal, at view.NodeID) error {
	if r.entry == nil || ref.Item >= len(r.entry.Items) {
		return nil
	}
	key := r.entry.Items[ref.Item].Key
	for _, f := range r.fixed[key] {
		if f.Entry == ref.Entry && !f.Yield && f.Stamp.Compare(ref.Have) < 0 {
			return &replicator.StaleError{Key: key, Entry: f.Entry, Have: ref.Have, Node: at}
		}
	}
	return nil
}

// refusedAhead notes that a replica has refused entries of a request, and ends it if nobody
// is left who might take them.
func (c *Core) refusedAhead(r *request, ref *Refusal, at view.NodeID) {
	if r.entry == nil || ref.Item >= len(r.entry.Items) {
		return
	}
	if r.refused == nil {
		r.refused = map[view.NodeID]bool{}
	}
	r.refused[at] = true
	r.ahead = &replicator.AheadError{Key: r.entry.Items[ref.Item].Key, Stamp: ref.Have.Time >> tickBits, Wall: ref.Wall, Node: at, Elsewhere: true}
	for _, id := range c.unanswered(r) {
		if !r.refused[id] {
			return
		}
	}
	c.finish(r, r.ahead)
}
