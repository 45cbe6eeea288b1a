package standby

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// owner is the part of a shard's home. It goes through collect.go and layout.go, and
// then serves: peer.go sends the changes.
type owner struct {
	c     *Core
	shard protocol.ShardID
	token protocol.Token

	// asks are the collection's questions; nil when it is over.
	asks map[gossip.NodeID]*ask
	// graceAt is when a collection that has enough may end.
	graceAt clock.Instant
	seen    Layout
	short   bool
	ready   bool
	// touched is set while a batch of changes is noted.
	touched bool

	entries map[string]*entry
	// layout is active, next is on its way there: either may be zero.
	layout, next Layout
	seq          uint64
	announcing   bool
	peers        map[gossip.NodeID]*peer
	notices      map[gossip.NodeID]*notice
	// streams counts the peers.
	streams uint64
}

// entry is one entity's newest state.
type entry struct {
	Copy
	// kept is the newest version reported to the shell.
	kept uint64
}

func newOwner(c *Core, s protocol.ShardID, t protocol.Token) *owner {
	return &owner{
		c: c, shard: s, token: t, asks: map[gossip.NodeID]*ask{}, entries: map[string]*entry{},
		peers: map[gossip.NodeID]*peer{}, notices: map[gossip.NodeID]*notice{},
	}
}

func (o *owner) change(ev *Change) {
	e := o.entries[ev.ID]
	if e == nil {
		e = &entry{Copy: Copy{ID: ev.ID}}
		o.entries[ev.ID] = e
	}
	tag := Tag{Token: o.token, Version: ev.Version}
	if !e.Tag.Less(tag) {
		return
	}
	e.Tag, e.State = tag, ev.State
	if o.layout.IsZero() && o.next.IsZero() {
		o.propose()
	}
	for _, id := range o.holders() {
		o.peers[id].mark(ev.ID)
	}
}

func (o *owner) pushAll() {
	for _, id := range o.holders() {
		o.pushNext(id, o.peers[id])
	}
}

// holders returns the nodes that receive changes: those of both layouts.
func (o *owner) holders() []gossip.NodeID {
	all := union(o.layout.Members, o.next.Members)
	return slices.DeleteFunc(all, func(id gossip.NodeID) bool { return !o.c.present(id) })
}

// keepMaybe informs the shell when enough holders have an entity's newest state, or
// the newest version that the shell waits for.
func (o *owner) keepMaybe(e *entry) {
	if o.layout.IsZero() || e.Tag.Token != o.token {
		return
	}
	v := o.keptBy(o.layout.Members, e)
	if !o.next.IsZero() {
		v = min(v, o.keptBy(o.next.Members, e))
	}
	if v > e.kept {
		if assert.Enabled {
			o.assertKept(e, v)
		}
		e.kept = v
		o.c.do(Kept{Shard: o.shard, Token: o.token, ID: e.ID, Version: v})
	}
}

// assertKept asserts that a quorum of both layouts has a version before a reply may show it.
func (o *owner) assertKept(e *entry, version uint64) {
	if version > o.keptBy(o.layout.Members, e) || !o.next.IsZero() && version > o.keptBy(o.next.Members, e) {
		assert.Broken("Replicated state", "version %d of %q in shard %d is not kept by quorums of %v and %v", version, e.ID, o.shard, o.layout.Members, o.next.Members)
	}
}

// keptBy returns the version of this token that a quorum of a set has.
func (o *owner) keptBy(set []gossip.NodeID, e *entry) uint64 {
	var have []uint64
	for _, id := range set {
		v := uint64(0)
		if p := o.peers[id]; p != nil && p.acked[e.ID].Token == o.token {
			v = p.acked[e.ID].Version
		}
		have = append(have, v)
	}
	slices.Sort(have)
	n := quorum(len(set))
	return have[len(have)-n]
}

func (o *owner) viewChanged() {
	if o.asks != nil {
		o.collect()
		return
	}
	if o.layout.IsZero() && o.next.IsZero() {
		return
	}
	newest := &o.layout
	if !o.next.IsZero() {
		newest = &o.next
	}
	if !slices.Equal(o.chooseHolders(), newest.Members) {
		o.propose()
		return
	}
	o.forward()
}

func (o *owner) chooseHolders() []gossip.NodeID {
	return Choose(o.c.view, o.c.cfg.Role, o.c.cfg.Type, o.shard, o.c.cfg.Self, o.c.cfg.Replicas)
}

func (o *owner) stepOwner() {
	if o.asks != nil {
		o.reask()
		return
	}
	for _, id := range o.holders() {
		if p := o.peers[id]; p != nil {
			o.repush(id, p)
		}
	}
	o.announceAgain()
}
