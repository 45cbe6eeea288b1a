package sim

import (
	"fmt"

	"github.com/peerage-go/peerage/internal/core/view"
)

// Some planted bugs need no hook in the cores: the driver tampers with their events and
// effects. Production code does not contain them.

func (w *world) tamperConfig(cfg *view.Config) {
	if w.cfg.Mutant.Is("removal before the lease ends") {
		cfg.RemoveAfter = cfg.Lease / 3
	}
}

// tamper returns the message to send in place of msg, nil for none.
func (w *world) tamper(from *proc, to nodeID, msg view.Message) view.Message { return msg }

func (w *world) messageText(msg view.Message) string {
	switch m := msg.(type) {
	case *view.Ping:
		return fmt.Sprintf("ping round %d epoch %d remaining %v life %v", m.Round, uint32(m.Epoch), m.Remaining, m.Life)
	case *view.Pong:
		return fmt.Sprintf("pong round %d epoch %d accepted %d", m.Round, uint32(m.Epoch), uint32(m.Accepted))
	case *view.Accept:
		return fmt.Sprintf("accept %v by %d/%s round %d remaining %v", w.viewText(m.Next.Header()), m.Ping.Ballot.Round, w.name(m.Ping.Ballot.Node), m.Ping.Round, m.Ping.Remaining)
	case *view.Prepare:
		return fmt.Sprintf("prepare %d/%s base %v dead [%s]", m.Ballot.Round, w.name(m.Ballot.Node), w.viewText(m.Base.Header()), w.names(m.Dead))
	case *view.Promised:
		return fmt.Sprintf("promised %d/%s accepted %v", m.Ballot.Round, w.name(m.Ballot.Node), w.viewText(m.Accepted.Header()))
	case *view.PreVote:
		return fmt.Sprintf("prevote? %d/%s dead [%s]", m.Ballot.Round, w.name(m.Ballot.Node), w.names(m.Dead))
	case *view.PreVoted:
		return fmt.Sprintf("prevote %v promised %d/%s receives [%s]", m.Yes, m.Promised.Round, w.name(m.Promised.Node), w.names(m.Hears))
	case *view.Nack:
		return fmt.Sprintf("nack %d/%s promised %d/%s", m.Ballot.Round, w.name(m.Ballot.Node), m.Promised.Round, w.name(m.Promised.Node))
	case *view.Decided:
		return "decided " + w.viewText(m.View.Header())
	case *view.JoinRequest:
		return "join " + w.name(m.Node.ID)
	}
	return fmt.Sprintf("%T", msg)
}
