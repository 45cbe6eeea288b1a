package standby

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// ask is a question for one node's copies.
type ask struct {
	after string
	done  bool
	has   map[string]Tag
	resend
}

// collect asks the members that have not been asked yet.
func (o *owner) collect() {
	for _, id := range union(o.c.members(), []gossip.NodeID{o.c.cfg.Self}) {
		if o.asks[id] == nil {
			a := &ask{has: map[string]Tag{}}
			o.asks[id] = a
			o.question(id, a, false)
		}
	}
	o.collected()
}

func (o *owner) question(id gossip.NodeID, a *ask, again bool) {
	a.noteSent(o.c, again)
	o.c.sendMessage(id, Collect{Shard: o.shard, Token: o.token, After: a.after})
}

func (o *owner) reask() {
	for _, id := range slices.Sorted(maps.Keys(o.asks)) {
		if a := o.asks[id]; !a.done && o.c.present(id) && a.due(o.c) {
			o.question(id, a, true)
		}
	}
	o.collected()
}

func (o *owner) held(from gossip.NodeID, m Held) {
	a := o.asks[from]
	if a == nil || a.done || m.After != a.after || m.More && len(m.Copies) == 0 {
		return
	}
	if m.Layout.newer(&o.seen) {
		o.seen = m.Layout
	}
	for _, cp := range m.Copies {
		a.has[cp.ID] = cp.Tag
		a.after = max(a.after, cp.ID)
		e := o.entries[cp.ID]
		if e == nil || e.Tag.Less(cp.Tag) {
			o.entries[cp.ID] = &entry{Copy: cp}
		}
	}
	if m.More {
		o.question(from, a, false)
		return
	}
	a.done = true
	o.collected()
}

// collected ends the collection when no answer is outstanding, or when enough have
// arrived and the grace period for the rest is over.
func (o *owner) collected() {
	answered := func(id gossip.NodeID) bool { return o.asks[id] != nil && o.asks[id].done }
	all := true
	for id, a := range o.asks { // order-free: all of them
		all = all && (a.done || !o.c.present(id))
	}
	if o.c.view == nil || !answered(o.c.cfg.Self) {
		return
	}
	if !all {
		if !o.satisfied(answered) || o.seen.IsZero() {
			o.graceAt = 0
			return
		}
		if o.graceAt == 0 {
			o.graceAt = o.c.now.Add(o.c.cfg.Grace)
		}
		if o.c.now.Before(o.graceAt) {
			o.c.wake(o.graceAt)
			return
		}
	}
	o.short = !o.satisfied(answered)
	o.useCollected()
}

// satisfied reports whether enough nodes have answered, of each set on which an
// acknowledgement may rest.
func (o *owner) satisfied(answered func(gossip.NodeID) bool) bool {
	if len(o.seen.Before) > beforeMax {
		return false
	}
	for _, set := range o.seen.sets() {
		if countNodes(set, answered) < answersNeeded(o.c.cfg.Mode, len(set)) {
			return false
		}
	}
	return true
}

// useCollected continues with the collected copies. A node that answered holds the copies it sent.
func (o *owner) useCollected() {
	asks := o.asks
	o.asks = nil
	for id, a := range asks { // order-free: each by itself
		if a.done {
			o.peers[id] = o.newPeer(a.has)
		}
	}
	if o.seen.IsZero() && len(o.entries) == 0 {
		o.peers = map[gossip.NodeID]*peer{}
		o.letRun()
		return
	}
	o.propose()
}

// letRun lets the shard run.
func (o *owner) letRun() {
	if o.ready {
		return
	}
	o.ready = true
	copies := map[string]Copy{}
	for id, e := range o.entries { // order-free: into a map
		copies[id] = e.Copy
	}
	o.c.do(Ready{Shard: o.shard, Token: o.token, Copies: copies, Short: o.short})
}
