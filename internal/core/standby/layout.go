package standby

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// notice is the newest layout that one node has confirmed.
type notice struct {
	// seq and active are those of the newest layout that it has confirmed.
	seq    uint64
	active bool
	out    bool
	resend
}

// confirms reports whether the node has confirmed l, or a layout after it.
func (n *notice) confirms(l *Layout) bool {
	return n != nil && (n.seq > l.Seq || n.seq == l.Seq && (n.active || !l.Active))
}

// propose begins the change to a layout of the present view.
func (o *owner) propose() {
	o.seq++
	o.next = Layout{Token: o.token, Seq: o.seq, Members: o.chooseHolders()}
	if o.layout.IsZero() {
		// Cut, it is still too long for satisfied.
		sets := o.seen.sets()
		o.next.Before = sets[:min(len(sets), beforeMax+1)]
	} else {
		o.next.Before = [][]gossip.NodeID{o.layout.Members}
	}
	o.announcing = false
	for _, id := range o.next.Members {
		p := o.peers[id]
		if p == nil {
			p = o.newPeer(map[string]Tag{})
			o.peers[id] = p
		}
		p.queueMissing(o)
	}
	o.pushAll()
	o.forward()
}

// forward takes the next layout as far as it can go: filled, announced, active.
func (o *owner) forward() {
	if o.next.IsZero() {
		o.announceLayout()
		return
	}
	if !o.announcing {
		full := countNodes(o.next.Members, func(id gossip.NodeID) bool { return len(o.peers[id].missing) == 0 })
		if full < quorum(len(o.next.Members)) {
			return
		}
		o.announcing = true
	}
	o.announceLayout()
	if o.layoutVerified() {
		o.activate()
	}
}

// layoutVerified reports whether no node that may answer a later collection still holds
// the former layout for the active one.
func (o *owner) layoutVerified() bool {
	confirmed := func(id gossip.NodeID) bool { return o.notices[id].confirms(&o.next) }
	if countNodes(o.next.Members, confirmed) < quorum(len(o.next.Members)) {
		return false
	}
	for _, id := range union(o.next.Before...) {
		if o.c.present(id) && !confirmed(id) {
			return false
		}
	}
	return true
}

func (o *owner) activate() {
	o.layout, o.next = o.next, Layout{}
	o.layout.Active, o.layout.Before = true, nil
	o.announcing = false
	for id := range o.peers { // order-free: deletes
		if !slices.Contains(o.layout.Members, id) {
			delete(o.peers, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.entries)) {
		o.keepMaybe(o.entries[id])
	}
	o.letRun()
	o.announceLayout()
}

// newest returns the layout to announce.
func (o *owner) newest() *Layout {
	if o.announcing {
		return &o.next
	}
	return &o.layout
}

// announceLayout announces the newest layout to every member that has not confirmed it.
func (o *owner) announceLayout() {
	l := o.newest()
	if l.IsZero() {
		return
	}
	for _, id := range union(o.c.members(), l.Members) {
		n := o.notices[id]
		if n == nil {
			n = &notice{}
			o.notices[id] = n
		}
		n.out = !n.confirms(l)
		if n.out {
			n.noteSent(o.c, false)
			o.c.sendMessage(id, Announce{Shard: o.shard, Token: o.token, Layout: *l})
		}
	}
}

func (o *owner) announceAgain() {
	l := o.newest()
	for _, id := range slices.Sorted(maps.Keys(o.notices)) {
		n := o.notices[id]
		if !o.c.present(id) {
			delete(o.notices, id)
			continue
		}
		if !l.IsZero() && n.out && n.due(o.c) {
			n.noteSent(o.c, true)
			o.c.sendMessage(id, Announce{Shard: o.shard, Token: o.token, Layout: *l})
		}
	}
	if o.announcing && o.layoutVerified() {
		o.activate()
	}
}

func (o *owner) announced(from gossip.NodeID, m Announced) {
	n := o.notices[from]
	if n == nil || m.Seq < n.seq {
		return
	}
	n.active = m.Active || n.active && m.Seq == n.seq
	n.seq = m.Seq
	l := o.newest()
	n.out = n.out && !n.confirms(l)
	if o.announcing && o.layoutVerified() {
		o.activate()
	}
}
