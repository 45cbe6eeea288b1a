package core

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// RequestID names a request between the core and its shell. Zero is not valid.
type RequestID uint64

// Event is what happens to a Core. Its implementations are the structs below.
type Event interface{ event() }

// Tick says that time has passed: the shell sends it at Core.Deadline or later.
type Tick struct{}

// Update changes the keys of Ops, all or none, here at once and then at as many
// replicas as Level asks for. It is answered by one Reply.
type Update struct {
	ID    RequestID
	Ops   []Op
	Level Level
	// Deadline is when an unfulfilled level is given up: the outcome is then
	// unknown. Zero means Config.Timeout from now.
	Deadline clock.Instant
	// Fence makes replicas that know a higher term of the group refuse.
	Fence Fence
}

// Read asks for the values of Keys as of Level. It is answered by one Reply whose
// Values stand in the order of Keys, nil for a key that does not exist.
type Read struct {
	ID       RequestID
	Keys     []string
	Level    Level
	Deadline clock.Instant
	// Fence raises the group's term at every replica that answers.
	Fence Fence
}

// Cancel forgets a request: no Reply comes for it. What it has written stays.
type Cancel struct{ ID RequestID }

// Received is a message from a peer. Msg is not changed.
type Received struct {
	From view.NodeID
	Msg  Message
}

// ViewChanged hands over a newer view. Older ones are ignored.
type ViewChanged struct{ View *view.View }

// PeerLost says that the connection to a peer broke: requests stop waiting for
// it first and ask others at once.
type PeerLost struct{ ID view.NodeID }

// PeerUp says that a peer's connection stands.
type PeerUp struct{ ID view.NodeID }

// LeaseRegained says that Config.LeaseValid is true again: requests that waited for it
// alone end at once.
type LeaseRegained struct{}

func (Tick) event()          {}
func (Update) event()        {}
func (Read) event()          {}
func (Cancel) event()        {}
func (Received) event()      {}
func (ViewChanged) event()   {}
func (PeerLost) event()      {}
func (PeerUp) event()        {}
func (LeaseRegained) event() {}

// Op is a change of one key.
type Op struct {
	Key string
	// Kind is the data type that the key has, or gets.
	Kind crdt.Kind
	// Plan decides what to do, looking at the key's value, which it must neither
	// change nor keep; a key that does not exist shows as an empty value of Kind.
	// All ops of a request are planned before the first is applied, so an error
	// leaves everything as it was. A nil Apply in the plan means no change.
	Plan func(current crdt.Value) (Plan, error)
	// Base is the snapshot of the key on which Plan has been decided outside the core; nil
	// if Plan decides within the step. The core releases it.
	Base *Snapshot
	// Delete ends the key instead: its value is gone, whatever concurrent updates
	// of it do, and the key may be created again. Kind and Plan are ignored.
	Delete bool
}

// Plan is a change that has been decided and cannot fail.
type Plan struct {
	// Growth is about how many bytes the value may grow by: what the limits are
	// checked against. A change that removes has 0 and always passes.
	Growth int
	// Blind says that the change does not depend on the value on which it was decided.
	Blind bool
	// Apply changes value in place and returns the delta, which it must not touch
	// again; nil means that nothing changed.
	Apply func(value crdt.Value) (delta crdt.Value)
	// Entries of a last-write-wins value which the change stamps; "" is that of a
	// register. Above level Local other replicas are asked for their stamps before the
	// change is made (stamping.go).
	Entries []string
	// Stamped is Apply for a change with Entries. above[i] is the newest Time of
	// Entries[i] that is known: the change wins if its stamp is above. Wall is the clock to
	// stamp by, in milliseconds of Unix time; 0 means the caller's own (clocks.go).
	Stamped func(value crdt.Value, above []uint64, wall uint64) (delta crdt.Value)
	// Fixed are the writes under stamps of the caller's that Apply makes. If a change of a
	// last-write-wins value declares none, Apply first runs on a copy, to check its stamps.
	Fixed []Fixed
}

// Mutate returns an Op that needs no decision.
func Mutate(key string, kind crdt.Kind, growth int, apply func(crdt.Value) crdt.Value) Op {
	return Op{Key: key, Kind: kind, Plan: func(crdt.Value) (Plan, error) {
		return Plan{Growth: growth, Blind: true, Apply: apply}, nil
	}}
}

// Fence bars writers that have been replaced. The zero Fence is none.
type Fence struct {
	// Group names what the term counts, for example a coordinator.
	Group string
	// Term grows with every holder of the office. It is an epoch of a view, or below: one
	// whose generation (Term>>32) is more than view.GenerationsAhead above that of a
	// replica's view is refused there, and a request with it fails with a *LimitError.
	Term uint64
}

// Zero reports whether there is no fence.
func (f Fence) Zero() bool { return f.Group == "" && f.Term == 0 }

// Effects is what a step asks the shell to do. The shell empties it between
// steps. Reply is carried out after Send, though nothing depends on it: a reply
// is only ever given for what other replicas have already confirmed.
type Effects struct {
	Send  []Send
	Reply []Reply
	// Changed names the keys whose value changed, without repetitions per step.
	Changed []string
	// Forgotten names durable keys of which a deletion is remembered no more: their own, or
	// those of entries.
	Forgotten []string
	// SetAside: what a file had brought was taken out, see retain.go. The file must be
	// put aside, and written anew.
	SetAside bool
	Trace    []TraceEvent
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Send)
	clear(e.Reply)
	*e = Effects{Send: e.Send[:0], Reply: e.Reply[:0], Changed: e.Changed[:0], Forgotten: e.Forgotten[:0], Trace: e.Trace[:0]}
}

// Send is a message to a peer. Delivery is not promised. Sends that share one
// message share the pointer, so a shell may encode it once.
type Send struct {
	To view.NodeID
	// Bulk messages go on the connection for transfers, others on the control one.
	Bulk bool
	Msg  Message
	// Disk: it says that durable keys are stored here. It must wait until they are.
	Disk bool
}

// Reply answers a request.
type Reply struct {
	ID RequestID
	// Err is nil, or one of the errors of this package.
	Err error
	// Values of a Read are copies that belong to the receiver.
	Values []crdt.Value
	// Disk: it counts this replica for durable keys, and must wait until they are stored.
	Disk bool
}
