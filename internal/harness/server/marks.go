package server

import (
	"context"
	"log/slog"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// marker is a log handler that also records evidence of a death in the history: chaos
// divides the time of a failover by it.
type marker struct {
	slog.Handler
	history *history.Writer
	clock   clock.Clock
	self    func() gossip.NodeID
}

// evidence are the messages of membership that report evidence of a death.
var evidence = map[string]bool{"taken for dead": true, "proof of death": true, "proven dead": true}

// Enabled lets membership log its evidence, which has level debug.
func (m *marker) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (m *marker) Handle(ctx context.Context, r slog.Record) error {
	if evidence[r.Message] {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "subject" {
				m.writeMark(history.Suspected, a.Value.String())
			}
			return a.Key != "subject"
		})
	}
	if !m.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return m.Handler.Handle(ctx, r)
}

// writeMark records an event about the node of that id.
func (m *marker) writeMark(op history.Op, id string) {
	var subject gossip.NodeID
	if subject.UnmarshalText([]byte(id)) == nil {
		m.history.Write(history.Record{Op: op, Node: uint64(m.self()), Sender: uint64(subject), Start: m.clock.Now()})
	}
}

// onEvent records views that exclude a member.
func (m *marker) onEvent(e gossip.Event) {
	if e, ok := e.(gossip.MemberRemoved); ok {
		m.history.Write(history.Record{Op: history.Excluded, Node: uint64(m.self()), Sender: uint64(e.Member.ID), Start: m.clock.Now()})
	}
}

// WithAttrs implements slog.Handler.
func (m *marker) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *m
	with.Handler = m.Handler.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler.
func (m *marker) WithGroup(name string) slog.Handler {
	with := *m
	with.Handler = m.Handler.WithGroup(name)
	return &with
}
