package main

import (
	"fmt"
	"strings"
	"time"
)

// court judges one run. It sees the records of one subject at a time.
type court struct {
	facts    *facts
	src      source
	promises []*promise
	byName   map[string]*promise

	// anyLost, mostCopies and halfOfNodes are when a process, a majority of the copies of a count,
	// and half of all processes may have lost their memory.
	anyLost, mostCopies, halfOfNodes []span
	// admitted counts, for each round, the handlers that its pause may have held back.
	admitted map[int]int
	// export collects the operations, nil if they are not wanted.
	export *exporter
	// met counts the counters that have a record.
	met int
	// senders has, for each process that sends reliable messages, its last sign of life.
	senders map[uint64]int64
	// promptly counts the answers before the first fault.
	promptly int
}

// newCourt returns a court with the promises of a run.
func newCourt(f *facts, src source) *court {
	c := &court{facts: f, src: src, byName: map[string]*promise{}, admitted: map[int]int{}, senders: map[uint64]int64{}}
	c.anyLost, c.mostCopies, c.halfOfNodes = f.anyLost(), f.majorityLost(f.copies()), f.halfLost(f.Config.Nodes)
	c.addPromise(faultsPlayed, true)
	c.addPromise(loadStood, false)
	if f.Config.Service != nil {
		c.addService(f.Config.Service)
	} else {
		c.addNodes()
	}
	c.addPromise(servedAgain, true)
	c.addPromise(allAnswered, true)
	if f.Config.Rolling && f.Config.Service == nil {
		c.addPromise(noAskFailed, true)
		if !f.Config.InPlace {
			c.addPromise(fewMoves, false)
		}
	}
	return c
}

func (c *court) addService(s *service) {
	if s.Counter == nil {
		c.addPromise(registerLinear, false)
		return
	}
	c.addPromise(countOnce, false)
	c.addPromise(callersLost, false)
	c.addPromise(counterLinear, false)
}

func (c *court) addNodes() {
	c.addPromise(oneInstance, false)
	c.addPromise(nothingLost, false)
	if n := c.facts.copies(); n > 0 {
		c.byName[copiesKeep] = c.addPromise(fmt.Sprintf(copiesKeep, n), false)
	}
	c.addPromise(inOrder, false)
	c.addPromise(counterLinear, false)
	c.addPromise(tokensRise, false)
	if c.facts.onDisk() || c.facts.hasWorkload("register") {
		c.addPromise(registerFresh, false)
	}
	if c.facts.hasWorkload("set") {
		c.addPromise(setComplete, false)
	}
	if c.facts.hasWorkload("reliable") {
		c.addPromise(reliableInOrder, false)
		c.addPromise(reliableComplete, false)
		c.addPromise(reliableConfirmed, true)
	}
	if c.facts.onDisk() {
		c.addPromise(diskKeeps, false)
	}
	c.addPromise(answersFounded, false)
}

func (c *court) addPromise(name string, availability bool) *promise {
	p := &promise{name: name, availability: availability}
	c.promises, c.byName[name] = append(c.promises, p), p
	return p
}

// of returns the promise of a name. For a promise that the run does not give, it returns one
// that is judged but not printed.
func (c *court) of(name string) *promise {
	if p := c.byName[name]; p != nil {
		return p
	}
	return &promise{}
}

// judge reads the records, and judges all promises.
func (c *court) judge(l limits) error {
	groups, err := batches(c.src, l)
	if err != nil {
		return err
	}
	if err := c.countAdmitted(groups); err != nil {
		return err
	}
	if err := c.readAhead(); err != nil {
		return err
	}
	err = bySubject(c.src, groups, func(s subject, records []record) {
		switch s.space {
		case ofEntry:
			c.judgePresence(diskKeeps, "entry", records, nil)
		case ofElement:
			c.judgePresence(setComplete, "element", records, c.halfOfNodes)
		default:
			c.judgeEntity(records)
		}
	})
	if err != nil {
		return err
	}
	c.judgeMissing()
	c.judgeFaults()
	c.judgeLoad()
	c.judgeAttempts()
	return nil
}

