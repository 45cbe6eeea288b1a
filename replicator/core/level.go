package core

import (
	"fmt"
	"strconv"
)

// Level says how many replicas a request needs, this one included. The zero
// Level is Local.
type Level struct {
	kind   levelKind
	n      int
	minCap int
}

type levelKind uint8

const (
	levelLocal levelKind = iota
	levelTo
	levelMajority
	levelAll
)

// Local asks this replica alone. It never waits.
var Local = Level{}

// All asks every voting member.
var All = Level{kind: levelAll}

// To asks n replicas, whichever answer first. It promises nothing across
// requests: two sets of n need not meet.
func To(n int) Level { return Level{kind: levelTo, n: n} }

// Majority asks more than half of the voting members, plus some more, and at
// least minCap where there are that many: min(N, max(N/2+1+plus, minCap)). With
// plus p, a written value outlives the crash of floor((N-1)/2)+p members at once.
func Majority(plus, minCap int) Level {
	return Level{kind: levelMajority, n: plus, minCap: minCap}
}

// Need returns how many of n voting members the level asks for. The result may
// be above n for To: that level is impossible.
func (l Level) Need(n int) int {
	switch l.kind {
	case levelTo:
		return max(l.n, 1)
	case levelMajority:
		return min(n, max(n/2+1+max(l.n, 0), l.minCap))
	case levelAll:
		return n
	}
	return 1
}

// joint reports whether former views count too (quorum.go).
func (l Level) joint() bool { return l.kind == levelMajority }

// alone reports whether the local replica answers by itself.
func (l Level) alone() bool { return l.kind == levelLocal || l.kind == levelTo && l.n <= 1 }

// String returns local, to(n), majority, majority(+plus, min cap) or all.
func (l Level) String() string {
	switch l.kind {
	case levelLocal:
		return "local"
	case levelTo:
		return "to(" + strconv.Itoa(l.n) + ")"
	case levelAll:
		return "all"
	}
	if l.n == 0 && l.minCap == 0 {
		return "majority"
	}
	return fmt.Sprintf("majority(+%d, min %d)", l.n, l.minCap)
}

// Name returns local, to, majority or all: the level without its numbers, for
// the labels of metrics.
func (l Level) Name() string {
	return [...]string{"local", "to", "majority", "all"}[l.kind]
}
