// Package record keeps what a run did in a form that can be drawn: bars that last, marks at one
// moment, messages between hosts, and the handlers that ran. A run is recorded only when that is
// asked for. Recording draws no random number and traces no event, so the hash of a run is the
// same with it.
package record

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// BarKind is what lasts in a Bar.
type BarKind uint8

const (
	// Life is that of a process. Its name is the process's label.
	Life BarKind = iota
	// Lease is one of a member, LeaderLease one of a leader.
	Lease
	LeaderLease
	// View is the time in which a process holds a view.
	View
	// Shard is the life of the entities of one shard at one process.
	Shard
	// Pause and Slow are faults of a process.
	Pause
	Slow
	// Cut is a path from the bar's host to Peer on which nothing passes.
	Cut
)

// Bar is something that lasts, at one host.
type Bar struct {
	Kind     BarKind
	Host     int
	From, To time.Duration
	// Name is short enough to stand in the bar, Text describes it. Group is equal for bars
	// that belong together: one view on all hosts, one shard on all its homes.
	Name, Text, Group string
	// Peer is the other host of a Cut.
	Peer int
	// End is how the bar ended, "" if it lasted until the recording ended.
	End string
}

// Class is the kind of a message.
type Class uint8

const (
	// Heartbeat is a ping or pong of the view protocol, Membership another message of it.
	Heartbeat Class = iota
	Membership
	// Order travels between coordinators and regions.
	Order
	// Replication travels between replicators.
	Replication
	// Entity carries a message to an entity, or the answer to an ask.
	Entity
	// Flow belongs to flow control and to the order of messages on a route.
	Flow
	// State carries states of entities to their next home.
	State
	// Classes is the number of classes.
	Classes
)

// Message is one message between two hosts.
type Message struct {
	Class    Class
	From, To int
	Sent     time.Duration
	// Handled is when the receiver took the message, negative if it never did.
	Handled time.Duration
	Text    string
}

// Weight is how much a mark matters.
type Weight uint8

const (
	// Step is a step of a protocol, Main an event that changes what the cluster does, Fault
	// something that was broken on purpose, and Failure a check that failed.
	Step Weight = iota
	Main
	Fault
	Failure
)

// Mark is an event at one moment.
type Mark struct {
	// Host is negative for an event of the whole run.
	Host   int
	At     time.Duration
	Weight Weight
	// Kind is the kind of event, Text a sentence about it.
	Kind, Text string
}

// Handler is the moment in which a handler of an entity began.
type Handler struct {
	Host int
	At   time.Duration
	// Bar is the index of the bar of the shard.
	Bar    int
	Entity int
	// Text names the message.
	Text string
}

// Recording is what a run did.
type Recording struct {
	Hosts    int
	End      time.Duration
	Bars     []Bar
	Marks    []Mark
	Messages []Message
	Handlers []Handler
	// MessagesLeftOut counts the oldest messages, which were dropped, and OthersLeftOut the bars,
	// marks and handlers that came after the bound was reached.
	MessagesLeftOut, OthersLeftOut int
}

// The bounds of a recording.
const (
	messagesMax = 30_000
	othersMax   = 30_000
)

// Recorder makes a Recording. All methods of a nil Recorder do nothing.
type Recorder struct {
	now  func() virtual.Instant
	rec  Recording
	open map[barKey]int
	// untils has, by index of an open lease, when it ends unless it is renewed.
	untils map[int]time.Duration
	// dropped is the number of the first message that is kept.
	dropped int
}

// barKey names an open bar.
type barKey struct {
	kind BarKind
	host int
	name string
}

// New returns a Recorder for a run of so many hosts.
func New(hosts int, now func() virtual.Instant) *Recorder {
	return &Recorder{now: now, rec: Recording{Hosts: hosts}, open: map[barKey]int{}, untils: map[int]time.Duration{}}
}

func (r *Recorder) time() time.Duration { return time.Duration(r.now()) }

// Begin opens a bar, and ends the open one of the same kind, host and group.
func (r *Recorder) Begin(b Bar) {
	if r == nil {
		return
	}
	key := barKey{b.Kind, b.Host, b.Group}
	r.endBar(key, r.time(), "replaced")
	if len(r.rec.Bars) >= othersMax {
		r.rec.OthersLeftOut++
		return
	}
	b.From, b.To = r.time(), -1
	r.open[key] = len(r.rec.Bars)
	r.rec.Bars = append(r.rec.Bars, b)
}

// End ends the open bar of a kind, host and group.
func (r *Recorder) End(kind BarKind, host int, group, how string) {
	if r != nil {
		r.endBar(barKey{kind, host, group}, r.time(), how)
	}
}

