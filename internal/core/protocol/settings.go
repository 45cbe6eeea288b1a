package protocol

import (
	"fmt"
	"strconv"
)

// SettingType stands, as Conflict.Setting, for a type that a node does not run at all.
const SettingType = "type"

// Settings are a node's settings of the type, sent when it registers.
type Settings struct {
	// Shards and Role must be equal on all nodes. Shards are zero where the type is not
	// run.
	Shards uint32
	Role   string
	// Capacity is the node's own: its weight relative to the other hosts.
	// Zero counts as one.
	Capacity uint32
	// ShardOf distinguishes the functions from id to shard. It must be equal on all
	// nodes, and is zero for the default.
	ShardOf uint64
	// Keeps describes, in words, what is kept of the entities beyond their lives. It must be
	// equal on all nodes that host; nodes that do not host send "".
	Keeps string
	// Messages are compared, but may differ: versions of a program do.
	Messages Shapes
}

// Shapes are fingerprints of the wire format of a type's messages. Zero is unknown,
// and differs from no other value.
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

// Conflict is a setting that must be equal and is not. The zero value stands for no
// conflict.
type Conflict struct {
	// Setting is its name, "" for none; Here and There are the values of the two.
	Setting, Here, There string
}

// String returns the differing setting with both values.
func (c Conflict) String() string {
	return c.Setting + " is " + c.Here + " here, " + c.There + " there"
}

// Swap returns the conflict as the other node sees it.
func (c Conflict) Swap() Conflict { return Conflict{Setting: c.Setting, Here: c.There, There: c.Here} }

// Compare returns the first setting in which here and there differ. A node that does
// not run the type conflicts with none.
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

// functionName is the name of a function in a conflict.
func functionName(print uint64) string {
	if print == 0 {
		return "the hash"
	}
	return fmt.Sprintf("custom (%016x)", print)
}

// keepsBytesMax bounds Settings.Keeps.
const keepsBytesMax = 200
