package membership

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// Limits of the messages of KindEvidence. A frame that exceeds them is dropped and
// counted.
const (
	addrBytesMax       = 255
	roleBytesMax       = 64
	rolesMax           = 32
	nodeBytesMax       = 8 << 10
	appVersionBytesMax = 64
	contactMembersMax  = 16
	contactPointsOnMsg = 128
)

// message is one of the small messages that nodes exchange outside of views: to find a
// cluster, to form one, to sign off, and to check links.
type message interface {
	messageTag() byte
	codeFields(c *wire.Coder)
}

const (
	tagContact byte = iota + 1
	tagClaim
	tagVerdict
	tagGoodbye
	tagEcho
	tagEchoed
	tagKeyIDs
	tagSealed
)

// contact describes a node: its identity, its contact points, and its cluster. The
// handshake has already compared cluster names and settings.
type contact struct {
	// Ask requests a contact in return.
	Ask  bool
	From gossip.Node
	// Points are the sender's contact points, sorted.
	Points []string
	// Cluster is zero while the sender is in no view.
	Cluster uint64
	// Epoch is that of the sender's view. Without a view it is the lowest with which the
	// sender may form a cluster: above those of its former incarnations and its files.
	Epoch gossip.Epoch
	// Origin is that of the sender's view, or without one of its files.
	Origin uint64
	// Live is set if the sender holds a lease: its cluster can act.
	Live bool
	// Members are some of the sender's view, most senior first.
	Members []gossip.Node
}

// bootstrapClaim asks for the exclusive promise to let its sender form the cluster.
type bootstrapClaim struct{ Round uint64 }

// claimVote answers a claim.
type claimVote struct {
	Round   uint64
	Granted bool
	// Why is the reason of a refusal.
	Why string
}

// goodbye signs off: the sender's incarnation has ended, holds no lease and will never
// act again.
type goodbye struct{}

func (*contact) messageTag() byte        { return tagContact }
func (*bootstrapClaim) messageTag() byte { return tagClaim }
func (*claimVote) messageTag() byte      { return tagVerdict }
func (*goodbye) messageTag() byte        { return tagGoodbye }

// messages are coded as a tag and the fields.
var messages = wire.Messages[message]{
	Kind: message.messageTag,
	Code: message.codeFields,
	New: []func() message{
		tagContact: newMessage[contact], tagClaim: newMessage[bootstrapClaim], tagVerdict: newMessage[claimVote],
		tagGoodbye: newMessage[goodbye], tagEcho: newMessage[echo], tagEchoed: newMessage[echoed],
		tagKeyIDs: newMessage[keyIDs], tagSealed: newMessage[sealed],
	},
}

func newMessage[T any, P interface {
	*T
	message
}]() message {
	return P(new(T))
}

// appendMessage appends the encoding of m.
func appendMessage(b []byte, m message) []byte { return messages.Append(b, m) }

// decodeMessage decodes a frame. The message shares no memory with it.
func decodeMessage(frame []byte) (message, error) { return messages.Decode(frame) }

func (m *contact) codeFields(c *wire.Coder) {
	c.Bool(&m.Ask)
	codeNode(&m.From, c)
	c.Strings("points", &m.Points, contactPointsOnMsg, addrBytesMax)
	wire.U64(c, &m.Cluster)
	wire.U64(c, &m.Epoch)
	wire.U64(c, &m.Origin)
	c.Bool(&m.Live)
	wire.Slice(c, "members", &m.Members, contactMembersMax, codeNode)
}

func (m *bootstrapClaim) codeFields(c *wire.Coder) { wire.U64(c, &m.Round) }

func (m *claimVote) codeFields(c *wire.Coder) {
	wire.U64(c, &m.Round)
	c.Bool(&m.Granted)
	c.String("why", &m.Why, addrBytesMax)
}

func (*goodbye) codeFields(*wire.Coder) {}

func codeNode(n *gossip.Node, c *wire.Coder) {
	c.Body("node", nodeBytesMax, func(c *wire.Coder) {
		wire.U64(c, &n.ID)
		c.String("name", &n.Name, addrBytesMax)
		c.String("addr", &n.Addr, addrBytesMax)
		c.Strings("roles", &n.Roles, rolesMax, roleBytesMax)
		c.String("zone", &n.Zone, addrBytesMax)
		c.String("app version", &n.AppVersion, appVersionBytesMax)
		wire.Uvarint(c, &n.WireOldest)
		wire.Uvarint(c, &n.WireNewest)
	})
}