// readAhead reads all records once for those that matter to other subjects than their own: signs of
// life of processes, and removals of nodes that had too little processor time. Such a node loses
// its memory as in a fault.
func (c *court) readAhead() error {
	removed := c.facts.overloaded()
	if !removed && !c.facts.hasWorkload("reliable") {
		return nil
	}
	err := c.src.each(func(r record) error {
		c.noteSender(r)
		if removed && r.kind == excluded {
			c.anyLost = append(c.anyLost, span{r.start, r.start + 1})
			c.facts.noteRemoved(r.sender, r.start)
		}
		return nil
	})
	c.mostCopies = c.facts.majorityLost(c.facts.copies())
	return err
}

// judgeEntity judges the records of one counter, and of the register with its number.
func (c *court) judgeEntity(records []record) {
	if s := c.facts.Config.Service; s != nil {
		if s.Counter != nil {
			c.judgeOutsideCounter(records)
		} else {
			c.judgeOutsideRegister(records)
		}
	} else {
		c.judgeCounter(records)
		c.judgeReliable(records)
		c.judgeRegister(records)
	}
	c.judgeService(records)
}

// judgeFaults judges from the report alone whether the faults were what the run asked for.
func (c *court) judgeFaults() {
	p, f := c.of(faultsPlayed), c.facts
	want := f.Config.Rounds
	if f.Config.Rolling {
		want = f.Config.Nodes
	}
	for _, r := range f.Rounds {
		if r.TookEffect {
			p.checked++
		}
	}
	switch {
	case f.EndedEarly != "" && (strings.Contains(f.EndedEarly, "context canceled") || f.CalmFrom == 0):
		p.doubt = "the run ended early: " + f.EndedEarly
	case f.EndedEarly != "":
		p.breakAt(f.Ended, "%s", f.EndedEarly)
	case p.checked < want:
		p.doubt = fmt.Sprintf("%d of %d faults had an effect", p.checked, want)
	}
}

// loadLeast is the part of the load that a run must have answered before its first fault.
const loadLeast = 0.9

// judgeLoad judges whether the load stood before the first fault.
func (c *court) judgeLoad() {
	p, f := c.of(loadStood), c.facts
	p.checked = c.promptly
	if f.Config.Every <= 0 {
		return
	}
	seconds := time.Duration(c.calmEnd() - f.CalmFrom).Seconds()
	due := seconds * float64(f.Config.Counters) / f.Config.Every.Seconds()
	if seconds <= 0 || float64(c.promptly) < loadLeast*due {
		p.doubt = fmt.Sprintf("%d answers before the first fault, of %.0f that were due", c.promptly, due)
	}
}

// calmEnd is when the first fault began.
func (c *court) calmEnd() int64 {
	if len(c.facts.Rounds) > 0 {
		return c.facts.Rounds[0].From
	}
	return c.facts.Ended
}

// judgeAttempts judges a rolling restart by the attempts that its callers report.
func (c *court) judgeAttempts() {
	p := c.of(noAskFailed)
	p.checked = c.of(allAnswered).checked
	for reason, n := range c.facts.FailedAttempts {
		p.breakAt(c.facts.Ended, "%d attempts failed: %s", n, reason)
	}
}

// describeRecord words a record with its place in the files.
func (c *court) describeRecord(r record) string {
	place := fmt.Sprintf("%s[%d] %s", c.src.name(r.file), r.number, kindNames[r.kind])
	what := fmt.Sprintf("%s by %016x", place, r.node)
	switch r.kind {
	case handled, handlerStarted, told, delivered:
		what += fmt.Sprintf(" under token %d/%d", r.token.term, r.token.seq)
	}
	switch r.kind {
	case told, accepted, confirmed, delivered:
		what += fmt.Sprintf(", message %d of process %016x", r.value, r.sender)
	case appended, readBack, added, contained:
		what += fmt.Sprintf(", number %d of process %016x", r.entity, r.sender)
	case handled, answered, counted, wrote, seen:
		what += fmt.Sprintf(", value %d", r.value)
	}
	if r.kind.hasEnd() {
		return fmt.Sprintf("(%s, %d to %d)", what, r.start, r.end)
	}
	return fmt.Sprintf("(%s, at %d)", what, r.start)
}