// EndKind ends all open bars of a kind at a host.
func (r *Recorder) EndKind(kind BarKind, host int, how string) {
	if r == nil {
		return
	}
	for key := range r.open { // order-free: all end at one moment
		if key.kind == kind && key.host == host {
			r.endBar(key, r.time(), how)
		}
	}
}

// EndProcess ends all open bars of the process at a host.
func (r *Recorder) EndProcess(host int, how string) {
	for _, kind := range []BarKind{Life, Lease, LeaderLease, View, Shard, Pause, Slow} {
		r.EndKind(kind, host, how)
	}
}

func (r *Recorder) endBar(key barKey, at time.Duration, how string) {
	i, found := r.open[key]
	if !found {
		return
	}
	delete(r.open, key)
	if until, lease := r.untils[i]; lease && until < at {
		at, how = max(until, r.rec.Bars[i].From), "expired"
	}
	delete(r.untils, i)
	r.rec.Bars[i].To, r.rec.Bars[i].End = at, how
}

// Renew records that a process holds a lease until an instant; an instant that has passed ends
// the lease.
func (r *Recorder) Renew(host int, leader bool, until virtual.Instant) {
	if r == nil {
		return
	}
	kind, other := Lease, LeaderLease
	if leader {
		kind, other = LeaderLease, Lease
	}
	end := time.Duration(until)
	if r.endBar(barKey{other, host, ""}, r.time(), "replaced"); end <= r.time() {
		r.endBar(barKey{kind, host, ""}, r.time(), "withdrawn")
		return
	}
	key := barKey{kind, host, ""}
	i, found := r.open[key]
	if found && r.untils[i] < r.time() {
		found = false
	}
	if !found {
		r.Begin(Bar{Kind: kind, Host: host})
		i, found = r.open[key]
	}
	if found {
		r.untils[i] = end
	}
}

// Add adds a mark at this moment.
func (r *Recorder) Add(m Mark) {
	switch {
	case r == nil, r.isRepeated(m):
	case len(r.rec.Marks) >= othersMax:
		r.rec.OthersLeftOut++
	default:
		m.At = r.time()
		r.rec.Marks = append(r.rec.Marks, m)
	}
}

// isRepeated reports whether the newest mark is the same, of this moment: a core and its driver
// both trace some events.
func (r *Recorder) isRepeated(m Mark) bool {
	n := len(r.rec.Marks)
	return n > 0 && r.rec.Marks[n-1].Host == m.Host && r.rec.Marks[n-1].Kind == m.Kind && r.rec.Marks[n-1].At == r.time()
}

// Ran records that a handler of a shard begins at a host.
func (r *Recorder) Ran(host int, shard string, entity int, text string) {
	if r == nil {
		return
	}
	i, found := r.open[barKey{Shard, host, shard}]
	if !found || len(r.rec.Handlers) >= othersMax {
		r.rec.OthersLeftOut++
		return
	}
	r.rec.Handlers = append(r.rec.Handlers, Handler{Host: host, At: r.time(), Bar: i, Entity: entity, Text: text})
}

// Send records a message, and returns its number, which is above 0; 0 if nothing is recorded. It
// calls describe only if the message is recorded.
func (r *Recorder) Send(from, to int, describe func() (Class, string)) int {
	if r == nil {
		return 0
	}
	class, text := describe()
	r.rec.Messages = append(r.rec.Messages, Message{Class: class, From: from, To: to, Sent: r.time(), Handled: -1, Text: text})
	if n := len(r.rec.Messages); n >= 2*messagesMax {
		r.rec.Messages = append([]Message(nil), r.rec.Messages[n-messagesMax:]...)
		r.dropped += n - messagesMax
	}
	return r.dropped + len(r.rec.Messages)
}

// Handle records that the receiver has taken a message.
func (r *Recorder) Handle(number int) {
	if r == nil || number <= r.dropped {
		return
	}
	if m := &r.rec.Messages[number-r.dropped-1]; m.Handled < 0 {
		m.Handled = r.time()
	}
}

// Finish ends the recording and returns it, nil if nothing was recorded. Leases that nothing
// renewed ended when they said.
func (r *Recorder) Finish() *Recording {
	if r == nil {
		return nil
	}
	rec := &r.rec
	rec.End = r.time()
	for key := range r.open { // order-free: all end at one moment
		r.endBar(key, rec.End, "")
	}
	if n := len(rec.Messages); n > messagesMax {
		rec.Messages = rec.Messages[n-messagesMax:]
		r.dropped += n - messagesMax
	}
	rec.MessagesLeftOut = r.dropped
	return rec
}
