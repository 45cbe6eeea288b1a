package replicator

import (
	"fmt"
	"strconv"
)

// Level is the number of replicas that a request needs, including this one. Its bits are
// private: use the constants and functions. The zero Level is Local.
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
	// Local needs only this replica. It never waits, and needs no lease, which all other
	// levels do.
	Local Level = 0
	// PlainMajority is Majority(0, 0).
	PlainMajority = levelMajority
	// All needs every voting member.
	All = levelAll
)

// To needs the first n replicas that answer. It promises nothing across requests: two sets
// of n need not meet, even if n is more than half, since former views are not counted.
// Majority sets do meet. To(1) is Local.
func To(n int) Level { return levelTo | number(n)<<levelNum }

// Majority needs more than half of the voting members, plus some more, and at least minCap
// where there are that many: min(N, max(N/2+1+plus, minCap)). With plus p, a written value
// survives the simultaneous crash of floor((N-1)/2)+p members.
func Majority(plus, minCap int) Level {
	return levelMajority | number(plus)<<levelNum | number(minCap)<<levelMinCap
}

func number(n int) Level { return Level(min(max(n, 0), levelNumMax)) }

func (l Level) levelKind() Level { return l % levelKinds }
func (l Level) num() int         { return int(l >> levelNum & levelNumMax) }
func (l Level) minCap() int      { return int(l >> levelMinCap & levelNumMax) }

// Need returns the number of replicas that the level needs of n voting members. For To, the
// result may be above n: that level is impossible.
func (l Level) Need(n int) int {
	switch l.levelKind() {
	case levelTo:
		return max(l.num(), 1)
	case levelMajority:
		return min(n, max(n/2+1+l.num(), l.minCap()))
	case levelAll:
		return n
	}
	return 1
}

// Joint reports whether the voters of former views count too, as they do for majorities.
func (l Level) Joint() bool { return l.levelKind() == levelMajority }

// Alone reports whether this replica alone answers the request.
func (l Level) Alone() bool {
	return l.levelKind() == Local || l.levelKind() == levelTo && l.num() <= 1
}

// String returns local, to(n), majority, majority(+plus, min cap) or all.
func (l Level) String() string {
	switch {
	case l.levelKind() == levelTo:
		return "to(" + strconv.Itoa(l.num()) + ")"
	case l.levelKind() == levelMajority && (l.num() > 0 || l.minCap() > 0):
		return fmt.Sprintf("majority(+%d, min %d)", l.num(), l.minCap())
	}
	return l.Name()
}

// Name returns local, to, majority or all: the level without its numbers, for
// the labels of metrics.
func (l Level) Name() string {
	return [levelKinds]string{"local", "to", "majority", "all"}[l.levelKind()]
}
