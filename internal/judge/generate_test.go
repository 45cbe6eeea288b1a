package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/history"
)

const ms = clock.Instant(time.Millisecond)

// game is a run that never was: its records are those of a cluster that keeps all promises, until
// a defect is planted.
type game struct {
	rng     *rand.Rand
	post    *rand.Rand // of reliable messages
	cfg     chaos.Config
	rounds  []faults.Round
	stood   history.Span
	machine machine.Summary
	records []history.Record
	homes   []*home // of the counters
	// paused is the last node that was held.
	paused uint64
}

// home is where a counter lives, and what it has counted.
type home struct {
	node, term uint64
	count      uint64
	acked      uint64 // the highest count that a caller has seen
	told       [3]uint64
	reliable   [3]uint64
}

const (
	gameNodes    = 5
	gameCounters = 2
	gameEvery    = 100 * ms
)

// kindsPlayed are the faults of games.
var kindsPlayed = []faults.Kind{faults.Kill, faults.KillMany, faults.Drain, faults.Restart, faults.Stop, faults.Cut, faults.Slow, faults.Delay}

// newGame plays a run of some rounds.
func newGame(seed uint64) *game {
	g := &game{rng: rand.New(rand.NewPCG(seed, 1))}
	g.cfg = chaos.Config{
		Nodes: gameNodes, Counters: gameCounters, Shards: 8, Every: time.Duration(gameEvery), Kinds: "kill",
		Work: []string{"counter", "replicated", "register,set", "replicated,register,set"}[g.rng.IntN(4)],
	}
	if g.rng.IntN(4) == 0 {
		g.cfg.Kinds = "clock"
	}
	if g.cfg.Work == "replicated" {
		g.cfg.Replicas = []int{0, 2, 4}[g.rng.IntN(3)]
	}
	g.cfg.Rounds = 1 + g.rng.IntN(3)
	if g.post = rand.New(rand.NewPCG(seed, 3)); seed%2 == 0 {
		g.cfg.Work += ",reliable"
	}
	if seed%5 == 4 {
		g.machine = machine.Summary{Windows: 20, Starved: 9, Overloaded: true}
	}
	for i := range gameCounters {
		g.homes = append(g.homes, &home{node: uint64(1 + i), term: 1})
	}
	g.stood.From = 1000 * ms
	now := g.play(g.stood.From, g.stood.From+2000*ms)
	for range g.cfg.Rounds {
		now = g.hurt(now)
		if g.machine.Overloaded {
			now = g.starve(now)
		}
		now = g.play(now, now+1500*ms)
	}
	g.stood.To = now + 100*ms
	g.playData(g.stood.From, now)
	return g
}

func (g *game) add(r history.Record) { g.records = append(g.records, r) }

// jitter returns up to n milliseconds, and some nanoseconds.
func (g *game) jitter(n int) clock.Instant {
	return clock.Instant(g.rng.IntN(n))*ms + clock.Instant(g.rng.IntN(1000))
}

// copies returns how many processes keep each count.
func (g *game) copies() int {
	if g.cfg.Replicas == 0 && strings.Contains(g.cfg.Work, "replicated") {
		return 3
	}
	return g.cfg.Replicas
}

// play has each counter asked and told, from one instant to another.
func (g *game) play(from, to clock.Instant) clock.Instant {
	for at := from; at < to; at += gameEvery {
		for i, h := range g.homes {
			g.request(uint32(i), h, at+g.jitter(5), g.rng.IntN(4) > 0)
			for s := range h.told {
				if g.rng.IntN(3) > 0 {
					g.tell(uint32(i), h, s, at+50*ms+g.jitter(5)+clock.Instant(s)*8*ms)
				}
				if g.post.IntN(3) > 0 {
					g.deliver(uint32(i), h, s, at+clock.Instant(g.post.IntN(90))*ms, true)
				}
			}
		}
	}
	return to
}

// request has a counter handle a request. Long-windowed requests were asked some time before.
func (g *game) request(i uint32, h *home, at clock.Instant, prompt bool) {
	due := at
	if !prompt {
		due = max(at-g.jitter(400), g.stood.From)
	}
	start, end := at+2*ms+g.jitter(3), at+6*ms+g.jitter(3)
	h.count++
	caller := uint64(100 + g.rng.IntN(3))
	g.add(history.Record{Op: history.Asked, Entity: i, Node: caller, Start: due})
	g.add(history.Record{Op: history.HandlerStarted, Entity: i, Node: h.node, Term: h.term, Seq: 1, Start: start, Sent: at})
	g.add(history.Record{Op: history.Handled, Entity: i, Node: h.node, Term: h.term, Seq: 1, Value: h.count, Start: start, End: end, Sent: at})
	g.add(history.Record{Op: history.Answered, Entity: i, Node: caller, Value: h.count, Start: due, End: end + ms + g.jitter(20)})
	h.acked = h.count
}

