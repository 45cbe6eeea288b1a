package membership

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// Limits of the messages of KindEvidence. A frame that exceeds them is dropped and
// counted.
const (
	addrBytesMax       = 255
	roleBytesMax       = 64
	rolesMax           = 32
	appVersionBytesMax = 64
	contactMembersMax  = 16
	contactPointsOnMsg = 128
)

// message is one of the small messages that nodes exchange outside of views: to find a
// cluster, to form one, to sign off, and to check links.
type message interface{ messageTag() byte }

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

func (*contact) messageTag() byte       { return tagContact }
func (bootstrapClaim) messageTag() byte { return tagClaim }
func (claimVote) messageTag() byte      { return tagVerdict }
func (goodbye) messageTag() byte        { return tagGoodbye }

// appendMessage appends the encoding of m: a tag and the fields.
func appendMessage(b []byte, m message) []byte {
	b = append(b, m.messageTag())
	switch m := m.(type) {
	case *contact:
		b = appendContact(b, m)
	case bootstrapClaim:
		b = wire.AppendU64(b, m.Round)
	case claimVote:
		b = wire.AppendU64(b, m.Round)
		b = wire.AppendBool(b, m.Granted)
		b = wire.AppendString(b, m.Why)
	case *keyIDs:
		b = appendKeyIDs(b, m)
	case sealed:
		b = wire.AppendU64(b, uint64(m.Subject))
	}
	return b
}

// decodeMessage decodes a frame. The message shares no memory with it.
func decodeMessage(frame []byte) (message, error) {
	r := wire.NewReader(frame)
	var m message
	switch tag := r.Byte(); tag {
	case tagContact:
		m = readContact(r)
	case tagClaim:
		m = bootstrapClaim{Round: r.U64()}
	case tagVerdict:
		m = claimVote{Round: r.U64(), Granted: r.Bool(), Why: r.String("why", addrBytesMax)}
	case tagGoodbye:
		m = goodbye{}
	case tagEcho:
		m = echo{}
	case tagEchoed:
		m = echoed{}
	case tagKeyIDs:
		m = readKeyIDs(r)
	case tagSealed:
		m = sealed{Subject: gossip.NodeID(r.U64())}
	default:
		return nil, fmt.Errorf("gossip: message of unknown tag %d", tag)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func appendContact(b []byte, m *contact) []byte {
	b = wire.AppendBool(b, m.Ask)
	b = appendNode(b, &m.From)
	b = wire.AppendUvarint(b, uint64(len(m.Points)))
	for _, p := range m.Points {
		b = wire.AppendString(b, p)
	}
	b = wire.AppendU64(b, m.Cluster)
	b = wire.AppendU64(b, uint64(m.Epoch))
	b = wire.AppendU64(b, m.Origin)
	b = wire.AppendBool(b, m.Live)
	b = wire.AppendUvarint(b, uint64(len(m.Members)))
	for i := range m.Members {
		b = appendNode(b, &m.Members[i])
	}
	return b
}

func readContact(r *wire.Reader) *contact {
	m := &contact{Ask: r.Bool(), From: readNode(r)}
	for range bounded(r, "points", 1, contactPointsOnMsg) {
		m.Points = append(m.Points, r.String("point", addrBytesMax))
	}
	m.Cluster = r.U64()
	m.Epoch = gossip.Epoch(r.U64())
	m.Origin = r.U64()
	m.Live = r.Bool()
	for range bounded(r, "members", 12, contactMembersMax) {
		m.Members = append(m.Members, readNode(r))
	}
	return m
}

func bounded(r *wire.Reader, field string, elemBytes, most int) int {
	n := r.Count(field, elemBytes)
	if n > most {
		r.Fail(&wire.LimitError{Field: field, Declared: uint64(n), Max: uint64(most)})
		return 0
	}
	return n
}

func appendNode(b []byte, n *gossip.Node) []byte {
	b = wire.AppendU64(b, uint64(n.ID))
	b = wire.AppendString(b, n.Name)
	b = wire.AppendString(b, n.Addr)
	b = wire.AppendUvarint(b, uint64(len(n.Roles)))
	for _, role := range n.Roles {
		b = wire.AppendString(b, role)
	}
	return wire.AppendString(b, n.AppVersion)
}

func readNode(r *wire.Reader) gossip.Node {
	n := gossip.Node{
		ID:   gossip.NodeID(r.U64()),
		Name: r.String("name", addrBytesMax),
		Addr: r.String("addr", addrBytesMax),
	}
	for range bounded(r, "roles", 1, rolesMax) {
		n.Roles = append(n.Roles, r.String("role", roleBytesMax))
	}
	n.AppVersion = r.String("app version", appVersionBytesMax)
	return n
}
