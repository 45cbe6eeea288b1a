package view

import "github.com/peerage-go/peerage/gossip"

// Views of one cluster form a line, as long as evidence of death is right. When a
// living node was proven dead, an emergency takeover may open a second line beside
// the first. When the two meet, one must yield, and both sides must choose the same: the
// line without an emergency takeover at the point where they part wins. Between two with
// one, the line wins that kept more members of the last common view, then the one with
// the higher epoch. The members of the other return as new incarnations.
//
// A view carries the emergency takeovers of its history (Forks), which suffice to decide:
// within a generation there is one view per epoch.

// relation is the relation of another view to ours.
type relation uint8

const (
	same         relation = iota
	newer                 // the other continues our line
	older                 // ours continues the other's line
	wins                  // the lines have parted, ours wins
	loses                 // the lines have parted, ours loses
	otherCluster          // the other is of another cluster
)

// compareViews returns the relation of view b to view a.
func compareViews(a, b *gossip.View) relation {
	if a.Cluster != b.Cluster {
		return otherCluster
	}
	fa, fb := partingForks(a.Forks, b.Forks)
	switch {
	case fa == nil && fb == nil:
		return byEpoch(a.Epoch, b.Epoch)
	case fb == nil:
		// a went through a takeover that b does not include.
		if b.Epoch <= fa.From {
			return older
		}
		return loses
	case fa == nil:
		if a.Epoch <= fb.From {
			return newer
		}
		return wins
	case fa.From != fb.From:
		// At the earlier point one line took over and the other continued in order.
		if fa.From < fb.From {
			return loses
		}
		return wins
	}
	if betterFork(fa, fb) {
		return wins
	}
	return loses
}

func byEpoch(a, b gossip.Epoch) relation {
	switch {
	case a < b:
		return newer
	case a > b:
		return older
	}
	return same
}

func betterFork(a, b *gossip.Fork) bool {
	if a.Kept != b.Kept {
		return a.Kept > b.Kept
	}
	if a.To != b.To {
		return a.To > b.To
	}
	return a.By > b.By
}

// partingForks returns the first takeovers behind the common history of two lines, nil
// where a line has none. Lists may have lost their oldest entries.
func partingForks(a, b []gossip.Fork) (fa, fb *gossip.Fork) {
	a, b = trimForks(a, b), trimForks(b, a)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if len(a) > 0 {
		fa = &a[0]
	}
	if len(b) > 0 {
		fb = &b[0]
	}
	return fa, fb
}

// trimForks drops the entries of a that b has lost, being full.
func trimForks(a, b []gossip.Fork) []gossip.Fork {
	for len(b) == forksMax && len(a) > 0 && a[0].To < b[0].To {
		a = a[1:]
	}
	return a
}

// forksMax bounds the history that a view carries; the oldest entries go first.
const forksMax = 128

func withFork(forks []gossip.Fork, f gossip.Fork) []gossip.Fork {
	if len(forks) >= forksMax {
		forks = forks[len(forks)-forksMax+1:]
	}
	return append(forks[:len(forks):len(forks)], f)
}