func (g *game) tell(i uint32, h *home, sender int, at clock.Instant) {
	h.told[sender] += 1 + uint64(g.rng.IntN(2))
	g.add(history.Record{Op: history.Told, Entity: i, Node: h.node, Term: h.term, Seq: 1, Value: h.told[sender], Sender: uint64(sender), Start: at, Sent: at - ms})
}

// deliver has a counter handle a reliable message. Its sender may lack the confirmation.
func (g *game) deliver(i uint32, h *home, sender int, at clock.Instant, confirmed bool) {
	h.reliable[sender]++
	r := history.Record{Entity: i, Value: h.reliable[sender], Sender: uint64(sender)}
	add := func(op history.Op, start, end clock.Instant) {
		r.Op, r.Start, r.End = op, start, end
		g.add(r)
	}
	r.Node = uint64(sender)
	add(history.Accepted, at, at+clock.Instant(g.post.IntN(2000)))
	if confirmed {
		add(history.Confirmed, at+ms, 0)
	}
	r.Node, r.Term, r.Seq, r.Sent = h.node, h.term, 1, at
	add(history.Delivered, at+ms/2, 0)
}

// redeliver has the next home of a counter handle the last messages of each sender again, whose
// confirmation a fault took. The process of another sender ends with a message in flight.
func (g *game) redeliver(i uint32, old, h *home, r *faults.Round) {
	again := r.From + 900*ms
	for s := range h.reliable {
		from := h.reliable[s] + 1
		for n := range g.post.IntN(3) {
			at := r.From - 6*ms + clock.Instant(n)*ms
			old.reliable[s] = h.reliable[s]
			g.deliver(i, old, s, at, false)
			h.reliable[s]++
		}
		for n := from; n <= h.reliable[s]; n++ {
			again += ms
			g.add(history.Record{Op: history.Delivered, Entity: i, Node: h.node, Term: h.term, Seq: 1, Value: n, Sender: uint64(s), Start: again, Sent: again - ms})
			g.add(history.Record{Op: history.Confirmed, Entity: i, Node: uint64(s), Value: n, Sender: uint64(s), Start: again + ms/2})
		}
	}
	gone := history.Record{Op: history.Accepted, Entity: i, Node: 9, Value: 1, Sender: uint64(40 + r.Number), Start: r.From - 5*ms, End: r.From - 4*ms}
	g.add(gone)
}

// hurt plays a fault, and returns when it is over.
func (g *game) hurt(now clock.Instant) clock.Instant {
	r := faults.Round{Number: len(g.rounds) + 1, Kind: kindsPlayed[g.rng.IntN(len(kindsPlayed))], From: now + g.jitter(10), TookEffect: true}
	hurt := 1
	r.KeepsMemory = r.Kind == faults.Delay && g.rng.IntN(2) == 0
	if r.Kind == faults.KillMany {
		hurt = 1 + g.rng.IntN(gameNodes-1)
	}
	for _, n := range g.rng.Perm(gameNodes)[:hurt] {
		r.Places, r.Nodes = append(r.Places, string(rune('a'+n))), append(r.Nodes, uint64(n+1))
	}
	if r.Kind == faults.Stop {
		r.HeldFrom, r.HeldTo = r.From+ms, r.From+3000*ms
		g.paused = r.Nodes[0]
	}
	r.To = r.From + 3500*ms
	for i, h := range g.homes {
		if slices.Contains(r.Nodes, h.node) {
			g.move(uint32(i), h, &r)
		}
		for at := r.From + 1000*ms; at < r.To; at += gameEvery {
			g.request(uint32(i), h, at+g.jitter(5), true)
		}
	}
	g.rounds = append(g.rounds, r)
	return r.To + 20*ms
}

// starve removes the host of some counter, which waited too long for a processor, and returns when
// the counters live elsewhere.
func (g *game) starve(now clock.Instant) clock.Instant {
	victim := g.homes[g.post.IntN(len(g.homes))].node
	at := now + clock.Instant(g.post.IntN(5))*ms
	g.add(history.Record{Op: history.Excluded, Node: 1 + victim%gameNodes, Sender: victim, Start: at})
	for i, h := range g.homes {
		if h.node != victim {
			continue
		}
		old := *h
		h.node, h.term = 1+victim%gameNodes, h.term+1
		if g.copies() == 0 {
			h.count = 0
		}
		g.redeliver(uint32(i), &old, h, &faults.Round{Number: 50 + len(g.rounds), From: at})
	}
	return now + 1200*ms
}

