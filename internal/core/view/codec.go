package view

import (
	"errors"
	"math"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// ErrBadView means that a frame holds an impossible view: without members or epoch, or
// with a member twice.
var ErrBadView = errors.New("view: impossible view")

// distinct reports whether there are members, each once and with an id.
func distinct(members []gossip.Member) bool {
	ids := make([]gossip.NodeID, len(members))
	for i := range members {
		ids[i] = members[i].ID
	}
	slices.Sort(ids)
	return len(ids) > 0 && ids[0] != 0 && len(slices.Compact(ids)) == len(members)
}

// The highest numbers that a frame may hold. Correct nodes never come near: generations
// begin at the wall clock in seconds and are 64 times rarer than views, and a round is
// one attempt to lead. An accepted message raises the receiver's own numbers above those
// in the frame. With the highest possible numbers none would be left, and the cluster
// could never again change its view or elect a leader. The numbers above these limits are
// reserved for nodes that must go above a received number.
const (
	// generationMax is the highest generation that is accepted from another node.
	generationMax = 0xf000_0000
	// leastMax is the highest generation of another cluster that this cluster goes above. It
	// leaves room for takeovers until generationMax.
	leastMax = 0xe000_0000
	stepMax  = 0xf000_0000
	roundMax = 1 << 62
)

const reasonBytesMax = 1024

const (
	tagPing byte = iota + 1
	tagPong
	tagAccept
	tagPreVote
	tagPreVoted
	tagPrepare
	tagPromised
	tagNack
	tagDecided
	tagJoinRequest
	tagJoinRefused
	tagLeaveRequest
	tagYieldRequest
	tagDoubt
	tagDoubted
	tagContest
	tagContested
	tagLeaveNotice
	tagNeedView
	tagJoinPassed
	tagEncounter
	tagSighted
	tagVouch
	tagVouched
	tagConfront
	tagConfronted
)

// messages are coded as a tag and the fields.
var messages = wire.Messages[Message]{
	Kind: Message.messageTag,
	Code: Message.codeFields,
	New: []func() Message{
		tagPing: newMessage[Ping], tagPong: newMessage[Pong], tagAccept: newMessage[Accept], tagPreVote: newMessage[PreVote],
		tagPreVoted: newMessage[PreVoted], tagPrepare: newMessage[Prepare], tagPromised: newMessage[Promised], tagNack: newMessage[Nack],
		tagDecided: newMessage[Decided], tagJoinRequest: newMessage[JoinRequest], tagJoinRefused: newMessage[JoinRefused],
		tagLeaveRequest: newMessage[LeaveRequest], tagYieldRequest: newMessage[YieldRequest], tagDoubt: newMessage[Doubt],
		tagDoubted: newMessage[Doubted], tagContest: newMessage[Contest], tagContested: newMessage[Contested],
		tagLeaveNotice: newMessage[LeaveNotice], tagNeedView: newMessage[NeedView], tagJoinPassed: newMessage[JoinPassed],
		tagEncounter: newMessage[Encounter], tagSighted: newMessage[Sighted], tagVouch: newMessage[Vouch],
		tagVouched: newMessage[Vouched], tagConfront: newMessage[Confront], tagConfronted: newMessage[Confronted],
	},
}

func newMessage[T any, P interface {
	*T
	Message
}]() Message {
	return P(new(T))
}

// Append appends the frame of a message.
func Append(b []byte, msg Message) []byte { return messages.Append(b, msg) }

// Decode reads a frame. The result does not alias the frame. Decode allocates at most a
// small multiple of the frame.
func Decode(frame []byte) (Message, error) { return messages.Decode(frame) }

func (m *Ping) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	wire.U64(c, &m.Cluster)
	codeEpoch(&m.Epoch, c)
	wire.Uvarint(c, &m.Round)
	wire.U64(c, &m.Echo)
	wire.U64(c, &m.Remaining)
	c.Bool(&m.Life)
	codeView(&m.View, c)
	codeSecret(&m.Secret, c)
}

func (m *Pong) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeEpoch(&m.Epoch, c)
	wire.Uvarint(c, &m.Round)
	wire.U64(c, &m.T0)
	codeEpoch(&m.Accepted, c)
	codeIDs(&m.Unreachable, c)
}

func (m *Accept) codeFields(c *wire.Coder) {
	codeView(&m.Base, c)
	codeView(&m.Next, c)
	c.Bool(&m.Emergency)
	c.Body("ping", wire.NoLimit, m.Ping.codeFields)
}

func (m *PreVote) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeView(&m.Base, c)
	codeIDs(&m.Dead, c)
	codeIDs(&m.Weak, c)
}

