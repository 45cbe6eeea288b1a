package trace

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Label names a slot and the count of its lives: a, b1, c2, and from the 27th slot on aa, ab3.
func Label(slot, life int) string {
	name := string(rune('a' + slot%26))
	for slot >= 26 {
		slot = slot/26 - 1
		name = string(rune('a'+slot%26)) + name
	}
	if life == 0 {
		return name
	}
	return name + strconv.Itoa(life)
}

// Slot returns the slot that a label names, -1 if the label is empty.
func Slot(label string) int {
	if label == "" {
		return -1
	}
	return int(label[0] - 'a')
}

// Names renders nodes by their labels, and what refers to them. The zero Names is empty.
type Names struct {
	labels map[gossip.NodeID]string
	order  []gossip.NodeID
}

// Add sets the label of a node.
func (n *Names) Add(id gossip.NodeID, label string) {
	if n.labels == nil {
		n.labels = map[gossip.NodeID]string{}
	}
	n.labels[id] = label
	n.order = append(n.order, id)
}

// Name renders a node.
func (n *Names) Name(id gossip.NodeID) string {
	if label, found := n.labels[id]; found {
		return label
	}
	return id.String()
}

// List renders nodes.
func (n *Names) List(ids []gossip.NodeID) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(n.Name(id))
	}
	return b.String()
}

// Readable replaces the ids in a text by labels.
func (n *Names) Readable(s string) string {
	for _, id := range n.order {
		s = strings.ReplaceAll(s, id.String(), n.labels[id])
	}
	return s
}

// View renders a view: epoch[a b1* c], * joining, - leaving.
func (n *Names) View(v *gossip.View) string {
	if v == nil {
		return "none"
	}
	var b strings.Builder
	// Generations carry the wall clock; the small part reads better.
	fmt.Fprintf(&b, "%d.%d[", int64(v.Epoch.Generation())-int64(virtual.WallAtStart), uint32(v.Epoch))
	b.WriteString(n.Members(v))
	b.WriteByte(']')
	return b.String()
}

// Members renders the members of a view: a b1* c, * joining, - leaving.
func (n *Names) Members(v *gossip.View) string {
	var b strings.Builder
	for i := range v.Members {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(n.Name(v.Members[i].ID))
		switch v.Members[i].Status {
		case gossip.Joining:
			b.WriteByte('*')
		case gossip.Leaving:
			b.WriteByte('-')
		}
	}
	return b.String()
}

// Message renders a message of the view core.
func (n *Names) Message(msg view.Message) string {
	switch m := msg.(type) {
	case *view.Ping:
		return fmt.Sprintf("ping round %d epoch %d remaining %v life %v", m.Round, uint32(m.Epoch), m.Remaining, m.Life)
	case *view.Pong:
		return fmt.Sprintf("pong round %d epoch %d accepted %d", m.Round, uint32(m.Epoch), uint32(m.Accepted))
	case *view.Accept:
		return fmt.Sprintf("accept %v by %s round %d remaining %v", n.View(m.Next.Header()), n.ballot(m.Ping.Ballot), m.Ping.Round, m.Ping.Remaining)
	case *view.Prepare:
		return fmt.Sprintf("prepare %s base %v dead [%s]", n.ballot(m.Ballot), n.View(m.Base.Header()), n.List(m.Dead))
	case *view.Promised:
		return fmt.Sprintf("promised %s accepted %v", n.ballot(m.Ballot), n.View(m.Accepted.Header()))
	case *view.PreVote:
		return fmt.Sprintf("prevote? %s dead [%s]", n.ballot(m.Ballot), n.List(m.Dead))
	case *view.PreVoted:
		return fmt.Sprintf("prevote %v promised %s linked to [%s]", m.Yes, n.ballot(m.Promised), n.List(m.Linked))
	case *view.Nack:
		return fmt.Sprintf("nack %s promised %s", n.ballot(m.Ballot), n.ballot(m.Promised))
	case *view.Decided:
		return "decided " + n.View(m.View.Header())
	case *view.JoinRequest:
		return "join " + n.Name(m.Node.ID)
	}
	return fmt.Sprintf("%T", msg)
}

func (n *Names) ballot(b view.Ballot) string { return fmt.Sprintf("%d/%s", b.Round, n.Name(b.Node)) }

// Token renders a token.
func (n *Names) Token(t protocol.Token) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%d.%d/%d", int64(t.Term.Generation())-int64(virtual.WallAtStart), uint32(t.Term), t.Seq)
}

// Order renders a message between coordinators and regions.
func (n *Names) Order(m protocol.Message) string {
	h := m.Header()
	return fmt.Sprintf("%s %s view %d %+v", protocol.Name(m), n.Token(h.Stamp()), uint32(h.View), m)
}
