package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// verdict is the result of judging a promise.
type verdict string

const (
	pass    verdict = "PASS"
	fail    verdict = "FAIL"
	unknown verdict = "UNKNOWN"
)

// The promises, by the names that the report of a run has for them.
const (
	faultsPlayed  = "every fault took effect, and all nodes agreed afterwards"
	loadStood     = "the load stood before the first fault"
	oneInstance   = "no counter had two live instances"
	nothingLost   = "nothing acknowledged was lost by an instance or by an orderly move"
	copiesKeep    = "nothing acknowledged was lost unless a majority of its %d copies was"
	inOrder       = "messages of each process were handled in the order in which it sent them"
	counterLinear = "each counter is linearizable"
	tokensRise    = "no token of a shard went back, in any life of the cluster"
	registerFresh = "a register shows no write that was overwritten"
	setComplete   = "a set contains what was added to it"
	// These three are about reliable messages.
	reliableInOrder   = "reliable messages were handled in order, and again only after the loss of a home"
	reliableComplete  = "no reliable message was left out"
	reliableConfirmed = "every reliable message was confirmed within 10s of calm, unless its process ended first"

	diskKeeps      = "nothing acknowledged on disk was lost"
	answersFounded = "every answer was counted by an instance while its caller waited"
	servedAgain    = "every counter was answered again within 10s of every fault"
	allAnswered    = "every request was answered, unless its caller's process ended first"
	noAskFailed    = "no ask failed, not even once"
	fewMoves       = "no shard moved more than 2 times"
	countOnce      = "no two requests had the same count"
	callersLost    = "nothing acknowledged was lost as its callers saw it"
	registerLinear = "each register is linearizable"
)

// promise is one line of the verdict.
type promise struct {
	name string
	// availability is set for promises that an overloaded machine excuses.
	availability bool
	checked      int
	// broken are the first violations by their time, all is how many there were.
	broken []violation
	all    int
	// doubt is why the promise is not shown, "" if it is.
	doubt string
}

// violation is what breaks a promise: words, and the record to look at.
type violation struct {
	at    int64
	words string
}

// violationsKept bounds the violations that are kept of a promise.
const violationsKept = 1000

func (p *promise) breakAt(at int64, format string, args ...any) {
	if p.all++; len(p.broken) >= 2*violationsKept {
		p.sortBroken()
		p.broken = p.broken[:violationsKept]
	}
	p.broken = append(p.broken, violation{at, fmt.Sprintf(format, args...)})
}

func (p *promise) sortBroken() {
	slices.SortStableFunc(p.broken, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
}

// verdict returns the verdict: a broken promise fails, and one that was never checked, or that
// something makes doubtful, is unknown.
func (p *promise) verdict(overloaded bool) verdict {
	switch {
	case p.all > 0 && p.availability && overloaded:
		return unknown
	case p.all > 0:
		return fail
	case p.doubt != "" || p.checked == 0:
		return unknown
	}
	return pass
}

// violationsPrinted is how many violations of a promise are printed.
const violationsPrinted = 5

// printPromise prints the line of a promise, and below it what breaks it.
func (p *promise) printPromise(w io.Writer, f *facts) {
	v := p.verdict(f.overloaded())
	fmt.Fprintf(w, "%-7s  %s (%d checked)\n", v, p.name, p.checked)
	switch {
	case p.doubt != "":
		fmt.Fprintf(w, "         %s\n", p.doubt)
	case p.all == 0 && p.checked == 0:
		fmt.Fprintf(w, "         no record is about it\n")
	case p.all > 0 && v == unknown:
		fmt.Fprintf(w, "         the machine was overloaded: %d of %d seconds\n", f.Machine.Starved, f.Machine.Windows)
	}
	p.sortBroken()
	for i, b := range p.broken {
		if i == violationsPrinted {
			fmt.Fprintf(w, "         and %d more\n", p.all-i)
			break
		}
		fmt.Fprintf(w, "         %s: %s\n", f.when(b.at), b.words)
	}
}

// worst returns the verdict of all promises: a failed one decides, then an unknown one.
func worst(all []*promise, overloaded bool) verdict {
	out := pass
	for _, p := range all {
		switch v := p.verdict(overloaded); {
		case v == fail:
			return fail
		case v == unknown:
			out = unknown
		}
	}
	return out
}
