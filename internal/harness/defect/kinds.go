package defect

// Kind names a defect.
type Kind string

const (
	// TwoInstances: each node answers some asks of counter 0 from an instance of its own,
	// beside the one that its home runs.
	TwoInstances Kind = "two-instances"
	// LostAdd: a counter acknowledges some additions and does not keep them.
	LostAdd Kind = "lost-add"
	// WrongAnswer: some answers have a count that no instance reached.
	WrongAnswer Kind = "wrong-answer"
	// Reorder: some messages, and some reliable messages, are sent twice, the second time
	// behind their successor.
	Reorder Kind = "reorder"
	// LostMessage: counters confirm some reliable messages and do not handle them.
	LostMessage Kind = "lost-message"
	// StaleRead: registers show the value before the newest.
	StaleRead Kind = "stale-read"
	// LostEntry: entries on disk are reported as absent.
	LostEntry Kind = "lost-entry"
	// Mute: counter 0 has no answer after a while.
	Mute Kind = "mute"
	// Idle: each node sends only a third of the load, so that the run proves nothing.
	Idle Kind = "idle"
)

// kinds are all defects.
var kinds = []Kind{TwoInstances, LostAdd, WrongAnswer, Reorder, LostMessage, StaleRead, LostEntry, Mute, Idle}

// variable is how the processes of a run learn their defect: they inherit it. Variables
// that begin with PEERAGE_ are settings, which the processes of a run do not inherit.
const variable = "CHAOS_PLANT"

// Every reports whether the n-th event is one of those, one in so many, that have the defect.
func Every(n uint64, one uint64) bool { return n%one == one-1 }
