package mover

import (
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/chunks"
)

// missesMax is how many deadlines in a row may pass before a transfer begins again: the new home
// may have dropped what it had acknowledged, and taken a late copy of the first chunk.
const missesMax = 4

// departures are the transfers that this node sends.
type departures struct {
	cfg     Config
	byAlloc map[Allocation]*Departure
	// held takes the states of transfers that have ended.
	held *arrivals
	summer
}

// Begin begins to send the states of a stopped shard to its new home. It replaces an earlier
// transfer of the allocation. states belongs to the transfer until the Departure has ended, at the
// latest after Order.Within.
func (ds *departures) Begin(now clock.Instant, a Allocation, o Order, states map[string][]byte) *Departure {
	if d := ds.byAlloc[a]; d != nil {
		d.Cancel()
	}
	d := newDeparture(ds, now, a, o, states)
	ds.byAlloc[a] = d
	return d
}

// OnAck handles an acknowledgement and returns the transfer that it advances, nil if there is
// none.
func (ds *departures) OnAck(now clock.Instant, from gossip.NodeID, ack Ack) *Departure {
	d := ds.byAlloc[ack.Allocation]
	if d == nil || d.order.To != from {
		return nil
	}
	switch {
	case ack.Complete:
		d.finishTransfer(true)
	case ack.Attempt != d.attempt:
		return nil
	case ack.Restart:
		d.beginAgain(now)
	default:
		d.sender.OnAck(now, ack.Next)
	}
	return d
}

// Departure is a transfer on the side of the old home.
type Departure struct {
	all    *departures
	alloc  Allocation
	order  Order
	states map[string][]byte
	// sorted has the states by id; those before cut are in chunks that were added.
	sorted []State
	cut    int
	// total is the cost of all states at the beginning, sum that of those before cut.
	total  int
	sum    chunks.Sum
	sender chunks.Sender[span]
	// attempt counts how often the transfer has begun again.
	attempt uint64
	// added is set once the final chunk was added.
	added      bool
	chunkBytes int
	until      clock.Instant
	// checkAt is when a transfer to a node that is no member ends: its view may be newer.
	checkAt clock.Instant

	ended, arrived, held bool
}

// span is a chunk in flight: the states of sorted from from on.
type span struct {
	states []State
	from   int
	last   bool
	// before is the sum before the chunk, sum that after it.
	before, sum chunks.Sum
}

func newDeparture(ds *departures, now clock.Instant, a Allocation, o Order, states map[string][]byte) *Departure {
	d := &Departure{
		all: ds, alloc: a, order: o, states: states, sorted: make([]State, 0, len(states)), chunkBytes: ds.cfg.ChunkBytes,
		until: now.Add(o.Within), checkAt: now.Add(ds.cfg.Resend),
	}
	for id, data := range states { // order-free: sorted below
		d.total += costOf(id, data)
		d.sorted = append(d.sorted, State{id, data})
	}
	slices.SortFunc(d.sorted, func(a, b State) int { return strings.Compare(a.ID, b.ID) })
	wait := func(misses int) time.Duration { return chunks.Backoff(ds.cfg.Resend, misses) }
	d.sender = chunks.NewSender[span](chunks.Config{Window: ds.cfg.Window, Wait: wait})
	return d
}

// Next returns the next chunk to send. ok is false if nothing may be sent before an
// acknowledgement or the Deadline, or if the transfer has ended. isMember reports whether the
// new home is in the view.
func (d *Departure) Next(now clock.Instant, isMember bool) (c Chunk, ok bool) {
	d.checkDeadlines(now, isMember)
	if d.ended {
		return Chunk{}, false
	}
	number, sp, ok := d.sender.Next(now)
	if !ok {
		if d.added || !d.sender.HasRoom() {
			return Chunk{}, false
		}
		d.addChunk()
		number, sp, _ = d.sender.Next(now)
	}
	head := chunks.Head{Number: number, Total: uint64(d.total), Last: sp.last, Sum: sp.sum}
	return Chunk{Allocation: d.alloc, Term: d.order.Term, Attempt: d.attempt, Head: head, States: sp.states}, true
}

func (d *Departure) checkDeadlines(now clock.Instant, isMember bool) {
	if !now.Before(d.checkAt) {
		if d.checkAt = now.Add(d.all.cfg.Resend); !isMember {
			d.Cancel()
		}
	}
	if !now.Before(d.until) {
		d.Cancel()
	}
	if d.sender.Expire(now) && d.sender.Misses() > missesMax {
		d.beginAgain(now)
	}
}

// addChunk adds the next states, as many as a chunk takes.
func (d *Departure) addChunk() {
	sp, size := span{from: d.cut, before: d.sum}, 0
	for ; d.cut < len(d.sorted); d.cut++ {
		st := &d.sorted[d.cut]
		if size += costOf(st.ID, st.Data); size > d.chunkBytes && d.cut > sp.from {
			break
		}
	}
	sp.states, sp.last = d.sorted[sp.from:d.cut:d.cut], d.cut == len(d.sorted)
	d.sum = d.all.sumStates(d.sum, sp.states)
	sp.sum, d.added = d.sum, sp.last
	d.sender.Add(sp)
}

// TakeBack returns the chunk of the last Next to the transfer. It is called when the
// connection has no room for the chunk.
func (d *Departure) TakeBack() { d.sender.TakeBack() }

// OnTooLarge handles that no connection takes the chunk of the last Next: its states are sent in
// smaller chunks. If it has only one state, OnTooLarge removes that from the transfer, and
// returns it.
func (d *Departure) OnTooLarge() (removed State, ok bool) {
	sp := d.sender.RemoveNewest()
	d.cut, d.sum, d.added = sp.from, sp.before, false
	switch {
	case len(sp.states) == 0:
		d.Cancel()
		return State{}, false
	case len(sp.states) > 1:
		d.chunkBytes = sizeOf(sp.states) / 2
		return State{}, false
	}
	removed = sp.states[0]
	delete(d.states, removed.ID)
	d.sorted = slices.Delete(d.sorted, sp.from, sp.from+1)
	if len(d.states) == 0 {
		d.finishTransfer(true)
	}
	return removed, true
}

func (d *Departure) beginAgain(now clock.Instant) {
	if d.sender.Restart(now) {
		d.cut, d.sum, d.added = 0, 0, false
		d.attempt++
	}
}

// Cancel ends the transfer without its acknowledgement.
func (d *Departure) Cancel() { d.finishTransfer(false) }

// finishTransfer ends the transfer, and holds the states here, too: a new coordinator may find the handoff half done, or give the
// shard another home.
func (d *Departure) finishTransfer(arrived bool) {
	if d.ended {
		return
	}
	d.ended, d.arrived = true, arrived
	if d.all.byAlloc[d.alloc] == d {
		delete(d.all.byAlloc, d.alloc)
	}
	d.held = len(d.states) > 0 && d.all.held.Hold(d.alloc, d.states, arrived)
}

// Deadline returns when Next must be called again without an acknowledgement.
func (d *Departure) Deadline() clock.Instant {
	return clock.Min(clock.Min(d.until, d.checkAt), d.sender.Deadline())
}

// Result is how a transfer has ended.
type Result struct {
	// Arrived: the new home has all states that could travel.
	Arrived bool
	// Held: the old home holds them, too. If it is not set, it had no room.
	Held bool
	// States are those of the transfer.
	States map[string][]byte
}

// Result returns how the transfer has ended. ok is false if it has not.
func (d *Departure) Result() (res Result, ok bool) {
	return Result{Arrived: d.arrived, Held: d.held, States: d.states}, d.ended
}
