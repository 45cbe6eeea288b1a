package main

import "time"

// confirmedWithin is how long a reliable message may wait for its confirmation, not counting
// the time of faults.
const confirmedWithin = int64(10 * time.Second)

// noteSender remembers until when a process is known to have lived: it had a message accepted,
// or a confirmation. Its end takes what it has not had confirmed.
func (c *court) noteSender(r record) {
	switch r.kind {
	case accepted:
		c.senders[r.sender] = max(c.senders[r.sender], r.end)
	case confirmed:
		c.senders[r.sender] = max(c.senders[r.sender], r.start)
	}
}

// producerHistory is what is known of the reliable messages of one process to one counter.
type producerHistory struct {
	accepted, confirmed, delivered []record
}

// judgeReliable judges the reliable messages to one counter.
func (c *court) judgeReliable(records []record) {
	producers := map[uint64]*producerHistory{}
	for _, r := range records {
		if r.kind != accepted && r.kind != confirmed && r.kind != delivered {
			continue
		}
		h := producers[r.sender]
		if h == nil {
			h = &producerHistory{}
			producers[r.sender] = h
		}
		switch r.kind {
		case accepted:
			h.accepted = append(h.accepted, r)
		case confirmed:
			h.confirmed = append(h.confirmed, r)
		default:
			h.delivered = append(h.delivered, r)
		}
	}
	for _, h := range producers {
		c.judgeTurns(h)
		c.judgeGaps(h)
		c.judgeWaits(h)
	}
}

// judgeTurns judges that the numbers of the runs rise, as long as no process may have lost its
// memory between two of them.
func (c *court) judgeTurns(h *producerHistory) {
	p := c.of(reliableInOrder)
	p.checked += len(h.delivered)
	for i, r := range h.delivered {
		if i == 0 {
			continue
		}
		if last := h.delivered[i-1]; r.value <= last.value && !anyTouches(c.anyLost, last.start, r.start) {
			p.breakAt(r.start, "%s follows %s", c.describeRecord(r), c.describeRecord(last))
		}
	}
}

// judgeGaps judges that the first runs of the messages are in the order of their numbers, from 1
// on, with none missing, and that no message was confirmed before its first run.
func (c *court) judgeGaps(h *producerHistory) {
	p := c.of(reliableComplete)
	first := map[uint64]int64{}
	want := uint64(1) // the next message without a run
	for _, r := range h.delivered {
		if _, again := first[r.value]; !again {
			first[r.value] = r.start
		}
		if r.value > want {
			p.breakAt(r.start, "%s, and message %d has no run before", c.describeRecord(r), want)
		}
		if r.value >= want {
			want = r.value + 1
		}
	}
	for _, r := range h.confirmed {
		p.checked++
		if at, found := first[r.value]; !found || at > r.start {
			p.breakAt(r.start, "%s, and no run before", c.describeRecord(r))
		}
	}
}

// judgeWaits judges that each accepted message was confirmed soon, as long as its process lived
// and no fault was going on.
func (c *court) judgeWaits(h *producerHistory) {
	p := c.of(reliableConfirmed)
	had := map[uint64]int64{}
	for _, r := range h.confirmed { // in the order of their start
		if _, found := had[r.value]; !found {
			had[r.value] = r.start
		}
	}
	for _, r := range h.accepted {
		p.checked++
		end, found := had[r.value]
		if !found {
			end = c.senders[r.sender]
		}
		if calm := c.facts.calmBetween(r.end, end); calm > confirmedWithin {
			p.breakAt(r.start, "%s waited until %d, of that %v outside of faults", c.describeRecord(r), end, time.Duration(calm))
		}
	}
}

// calmBetween returns how much of the time between two instants lies within the run and outside
// of its faults.
func (f *facts) calmBetween(from, to int64) (calm int64) {
	at := max(from, f.CalmFrom)
	to = min(to, f.Ended)
	for i := range f.Rounds {
		r := &f.Rounds[i]
		if r.From > at {
			calm += max(0, min(r.From, to)-at)
		}
		at = max(at, r.To)
	}
	return calm + max(0, to-at)
}
