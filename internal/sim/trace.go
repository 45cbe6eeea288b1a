package sim

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// tracer folds every event of a run into one hash, and writes a line for each
// when there is a listener. Two runs of one seed must end with the same hash.
type tracer struct {
	hash  uint64
	lines int
	out   io.Writer
	// tail keeps the newest lines for a failure report.
	tail []string
	keep int
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (t *tracer) mix(v uint64) {
	h := t.hash
	for range 4 {
		h = (h ^ v&0xffff) * fnvPrime
		v >>= 16
	}
	t.hash = h
}

func (t *tracer) mixString(s string) {
	h := t.hash
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	t.hash = h
}

func (t *tracer) listening() bool { return t.out != nil || t.keep > 0 }

// event records one thing that happened at node (a slot's letter and life, ""
// for the world). detail is called only when there is a listener.
func (t *tracer) event(now virtual.Instant, node, kind string, num uint64, detail func() string) {
	t.lines++
	t.mix(uint64(now))
	t.mixString(node)
	t.mixString(kind)
	t.mix(num)
	if !t.listening() {
		return
	}
	text := ""
	if detail != nil {
		text = detail()
	}
	line := fmt.Sprintf("%10.3fms %-4s %-18s %s", float64(now)/1e6, node, kind, text)
	if t.out != nil {
		fmt.Fprintln(t.out, line)
	}
	if t.keep > 0 {
		t.tail = append(t.tail, line)
		if len(t.tail) > 2*t.keep {
			t.tail = append(t.tail[:0], t.tail[len(t.tail)-t.keep:]...)
		}
	}
}

// lastLines returns up to keep lines.
func (t *tracer) lastLines() string {
	return strings.Join(t.tail[max(0, len(t.tail)-t.keep):], "\n")
}

// label names a slot and the count of its lives: a, b1, c2.
func label(slot, life int) string {
	if life == 0 {
		return string(rune('a' + slot))
	}
	return fmt.Sprintf("%c%d", rune('a'+slot), life)
}

// names renders node ids by their labels.
func (w *world) names(ids []gossip.NodeID) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.name(id))
	}
	return b.String()
}

func (w *world) name(id gossip.NodeID) string {
	if p := w.byID[id]; p != nil {
		return p.label
	}
	return id.String()
}

// viewText renders a view: epoch[a b1* c], * joining, - leaving.
func (w *world) viewText(v *gossip.View) string {
	if v == nil {
		return "none"
	}
	var b strings.Builder
	// Generations carry the wall clock; the small part reads better.
	fmt.Fprintf(&b, "%d.%d[", int64(v.Epoch.Generation())-int64(w.wallAtStart), uint32(v.Epoch))
	for i := range v.Members {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.name(v.Members[i].ID))
		switch v.Members[i].Status {
		case gossip.Joining:
			b.WriteByte('*')
		case gossip.Leaving:
			b.WriteByte('-')
		}
	}
	b.WriteByte(']')
	return b.String()
}

// messageText renders a message of the view core.
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
