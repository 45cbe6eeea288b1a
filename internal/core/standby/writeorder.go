package standby

import (
	"github.com/peerage-go/peerage/internal/core/chunks"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// writeOrder accepts the writes of the newest stream to one holder in order.
type writeOrder struct {
	// by is the token of the stream's owner.
	by     protocol.Token
	stream uint64
	order  chunks.Order
}

// orderOf returns the order of a write's stream, nil if the stream was superseded.
func (w *writeOrder) orderOf(m Write) *chunks.Order {
	if w.by == m.Token && m.Stream < w.stream {
		return nil
	}
	if w.by != m.Token || m.Stream != w.stream {
		*w = writeOrder{by: m.Token, stream: m.Stream}
	}
	return &w.order
}
