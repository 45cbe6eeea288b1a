package network

import (
	"fmt"

	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/transport"
)

// Described is a message that describes itself in a recording.
type Described interface {
	Describe(*trace.Names) (record.Class, string)
}

// recordPath records that a path breaks or opens.
func (f *fabric) recordPath(from, to int, b Block) {
	if f.run.Record == nil {
		return
	}
	bar := record.Bar{Kind: record.Cut, Host: from, Peer: to, Group: fmt.Sprint(to)}
	if b == Open {
		f.run.Record.End(bar.Kind, from, bar.Group, "open again")
		return
	}
	bar.Text = fmt.Sprintf("nothing passes from %s to %s", trace.Label(from, 0), trace.Label(to, 0))
	if b == Reject {
		bar.Text = fmt.Sprintf("%s is refused all connections to %s", trace.Label(from, 0), trace.Label(to, 0))
	}
	f.run.Record.Begin(bar)
}

// recordSend records a message, and returns its number.
func (e *Endpoint) recordSend(to *Endpoint, f *Frame) int {
	return e.run.Record.Send(e.slot, to.slot, func() (record.Class, string) {
		class, text := describeFrame(&e.run.Names, f)
		return class, fmt.Sprintf("%s → %s: %s", e.id.Label, to.id.Label, text)
	})
}

// describeFrame returns the class of a frame, and what it carries in a few words.
func describeFrame(names *trace.Names, f *Frame) (record.Class, string) {
	switch m := f.Msg.(type) {
	case *view.Ping, *view.Pong:
		return record.Heartbeat, names.Message(m.(view.Message))
	case view.Message:
		return record.Membership, names.Message(m)
	case protocol.Message:
		return record.Order, fmt.Sprintf("%s of %s, %s", protocol.Name(m), m.Header().Type, names.Token(m.Header().Stamp()))
	case Described:
		return m.Describe(names)
	}
	if f.Kind == transport.KindEvidence {
		return record.Membership, "goodbye"
	}
	return record.Flow, fmt.Sprintf("%T", f.Msg)
}
