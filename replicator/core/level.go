package core

import (
	"fmt"
	"strconv"
)

// Level says how many replicas a request needs, this one included. Its bits are
// nobody's business: use the constants and functions. The zero Level is Local.
type Level uint64

// A Level is made of its kind, a number (of replicas for To, beyond a majority for
// Majority) and the least number of a Majority.
const (
	levelTo       Level = 1
	levelMajority Level = 2
	levelAll      Level = 3

	levelKinds  = 4
	levelNumMax = 1<<24 - 1
	levelNum    = 8
	levelMinCap = 32
)

const (
	// Local asks this replica alone. It never waits, and needs no lease as all others
	// do (lease.go).
	Local Level = 0
	// PlainMajority is Majority(0, 0).
	PlainMajority = levelMajority
	// All asks every voting member.
	All = levelAll
)

// To asks n replicas, whichever answer first. It promises nothing across
// requests: two sets of n need not meet, also if n is more than half, since former views
// are not counted; for that there is Majority(plus, minCap). To(1) is Local.
func To(n int) Level { return levelTo | number(n)<<levelNum }

// Majority asks more than half of the voting members, plus some more, and at
// least minCap where there are that many: min(N, max(N/2+1+plus, minCap)). With
// plus p, a written value outlives the crash of floor((N-1)/2)+p members at once.
func Majority(plus, minCap int) Level {
	return levelMajority | number(plus)<<levelNum | number(minCap)<<levelMinCap
}

func number(n int) Level { return Level(min(max(n, 0), levelNumMax)) }

func (l Level) kind() Level { return l % levelKinds }
func (l Level) num() int    { return int(l >> levelNum & levelNumMax) }
func (l Level) minCap() int { return int(l >> levelMinCap & levelNumMax) }

// Need returns how many of n voting members the level asks for. The result may
// be above n for To: that level is impossible.
func (l Level) Need(n int) int {
	switch l.kind() {
	case levelTo:
		return max(l.num(), 1)
	case levelMajority:
		return min(n, max(n/2+1+l.num(), l.minCap()))
	case levelAll:
		return n
	}
	return 1
}

// joint reports whether former views count too (quorum.go).
func (l Level) joint() bool { return l.kind() == levelMajority }

// alone reports whether the local replica answers by itself.
func (l Level) alone() bool { return l.kind() == Local || l.kind() == levelTo && l.num() <= 1 }

// String returns local, to(n), majority, majority(+plus, min cap) or all.
func (l Level) String() string {
	switch {
	case l.kind() == levelTo:
		return "to(" + strconv.Itoa(l.num()) + ")"
	case l.kind() == levelMajority && (l.num() > 0 || l.minCap() > 0):
		return fmt.Sprintf("majority(+%d, min %d)", l.num(), l.minCap())
	}
	return l.Name()
}

// Name returns local, to, majority or all: the level without its numbers, for
// the labels of metrics.
func (l Level) Name() string {
	return [levelKinds]string{"local", "to", "majority", "all"}[l.kind()]
}
