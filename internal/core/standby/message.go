package standby

import "github.com/peerage-go/peerage/internal/core/protocol"

// Message is one of the structs below. All are idempotent: they may be lost,
// duplicated and reordered.
type Message interface{ isMessage() }

// Collect asks for copies, in pages: those behind After. It raises the fence.
type Collect struct {
	Shard protocol.ShardID
	Token protocol.Token
	After string
}

// Held answers Collect with one page.
type Held struct {
	Shard protocol.ShardID
	Token protocol.Token
	After string
	// More: there are copies behind these.
	More   bool
	Layout Layout
	Copies []Copy
}

// Write brings copies to a holder.
type Write struct {
	Shard protocol.ShardID
	Token protocol.Token
	// Stream numbers the streams of an owner, Seq the writes of one.
	Stream, Seq uint64
	// For is the owner's newest layout: an older one does not end what this begins.
	For    uint64
	Copies []Copy
}

// Ack acknowledges all writes of the stream below Next. Full is set if the holder had no room
// and stored nothing of this one.
type Ack struct {
	Shard        protocol.ShardID
	Token        protocol.Token
	Stream, Next uint64
	Full         bool
}

// Announce publishes a layout.
type Announce struct {
	Shard  protocol.ShardID
	Token  protocol.Token
	Layout Layout
}

// Announced answers Announce.
type Announced struct {
	Shard  protocol.ShardID
	Token  protocol.Token
	Seq    uint64
	Active bool
}

// Refused answers any message with a token below the holder's fence.
type Refused struct {
	Shard protocol.ShardID
	Token protocol.Token
	Fence protocol.Token
}

func (Collect) isMessage()   {}
func (Held) isMessage()      {}
func (Write) isMessage()     {}
func (Ack) isMessage()       {}
func (Announce) isMessage()  {}
func (Announced) isMessage() {}
func (Refused) isMessage()   {}
