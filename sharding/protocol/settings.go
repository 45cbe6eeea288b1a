package protocol

import (
	"fmt"
	"strconv"

	"github.com/peerage-go/peerage/internal/wire"
)

// SettingType stands, as Conflict.Setting, for a type that a node does not run at all.
const SettingType = "type"

// Settings are what a node says of the type when it registers.
type Settings struct {
	// Shards and Role must be equal on all nodes. Shards are zero where the type is not
	// run.
	Shards uint32
	Role   string
	// Capacity is the node's own: how many shards it can carry, in relation to
	// others. Zero counts as one.
	Capacity uint32
	// ShardOf tells the functions from id to shard apart; it must be equal on all
	// nodes, and is zero for the default.
	ShardOf uint64
	// Keeps says what is kept of the entities beyond their lives, in words; it must be
	// equal on all nodes that host. "" is said by those that do not.
	Keeps string
	// Messages are compared, but may differ: versions of a program do.
	Messages Shapes
}

// Shapes are fingerprints of what a type's messages look like on the wire. Zero is not
// known, and differs from nothing.
type Shapes struct{ Requests, Responses uint64 }

// Compare names the messages whose shapes differ, "" if none are known to.
func (s Shapes) Compare(there Shapes) string {
	differ := func(a, b uint64) bool { return a != 0 && b != 0 && a != b }
	requests, responses := differ(s.Requests, there.Requests), differ(s.Responses, there.Responses)
	switch {
	case requests && responses:
		return "requests and responses"
	case requests:
		return "requests"
	case responses:
		return "responses"
	}
	return ""
}

// Conflict is a setting that must be equal and is not. The zero value says that
// there is none.
type Conflict struct {
	// Setting is its name, "" for none; Here and There are the values of the two.
	Setting, Here, There string
}

// String says which setting differs, and both values.
func (c Conflict) String() string {
	return c.Setting + " is " + c.Here + " here, " + c.There + " there"
}

// Swap returns the conflict as the other side sees it.
func (c Conflict) Swap() Conflict { return Conflict{Setting: c.Setting, Here: c.There, There: c.Here} }

// Compare returns the first setting of here that there does not share. What does
// not run the type conflicts with nothing.
func (s *Settings) Compare(there *Settings) Conflict {
	switch {
	case s.Shards == 0 || there.Shards == 0:
		return Conflict{}
	case s.Shards != there.Shards:
		return Conflict{"number of shards", strconv.Itoa(int(s.Shards)), strconv.Itoa(int(there.Shards))}
	case s.Role != there.Role:
		return Conflict{"role", strconv.Quote(s.Role), strconv.Quote(there.Role)}
	case s.ShardOf != there.ShardOf:
		return Conflict{"function from id to shard", functionName(s.ShardOf), functionName(there.ShardOf)}
	case s.Keeps != "" && there.Keeps != "" && s.Keeps != there.Keeps:
		return Conflict{"what is kept of entities", s.Keeps, there.Keeps}
	}
	return Conflict{}
}

// functionName is what a conflict calls a function.
func functionName(print uint64) string {
	if print == 0 {
		return "the hash"
	}
	return fmt.Sprintf("custom (%016x)", print)
}

// keepsBytesMax bounds Settings.Keeps.
const keepsBytesMax = 200

func appendSettings(b []byte, s *Settings) []byte {
	b = wire.AppendUvarint(b, uint64(s.Shards))
	b = wire.AppendString(b, s.Role)
	b = wire.AppendUvarint(b, uint64(s.Capacity))
	b = wire.AppendU64(b, s.ShardOf)
	b = wire.AppendString(b, s.Keeps)
	b = wire.AppendU64(b, s.Messages.Requests)
	return wire.AppendU64(b, s.Messages.Responses)
}

func readSettings(r *wire.Reader) Settings {
	return Settings{
		Shards:   readUint32(r),
		Role:     r.String("role", TypeBytesMax),
		Capacity: readUint32(r),
		ShardOf:  r.U64(),
		Keeps:    r.String("keeps", keepsBytesMax),
		Messages: Shapes{Requests: r.U64(), Responses: r.U64()},
	}
}