// move gives a counter its next home, with what its fault leaves of its count.
func (g *game) move(i uint32, h *home, r *faults.Round) {
	old := *h
	for h.node == old.node {
		h.node = uint64(1 + g.rng.IntN(gameNodes))
	}
	h.term += 1 + uint64(g.rng.IntN(3))
	if !r.LosesMemory() {
		return
	}
	before := old
	g.redeliver(i, &before, h, r)
	// A request that was in flight counts at the old home, and has no answer.
	if g.rng.IntN(2) == 0 {
		begin := r.From - 4*ms + g.jitter(2)
		end := begin + ms
		if r.HeldTo != 0 && g.rng.IntN(2) == 0 {
			end = r.HeldTo + 2*ms // it ran when the pause began
		}
		g.add(history.Record{Op: history.HandlerStarted, Entity: i, Node: old.node, Term: old.term, Seq: 1, Start: begin, Sent: begin - ms})
		if g.rng.IntN(3) > 0 {
			g.add(history.Record{Op: history.Handled, Entity: i, Node: old.node, Term: old.term, Seq: 1, Value: old.count + 1, Start: begin, End: end, Sent: begin - ms})
		}
	}
	// The pause held a handler back that had checked its lease.
	if r.HeldTo != 0 && g.rng.IntN(2) == 0 {
		begin := r.HeldTo + ms + g.jitter(5)
		late := history.Record{Op: history.Handled, Entity: i, Node: old.node, Term: old.term, Seq: 1, Value: old.count + 2, Start: begin, End: begin + ms, Sent: r.HeldFrom - ms}
		if g.rng.IntN(2) == 0 {
			late.Op, late.Sender, late.Value, late.End = history.Told, 0, old.told[0]+1, 0
		}
		g.add(late)
	}
	switch {
	case g.copies() == 0:
		h.count = 0
	case 2*r.Lost() > g.copies():
		h.count = uint64(g.rng.Int64N(int64(h.count) + 1))
	}
}

// playData writes and reads a register, a set and entries.
func (g *game) playData(from, to clock.Instant) {
	last, value := uint64(0), uint64(7)
	number := uint32(0)
	for at := from; at < to; at += 250 * ms {
		began := at + g.jitter(20)
		g.add(history.Record{Op: history.Seen, Value: last, Node: 3, Start: began, End: began + 5*ms})
		value++
		g.add(history.Record{Op: history.Wrote, Value: value, Node: 2, Start: began + 10*ms, End: began + 20*ms})
		g.add(history.Record{Op: history.Seen, Value: []uint64{last, value}[g.rng.IntN(2)], Node: 4, Start: began + 15*ms, End: began + 25*ms})
		last = value
		number++
		g.add(history.Record{Op: history.Added, Entity: number, Sender: 9, Start: began, End: began + 3*ms})
		g.add(history.Record{Op: history.Contained, Entity: number, Sender: 9, Value: 1, Node: 4, Start: began + 10*ms, End: began + 12*ms})
		g.add(history.Record{Op: history.Contained, Entity: number + 1, Sender: 9, Node: 4, Start: began + 10*ms, End: began + 12*ms})
		g.add(history.Record{Op: history.Appended, Entity: number, Sender: 9, Start: began, End: began + 3*ms})
		g.add(history.Record{Op: history.ReadBack, Entity: number, Sender: 9, Value: 1, Node: 4, Start: began + 10*ms, End: began + 12*ms})
	}
}

// some returns the index of a record of an operation that began at rest: outside of all rounds,
// and not at the very begin of a counter.
func (g *game) some(op history.Op, fits func(history.Record) bool) int {
	var found []int
	for i, r := range g.records {
		calm := !slices.ContainsFunc(g.rounds, func(ro faults.Round) bool { return ro.From-500*ms < r.Start && r.Start < ro.To+200*ms })
		if r.Op == op && calm && r.Start > g.stood.From+500*ms && (fits == nil || fits(r)) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return -1
	}
	return found[g.rng.IntN(len(found))]
}

// inOrder sorts the records by their start, as the checker of chaos has them.
func (g *game) inOrder() []history.Record {
	out := slices.Clone(g.records)
	slices.SortStableFunc(out, func(a, b history.Record) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// listed is a source of records in memory.
type listed []record

func (l listed) each(use func(record) error) error {
	for _, r := range l {
		if err := use(r); err != nil {
			return err
		}
	}
	return nil
}

func (l listed) name(uint16) string { return "memory" }

// asSource returns records as the judge reads them.
func asSource(records []history.Record) listed {
	var out listed
	for i, r := range records {
		out = append(out, record{
			kind: kind(r.Op), entity: r.Entity, number: uint32(i), node: r.Node, token: token{r.Term, r.Seq}, value: r.Value,
			start: int64(r.Start), end: int64(r.End), sender: r.Sender, sent: int64(r.Sent),
		})
	}
	return out
}