func (m *PreVoted) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeEpoch(&m.Base, c)
	c.Bool(&m.Yes)
	m.Promised.codeFields(c)
	codeIDs(&m.Linked, c)
}

func (m *Prepare) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeView(&m.Base, c)
	codeIDs(&m.Dead, c)
	codeIDs(&m.Weak, c)
}

func (m *Promised) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeEpoch(&m.Base, c)
	codeView(&m.Accepted, c)
	m.AcceptedBallot.codeFields(c)
	c.Bool(&m.Emergency)
	wire.Bounded(c, "generation", &m.Generation, generationMax)
	wire.U64(c, &m.T0)
	codeIDs(&m.Linked, c)
}

func (m *Nack) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	m.Promised.codeFields(c)
}

func (m *Decided) codeFields(c *wire.Coder) { codeView(&m.View, c) }

func (m *JoinRequest) codeFields(c *wire.Coder) {
	codeNode(&m.Node, c)
	wire.Capped(c, &m.Hops, math.MaxUint8)
	wire.Bounded(c, "generation", &m.Least, leastMax)
}

func (m *JoinRefused) codeFields(c *wire.Coder)  { c.String("reason", &m.Reason, reasonBytesMax) }
func (m *JoinPassed) codeFields(c *wire.Coder)   { wire.U64(c, &m.Leader) }
func (*LeaveRequest) codeFields(*wire.Coder)     {}
func (m *NeedView) codeFields(c *wire.Coder)     { codeEpoch(&m.Epoch, c) }
func (*LeaveNotice) codeFields(*wire.Coder)      {}
func (m *YieldRequest) codeFields(c *wire.Coder) { wire.U64(c, &m.Subject) }

func (m *Doubt) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeIDs(&m.Dead, c)
}

func (m *Doubted) codeFields(c *wire.Coder) {
	m.Ballot.codeFields(c)
	codeIDs(&m.Asked, c)
	codeIDs(&m.Linked, c)
}

func (m *Contest) codeFields(c *wire.Coder) {
	codeView(&m.View, c)
	wire.U64(c, &m.Nonce)
}

func (m *Contested) codeFields(c *wire.Coder) {
	codeView(&m.View, c)
	wire.U64(c, &m.Nonce)
	wire.U64(c, &m.Proof)
}

func (m *Encounter) codeFields(c *wire.Coder) {
	codeNode(&m.From, c)
	wire.Capped(c, &m.Hops, math.MaxUint8)
	wire.U64(c, &m.Cluster)
	wire.U64(c, &m.To)
	codeStanding(&m.Standing, c)
	codeVerdict(&m.Verdict, c)
	codeStanding(&m.Judged, c)
	wire.Bounded(c, "generation", &m.Generation, leastMax)
	codeNodes(&m.Nodes, c)
	wire.U64(c, &m.Nonce)
	wire.U64(c, &m.Echo)
}

func (m *Sighted) codeFields(c *wire.Coder) {
	wire.U64(c, &m.Cluster)
	codeNodes(&m.Nodes, c)
}

func (m *Vouch) codeFields(c *wire.Coder) {
	wire.U64(c, &m.Cluster)
	codeStanding(&m.Standing, c)
	codeNodes(&m.Nodes, c)
}

func (m *Vouched) codeFields(c *wire.Coder) {
	wire.U64(c, &m.Cluster)
	codeIDs(&m.Confirmed, c)
}

func (m *Confront) codeFields(c *wire.Coder) { wire.U64(c, &m.Nonce) }

func (m *Confronted) codeFields(c *wire.Coder) {
	wire.U64(c, &m.Cluster)
	codeStanding(&m.Standing, c)
	wire.U64(c, &m.Nonce)
}

func (b *Ballot) codeFields(c *wire.Coder) {
	wire.Bounded(c, "round", &b.Round, roundMax)
	wire.U64(c, &b.Node)
}

// codeSecret codes a secret, or one byte if there is none.
func codeSecret(s *[2]uint64, c *wire.Coder) {
	set := *s != [2]uint64{}
	if c.Bool(&set); !set {
		return
	}
	wire.U64(c, &s[0])
	wire.U64(c, &s[1])
	if *s == ([2]uint64{}) {
		c.Fail(ErrBadView)
	}
}

// codeEpoch codes an epoch, and rejects one with which the numbers would soon run out.
func codeEpoch(e *gossip.Epoch, c *wire.Coder) {
	wire.Uvarint(c, e)
	c.Check("generation", uint64(e.Generation()), generationMax)
	c.Check("epoch", uint64(uint32(*e)), stepMax)
}

func codeIDs(ids *[]gossip.NodeID, c *wire.Coder) { wire.U64s(c, "ids", ids, wire.NoLimit) }
