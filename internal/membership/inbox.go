package membership

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/driver"
)

// inboxFramesMax bounds the frames that wait for the core; more are dropped and counted,
// and every protocol retransmits. The node's own inputs to its core are never dropped:
// their number is bounded at the source.
const inboxFramesMax = 8192

// hintsWaitingMax bounds the hints of discovery that wait for the loop, hintsPerBatch
// those that it processes at a time.
const (
	hintsWaitingMax = 1024
	hintsPerBatch   = 16
)

// input is an input of the loop: one of its types in loop.go, or of discovery's. Hints of
// discovery, whose number other nodes determine, are processed after all other inputs, so
// that none ever delays a message of the view protocol.
type input any

// newInbox returns the queue and the timer of the loop.
func newInbox(c clock.Clock) *driver.Driver[input] {
	return driver.New(driver.Config[input]{Clock: c, Frames: inboxFramesMax, Hints: hintsWaitingMax, HintsPerBatch: hintsPerBatch})
}

// found is a hint: a node that memberlist considers alive.
type found struct{ node gossip.Node }
