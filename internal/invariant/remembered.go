package invariant

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Remembered checks entities that a replicated set remembers. One whose id a majority has stored
// must run in the end, unless it has ended by itself since or more is lost than a majority covers.
// One whose id a majority has removed must not come back: no later read has its id, and the
// allocation in which it has ended does not start it again. Starts keep to the pace of their node.
//
// Two nodes may write one id: the home of its shard, and a former home whose writes were in flight.
// The writes of a home are certain once it has read those of the other node.
type Remembered struct {
	// Disks is set if nodes keep ids on disks: a node that joins may bring back an id that was removed
	// while its disk was away.
	Disks    bool
	entities map[int]*rememberedEntity
	// facts counts the beginnings and ends of reads and writes, so that they have an order.
	facts int
	// reads are the newest reads of each shard by each node that succeeded, by when they began.
	reads  map[shardReader]int
	starts map[gossip.NodeID][]clock.Instant
}

type shardReader struct {
	node  gossip.NodeID
	shard protocol.ShardID
}

type rememberedEntity struct {
	// life counts its beginnings and its ends by itself.
	life  int
	lives bool
	// end is where and when it has ended by itself.
	end struct {
		protocol.ShardToken
		node gossip.NodeID
		at   int
		read int
	}
	// stored is what a majority has stored in its present life, nil if that is not certain.
	stored *StoredID
	// writes are the newest of each node, and those before it that were not acknowledged.
	writes []*RememberedWrite
}

// RememberedWrite is a write of an id.
type RememberedWrite struct {
	entity int
	reader shardReader
	life   int
	adds   bool
	// begun and acked are when it began and was acknowledged, 0 if it was not; read is when the newest
	// read of its writer had begun then.
	begun, acked, read int
}

// StoredID is an id, or its removal, that a majority has stored: these voters of a view.
type StoredID struct {
	In     *gossip.View
	Voters []gossip.NodeID
	node   gossip.NodeID
	begun  int
	acked  int
}

// IDs are the entities whose ids a read has returned, and the voters that have them.
type IDs struct {
	Entities []int
	In       *gossip.View
	Voters   []gossip.NodeID
}

// NewRemembered returns an empty checker.
func NewRemembered() *Remembered {
	return &Remembered{entities: map[int]*rememberedEntity{}, reads: map[shardReader]int{}, starts: map[gossip.NodeID][]clock.Instant{}}
}

func (k *Remembered) entity(n int) *rememberedEntity {
	e := k.entities[n]
	if e == nil {
		e = &rememberedEntity{}
		k.entities[n] = e
	}
	return e
}

func (k *Remembered) nextFact() int {
	k.facts++
	return k.facts
}

// Began records that an entity runs.
func (k *Remembered) Began(entity int) {
	if e := k.entity(entity); !e.lives {
		e.life++
		e.lives, e.stored = true, nil
	}
}

// Ended records that an entity has ended by itself.
func (k *Remembered) Ended(node gossip.NodeID, st protocol.ShardToken, entity int) {
	e := k.entity(entity)
	e.life++
	e.lives, e.stored = false, nil
	e.end.ShardToken, e.end.node, e.end.at, e.end.read = st, node, k.nextFact(), k.reads[shardReader{node, st.Shard}]
}

// BeginWrite records that a node begins to add an id to those of a shard, or to remove it.
func (k *Remembered) BeginWrite(node gossip.NodeID, shard protocol.ShardID, entity int, adds bool) *RememberedWrite {
	e, r := k.entity(entity), shardReader{node, shard}
	w := &RememberedWrite{entity: entity, reader: r, life: e.life, adds: adds, begun: k.nextFact(), read: k.reads[r]}
	if adds != e.lives {
		e.stored = nil // an old write
	}
	e.writes = append(e.writes, w)
	return w
}

// Acked records that these voters of a view have stored a write. Earlier writes of its writer are stored
// with it.
func (k *Remembered) Acked(w *RememberedWrite, in *gossip.View, voters []gossip.NodeID) {
	e := k.entity(w.entity)
	w.acked = k.nextFact()
	e.writes = slices.DeleteFunc(e.writes, func(o *RememberedWrite) bool { return o.reader == w.reader && o != w })
	opposite := func(o *RememberedWrite) bool {
		return o.reader != w.reader && o.adds != w.adds && (o.acked == 0 || o.acked >= w.read)
	}
	if w.life == e.life && w.adds == e.lives && !slices.ContainsFunc(e.writes, opposite) {
		e.stored = &StoredID{In: in, Voters: voters, node: w.reader.node, begun: w.begun, acked: w.acked}
	}
}

// BeginRead returns the argument for Read.
func (k *Remembered) BeginRead() int { return k.nextFact() }

// Read records that a read of a shard's ids, which began at begun, has returned ids that the voters of
// a view have. Function survives reports whether what a majority has stored is not lost.
func (k *Remembered) Read(at time.Duration, node gossip.NodeID, shard protocol.ShardID, begun int, has IDs, survives func(*StoredID) bool) *Violation {
	r := shardReader{node, shard}
	for _, n := range has.Entities {
		e := k.entity(n)
		w := e.stored
		if !k.Disks && !e.lives && w != nil && w.acked < begun && survives(w) && !e.isAddedBeside(w.node, w.begun, w.begun) {
			return broken("Remembered", at, "%v reads entity %d, which a majority has removed", node, n)
		}
		removed := func(o *RememberedWrite) bool { return !o.adds && (o.acked == 0 || o.acked >= begun) }
		if e.lives && !slices.ContainsFunc(e.writes, removed) {
			e.stored = &StoredID{In: has.In, Voters: has.Voters, node: node, begun: begun, acked: k.nextFact()}
		}
	}
	k.reads[r] = max(k.reads[r], begun)
	return nil
}

// isAddedBeside reports whether a node other than this one may have added the id after an instant, or
// before it and since a read of this node began.
func (e *rememberedEntity) isAddedBeside(node gossip.NodeID, read, since int) bool {
	return slices.ContainsFunc(e.writes, func(o *RememberedWrite) bool {
		return o.reader.node != node && o.adds && (o.acked == 0 || o.acked >= read || o.begun > since)
	})
}

// Recalled records that a node starts an entity without a message, at an instant of its clock. It may
// start so many a second.
func (k *Remembered) Recalled(at time.Duration, node gossip.NodeID, st protocol.ShardToken, entity int, now clock.Instant, perSecond int) *Violation {
	e := k.entity(entity)
	if !k.Disks && !e.lives && e.end.node == node && e.end.ShardToken == st && !e.isAddedBeside(node, e.end.read, e.end.at) {
		return broken("Remembered", at, "%v starts entity %d, which has ended by itself in the same allocation", node, entity)
	}
	all := append(k.starts[node], now)
	k.starts[node] = all
	// The first start after an idle time takes no turn of that time.
	if i := len(all) - perSecond - 2; i >= 0 && now.Sub(all[i]) < time.Second {
		return broken("Remembered", at, "%v starts %d entities within %v, at most %d a second", node, perSecond+2, now.Sub(all[i]), perSecond)
	}
	return nil
}

// MustRun lists the entities that must run, given whether what a majority has stored is not lost.
func (k *Remembered) MustRun(survives func(*StoredID) bool) (all []int) {
	for n, e := range k.entities { // order-free: sorted below
		if e.lives && e.stored != nil && survives(e.stored) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}
