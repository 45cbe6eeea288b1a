package failure

// Code is a reason for which a call fails. It is an error: errors.Is finds it in an error that
// wraps it.
type Code uint8

// The codes, in the order in which GroupOf looks for them: those for which nothing has run
// stand before those for which the outcome is unknown.
const (
	MailboxFull Code = iota + 1
	BufferFull
	WindowFull
	StashFull

	NotReady
	NoHome
	NoAnswer
	NoWorker
	Moved

	Paused
	NodeLost
	Abandoned
	NotKept

	Panicked
	ResultLost

	NodeStopping
	NoRole

	UnknownType
	Settings
	Codec

	State
	Restore

	BadID
	TooLarge
	SelfAsk
	NoDeadline
	NoShard
	ReliableClosed
	Unconfirmed
	Timer
	Stash
	ContextEnded
	Headers

	codes
)

// Group is a set of codes that callers treat alike; package sharding documents the groups.
type Group uint8

// The groups.
const (
	Invalid Group = iota + 1
	Incompatible
	Overloaded
	Unavailable
	WrongNode
	OutcomeIsUnknown
	EntityState
	Handler
)

// properties are the group and the text of each code.
var properties = [codes]struct {
	group Group
	text  string
}{
	MailboxFull: {Overloaded, "sharding: mailbox full"},
	BufferFull:  {Overloaded, "sharding: buffer full"},
	WindowFull:  {Overloaded, "sharding: window of unconfirmed messages full"},
	StashFull:   {Overloaded, "sharding: stash full"},

	NotReady: {Unavailable, "sharding: node is not in a cluster"},
	NoHome:   {Unavailable, "sharding: shard has no home"},
	NoAnswer: {Unavailable, "sharding: node did not answer in time"},
	NoWorker: {Unavailable, "sharding: no such worker now"},
	Moved:    {Unavailable, "sharding: shard has moved"},

	Paused:    {OutcomeIsUnknown, "sharding: home has no lease"},
	NodeLost:  {OutcomeIsUnknown, "sharding: connection to the home was lost, outcome unknown"},
	Abandoned: {OutcomeIsUnknown, "sharding: instance was abandoned, outcome unknown"},
	NotKept:   {OutcomeIsUnknown, "sharding: state was not replicated in time, outcome unknown"},

	Panicked:   {Handler, "sharding: handler panicked"},
	ResultLost: {Handler, "reliable: handled, result lost"},

	NodeStopping: {WrongNode, "sharding: node is stopping"},
	NoRole:       {WrongNode, "sharding: this node does not carry the type's role"},

	UnknownType: {Incompatible, "sharding: entity type is not registered"},
	Settings:    {Incompatible, "sharding: nodes disagree about the shards of ids"},
	Codec:       {Incompatible, "sharding: codec failed"},

	State:   {EntityState, "sharding: state cannot be replicated"},
	Restore: {EntityState, "sharding: state was not restored"},

	BadID:          {Invalid, "sharding: entity id is empty or too long"},
	TooLarge:       {Invalid, "sharding: payload too large"},
	SelfAsk:        {Invalid, "sharding: the entity asked waits for this ask: it would never answer"},
	NoDeadline:     {Invalid, "sharding: Ask with Retry needs a context with a deadline, or Within"},
	NoShard:        {Invalid, "sharding: no such shard"},
	ReliableClosed: {Invalid, "sharding: reliable producer is closed"},
	Unconfirmed:    {Invalid, "sharding: closed with unconfirmed messages"},
	Timer:          {Invalid, "sharding: timer was not set"},
	Stash:          {Invalid, "sharding: no message to stash"},
	ContextEnded:   {Invalid, "sharding: Context used after its Handle, OnStart, OnTimer or OnStop returned: read what is needed before, or start a context of one's own"},
	Headers:        {Invalid, "sharding: headers too large"},
}

// Error returns the text of the code.
func (c Code) Error() string {
	if c == 0 || c >= codes {
		return "sharding: unknown failure"
	}
	return properties[c].text
}

// Group returns the group of the code, 0 for a number that is no code.
func (c Code) Group() Group {
	if c >= codes {
		return 0
	}
	return properties[c].group
}
