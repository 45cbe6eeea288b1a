package protocol

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// Message is one of the structs of this file, by pointer. Messages are immutable
// once sent: the simulator hands the same value to several receivers.
type Message interface {
	// Header returns the part that all messages share.
	Header() *Head
	messageKind() byte
	codeFields(c *wire.Coder)
}

// Head is the part that all messages share.
type Head struct {
	// Type is the name of the entity type.
	Type string
	// Term is the coordinator's: its own in the messages it sends. A region sends the term
	// of the coordinator that it addresses, zero if it has none.
	Term gossip.Epoch
	// View is the epoch of the sender's view. A receiver whose view is older keeps the
	// message until it has caught up.
	View gossip.Epoch
	// Seq makes, with Term, the stamp of a coordinator's message. A region's answer
	// carries the Seq of the order that it answers, zero if it answers none.
	Seq uint64
	// Probe asks for an immediate Seen. It is set on retransmitted orders, to distinguish
	// slow work from a broken link.
	Probe bool
}

// Header returns h.
func (h *Head) Header() *Head { return h }

// Stamp returns (Term, Seq).
func (h *Head) Stamp() Token { return Token{Term: h.Term, Seq: h.Seq} }

// Register announces a region or proxy of the type.
type Register struct {
	Head
	// Hosts is false for a proxy.
	Hosts    bool
	Settings Settings
}

// RegisterRefused reports that the sender's settings of the type differ from the
// coordinator's. The coordinator does not register it: the sender receives no homes and no
// shards.
type RegisterRefused struct {
	Head
	Conflict Conflict
}

// Declined reports that its sender does not take office in the view that Head.View names,
// unless all candidates decline. It answers Register. See Elect.
type Declined struct {
	Head
	// Missing: the sender does not run the type, or for another role.
	Missing bool
	// Unbound: the decline is no promise, for the node that asks cannot take office in
	// the sender's stead. If either runs the type later in the same view, it asks anew.
	Unbound bool
}

// RegisterAck reports that the sender is in office and has registered the region.
type RegisterAck struct{ Head }

// GetHome asks for the homes of shards; they are allocated if they have none. It
// registers its sender as well.
type GetHome struct {
	Head
	Hosts    bool
	Settings Settings
	Shards   []ShardID
}

// Homes publishes where shards are hosted.
type Homes struct {
	Head
	Homes []Home
}

// HostShards orders a region to start shards. For a shard that already runs
// there, it asks whether the region still serves it.
type HostShards struct {
	Head
	Shards []HostOrder
}

// ShardsHosted reports that shards run here under these tokens.
type ShardsHosted struct {
	Head
	Shards []ShardToken
}

// Begin announces moves: close the routes, send the markers. Tokens are
// the stamps of the moves.
type Begin struct {
	Head
	Shards []ShardToken
}

// BeginAck reports that the owner has queued all messages that this node ever sent over
// the closed routes. Tokens are the stamps of the moves.
type BeginAck struct {
	Head
	Shards []ShardToken
}

// HandOff orders the owner to stop shards within a time, and to send their state
// to the new home.
type HandOff struct {
	Head
	Within time.Duration
	Shards []HandOffOrder
}

// Stopped promises that these shards do not run here, and are never started here
// again at or below these tokens.
type Stopped struct {
	Head
	Shards []ShardToken
}

// StoppedAck ends the repetition of Stopped.
type StoppedAck struct {
	Head
	Shards []ShardToken
}

// CensusRequest asks a node for the shards that it hosts. From then on the node refuses
// orders of lower terms.
type CensusRequest struct {
	Head
	// Role is the type's, for a node that does not run it.
	Role string
}

// CensusReport is the answer. It registers its sender as well.
type CensusReport struct {
	Head
	Hosts    bool
	Settings Settings
	Claims   []Claim
	// Held are at most HeldMax.
	Held []Held
}

// Drain asks the coordinator to take all shards from the sender and to give it
// none.
type Drain struct{ Head }

// Drained is the answer to Drain when nothing is left to take, or when no other
// region can take what is left.
type Drained struct {
	Head
	// Left is the number of shards that no other region can take.
	Left uint32
}

// Refused informs a coordinator that an order's term is below the receiver's
// floor, which is in Head.Term: another node has taken office.
type Refused struct{ Head }

// Seen answers a probe.
type Seen struct{ Head }

// ToCoordinator reports whether m is for a coordinator. All other messages are for
// regions, or for the shell: see IsQuery.
func ToCoordinator(m Message) bool { return m.messageKind() < firstForRegion }

// Name returns the name of m's type, for traces.
func Name(m Message) string { return names[m.messageKind()] }

const (
	kindRegister byte = iota + 1
	kindGetHome
	kindShardsHosted
	kindBeginAck
	kindStopped
	kindCensusReport
	kindDrain
	kindRefused
	kindSeen
	firstForRegion
)

const (
	kindRegisterAck byte = iota + firstForRegion
	kindHomes
	kindHostShards
	kindBegin
	kindHandOff
	kindStoppedAck
	kindCensusRequest
	kindDrained
	kindRegisterRefused
	kindDeclined
	// Those behind it are for the shell.
	kindQueries
	kindQuery
	kindAnswer
	kindsEnd
)

var names = [kindsEnd]string{
	kindRegister: "Register", kindGetHome: "GetHome", kindShardsHosted: "ShardsHosted",
	kindBeginAck: "BeginAck", kindStopped: "Stopped", kindCensusReport: "CensusReport",
	kindDrain: "Drain", kindRefused: "Refused", kindSeen: "Seen",
	kindRegisterAck: "RegisterAck", kindHomes: "Homes", kindHostShards: "HostShards",
	kindBegin: "Begin", kindHandOff: "HandOff", kindStoppedAck: "StoppedAck",
	kindCensusRequest: "CensusRequest", kindDrained: "Drained",
	kindRegisterRefused: "RegisterRefused", kindDeclined: "Declined",
	kindQuery: "Query", kindAnswer: "Answer",
}

func (*Register) messageKind() byte      { return kindRegister }
func (*GetHome) messageKind() byte       { return kindGetHome }
func (*ShardsHosted) messageKind() byte  { return kindShardsHosted }
func (*BeginAck) messageKind() byte      { return kindBeginAck }
func (*Stopped) messageKind() byte       { return kindStopped }
func (*CensusReport) messageKind() byte  { return kindCensusReport }
func (*Drain) messageKind() byte         { return kindDrain }
func (*Refused) messageKind() byte       { return kindRefused }
func (*Seen) messageKind() byte          { return kindSeen }
func (*RegisterAck) messageKind() byte   { return kindRegisterAck }
func (*Homes) messageKind() byte         { return kindHomes }
func (*HostShards) messageKind() byte    { return kindHostShards }
func (*Begin) messageKind() byte         { return kindBegin }
func (*HandOff) messageKind() byte       { return kindHandOff }
func (*StoppedAck) messageKind() byte    { return kindStoppedAck }
func (*CensusRequest) messageKind() byte { return kindCensusRequest }
func (*Drained) messageKind() byte       { return kindDrained }

func (*RegisterRefused) messageKind() byte { return kindRegisterRefused }
func (*Declined) messageKind() byte        { return kindDeclined }
func (*Query) messageKind() byte           { return kindQuery }
func (*Answer) messageKind() byte          { return kindAnswer }
