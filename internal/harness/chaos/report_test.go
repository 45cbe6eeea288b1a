package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/history"
)

// planted is a run of two rounds with a record in which nothing is wrong: counter 0
// lives on node 1, which is killed at 2 s and followed by node 2, which hands it to
// node 3 at 6 s.
func planted(cfg Config) (*campaign, []history.Record) {
	const ms = clock.Instant(time.Millisecond)
	cfg.Counters, cfg.Rounds, cfg.Every = 1, 2, 50*time.Millisecond
	c := &campaign{
		cfg: &cfg, fleet: &fleet.Fleet{}, began: time.Now(), calmFrom: 0, ended: 9000 * ms,
		faults: &faults.Injector{Rounds: []faults.Round{
			{Number: 1, Kind: faults.Kill, Places: []string{"a"}, Nodes: []uint64{1}, From: 2000 * ms, To: 2500 * ms, TookEffect: true},
			{Number: 2, Kind: faults.Drain, Places: []string{"b"}, Nodes: []uint64{2}, From: 6000 * ms, To: 6500 * ms, TookEffect: true},
		}},
	}
	var records []history.Record
	value := uint64(0)
	for at := clock.Instant(0); at < 9000*ms; at += 50 * ms {
		node := uint64(1)
		switch {
		case at >= 6000*ms:
			node = 3
		case at >= 2000*ms:
			node = 2
		}
		if value++; at == 2000*ms {
			value = 1
		}
		records = append(records,
			history.Record{Op: history.Asked, Node: 9, Start: at + ms},
			history.Record{Op: history.Handled, Node: node, Term: node, Seq: 1, Value: value, Start: at + 2*ms, End: at + 3*ms},
			history.Record{Op: history.Answered, Node: 9, Value: value, Start: at + ms, End: at + 4*ms},
			history.Record{Op: history.Told, Node: node, Term: node, Seq: 1, Sender: 9, Value: uint64(at/ms) + 1, Start: at + 5*ms})
	}
	return c, records
}

// removedAt4s has node 4 remove node 2 at 4 s, and count from 1 again.
func removedAt4s(records []history.Record) []history.Record {
	const ms = clock.Instant(time.Millisecond)
	lost := uint64(0)
	for i := range records {
		rec := &records[i]
		if rec.Start < 4000*ms || rec.Op == history.Told || rec.Op == history.Asked {
			continue
		}
		if lost == 0 {
			lost = rec.Value - 1
		}
		rec.Value -= lost
		if rec.Op == history.Handled && rec.Node == 2 {
			rec.Node, rec.Seq = 4, 2
		}
	}
	for i := range records {
		if rec := &records[i]; rec.Op == history.Told && rec.Node == 2 && rec.Start >= 4000*ms {
			rec.Node, rec.Seq = 4, 2
		}
	}
	return append(records, history.Record{Op: history.Excluded, Node: 4, Sender: 2, Start: 4000*ms - 20*ms})
}

// dataRecords are two writes of a register, an entry, and reads that return both; that of
// the register returns the value last.
func dataRecords(last uint64) []history.Record {
	const ms = clock.Instant(time.Millisecond)
	return []history.Record{
		{Op: history.Wrote, Value: 7, Start: 3000 * ms, End: 3001 * ms},
		{Op: history.Wrote, Value: 8, Start: 3002 * ms, End: 3003 * ms},
		{Op: history.Seen, Value: last, Start: 3004 * ms, End: 3005 * ms},
		{Op: history.Appended, Entity: 1, Sender: 4, Start: 3000 * ms, End: 3001 * ms},
		{Op: history.ReadBack, Entity: 1, Sender: 4, Value: 1, Start: 4000 * ms, End: 4001 * ms},
	}
}

// reliableRecords are the reliable messages of process 8 to counter 0, one in 100 ms.
func reliableRecords() (records []history.Record) {
	const ms = clock.Instant(time.Millisecond)
	for number, at := uint64(1), 10*ms; at < 8900*ms; number, at = number+1, at+100*ms {
		node := uint64(1)
		switch {
		case at >= 6000*ms:
			node = 3
		case at >= 2000*ms:
			node = 2
		}
		records = append(records,
			history.Record{Op: history.Accepted, Node: 9, Sender: 8, Value: number, Start: at, End: at + ms},
			history.Record{Op: history.Delivered, Node: node, Term: node, Seq: 1, Sender: 8, Value: number, Start: at + 2*ms, Sent: at},
			history.Record{Op: history.Confirmed, Node: 9, Sender: 8, Value: number, Start: at + 3*ms})
	}
	return records
}

// A check that never fails proves nothing: each planted violation is found, under
// its own name.
func TestPlantedViolationsAreFound(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	at := func(r history.Record, op history.Op, from clock.Instant) bool { return r.Op == op && r.Start >= from }
	for name, tc := range map[string]struct {
		plant   func(c *campaign, records []history.Record) []history.Record
		cfg     Config
		finds   string
		Verdict string
	}{
		"nothing": {func(_ *campaign, r []history.Record) []history.Record { return r }, Config{}, "", Passed},
		"the killed acts on": {func(_ *campaign, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Handled, Node: 1, Term: 1, Seq: 1, Value: 41, Start: 3000 * ms, End: 3001 * ms})
		}, Config{}, "two live instances|acknowledged was lost|went back", Failed},
		"a move loses the count": {func(_ *campaign, r []history.Record) []history.Record {
			for i := range r {
				if r[i].Value > 0 && r[i].Op != history.Told && at(r[i], r[i].Op, 6000*ms) {
					r[i].Value -= 80
				}
			}
			return r
		}, Config{}, "acknowledged was lost|linearizable", Failed},
		"a kill takes what copies should have kept": {func(_ *campaign, r []history.Record) []history.Record { return r },
			Config{Replicas: 3}, "majority of its 3 copies was|linearizable", Failed},
		"a kill takes more copies than may be": {func(c *campaign, r []history.Record) []history.Record {
			c.faults.Rounds[0].Places = []string{"a", "b"}
			return r
		}, Config{Replicas: 3}, "", Passed},
		"a kill beside which an overloaded machine removes another member takes the counts of both": {func(c *campaign, r []history.Record) []history.Record {
			c.machine.Overloaded = true
			return append(r, history.Record{Op: history.Excluded, Node: 2, Sender: 7, Start: 2100 * ms})
		}, Config{Replicas: 3}, "", Passed},
		"a kill on an overloaded machine takes what copies should have kept": {func(c *campaign, r []history.Record) []history.Record {
			c.machine.Overloaded = true
			return append(r, history.Record{Op: history.Excluded, Node: 2, Sender: 1, Start: 2100 * ms})
		}, Config{Replicas: 3}, "majority of its 3 copies was|linearizable", Failed},
		"a kill beside which another member is removed, on a machine with time to spare": {func(_ *campaign, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Excluded, Node: 2, Sender: 7, Start: 2100 * ms})
		}, Config{Replicas: 3}, "majority of its 3 copies was|linearizable", Failed},
		"a kill, when an overloaded machine had removed a member before it": {func(c *campaign, r []history.Record) []history.Record {
			c.machine.Overloaded = true
			return append(r, history.Record{Op: history.Excluded, Node: 2, Sender: 7, Start: 1900 * ms})
		}, Config{Replicas: 3}, "majority of its 3 copies was|linearizable", Failed},
		"a kill of one takes what one of two copies should have kept": {func(_ *campaign, r []history.Record) []history.Record { return r },
			Config{Replicas: 2}, "majority of its 2 copies was|linearizable", Failed},
		"a message of a former incarnation comes late": {func(_ *campaign, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Told, Node: 2, Term: 2, Seq: 1, Sender: 9, Value: 2500, Start: 5500 * ms})
		}, Config{}, "in the order in which it sent", Failed},
		"an answer out of nowhere": {func(_ *campaign, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Answered, Node: 9, Value: 1000, Start: 3000 * ms, End: 3001 * ms})
		}, Config{}, "counted by an instance|linearizable", Failed},
		"no counter is served after 6 s": {func(_ *campaign, r []history.Record) []history.Record {
			var out []history.Record
			for _, rec := range r {
				if rec.Start.Before(6000 * ms) {
					out = append(out, rec)
				}
			}
			return out
		}, Config{}, "answered again within", Failed},
		"a caller gives up": {func(_ *campaign, r []history.Record) []history.Record {
			return append(r, history.Record{Op: history.Failed, Node: 9, Start: 3000 * ms, End: 3001 * ms})
		}, Config{}, "every request was answered", Failed},
		"a caller gives up on an overloaded machine": {func(c *campaign, r []history.Record) []history.Record {
			c.machine.Overloaded = true
			return append(r, history.Record{Op: history.Failed, Node: 9, Start: 3000 * ms, End: 3001 * ms})
		}, Config{}, "every request was answered", Unknown},
		"a node that no fault concerned was removed, and its count is lost": {func(_ *campaign, r []history.Record) []history.Record {
			return removedAt4s(r)
		}, Config{}, "acknowledged was lost|linearizable", Failed},
		"so on an overloaded machine": {func(c *campaign, r []history.Record) []history.Record {
			c.machine.Overloaded = true
			return removedAt4s(r)
		}, Config{}, "", Passed},
		"an overloaded machine excuses no second instance": {func(c *campaign, r []history.Record) []history.Record {
			c.machine.Overloaded = true
			return append(r, history.Record{Op: history.Handled, Node: 1, Term: 1, Seq: 1, Value: 41, Start: 3000 * ms, End: 3001 * ms})
		}, Config{}, "two live instances|acknowledged was lost|went back", Failed},
		"a fault without effect": {func(c *campaign, r []history.Record) []history.Record {
			c.faults.Rounds[0].TookEffect = false
			return r
		}, Config{}, "every fault took effect", Unknown},
		"a load that does not stand before the first fault": {func(_ *campaign, r []history.Record) []history.Record {
			return slices.DeleteFunc(r, func(rec history.Record) bool {
				return (rec.Op == history.Answered || rec.Op == history.Asked) && rec.Start.Before(1000*ms)
			})
		}, Config{}, "the load stood", Unknown},
		"nothing was asked": {func(_ *campaign, r []history.Record) []history.Record { return nil }, Config{},
			"two live|acknowledged|counted by|every request|in the order|went back|the load stood|linearizable", Unknown},
		"a token of a later life is lower": {func(_ *campaign, r []history.Record) []history.Record {
			for i := range r {
				if r[i].Node == 3 {
					r[i].Term, r[i].Seq = 1, 7
				}
			}
			return r
		}, Config{}, "two live instances|went back", Failed},
		"data that is as it should be": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Files = true
			return append(r, dataRecords(8)...)
		}, Config{}, "", Passed},
		"a set has lost an element": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Set = true
			return append(r, history.Record{Op: history.Added, Entity: 3, Sender: 4, Start: 3000 * ms, End: 3001 * ms},
				history.Record{Op: history.Contained, Entity: 3, Sender: 4, Start: 7000 * ms, End: 7001 * ms})
		}, Config{Nodes: 5}, "a set contains", Failed},
		"a set and a register lose what half of the processes kept": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Set, c.fleet.Registers = true, 1
			c.faults.Rounds[0].Places = []string{"a", "b"}
			return append(r, history.Record{Op: history.Added, Entity: 3, Sender: 4, Start: 1000 * ms, End: 1001 * ms},
				history.Record{Op: history.Contained, Entity: 3, Sender: 4, Start: 7000 * ms, End: 7001 * ms},
				history.Record{Op: history.Added, Entity: 4, Sender: 4, Start: 3000 * ms, End: 3001 * ms},
				history.Record{Op: history.Contained, Entity: 4, Sender: 4, Value: 1, Start: 7000 * ms, End: 7001 * ms},
				history.Record{Op: history.Wrote, Value: 8, Start: 1000 * ms, End: 1001 * ms}, history.Record{Op: history.Seen, Start: 7000 * ms, End: 7001 * ms})
		}, Config{Nodes: 4}, "", Passed},
		"reliable messages that are as they should be": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Reliable = true
			return append(r, reliableRecords()...)
		}, Config{}, "", Passed},
		"a reliable message is lost": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Reliable = true
			return append(r, slices.DeleteFunc(reliableRecords(), func(r history.Record) bool { return r.Op == history.Delivered && r.Value == 5 })...)
		}, Config{}, "no reliable message was left out", Failed},
		"a reliable message is handled behind a later one": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Reliable = true
			all := reliableRecords()
			for i := range all {
				if rec := &all[i]; rec.Op == history.Delivered && rec.Value == 5 {
					rec.Start += 120 * ms
				}
			}
			return append(r, all...)
		}, Config{}, "reliable messages were handled in order|no reliable message was left out", Failed},
		"a reliable message is handled again without a crash": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Reliable = true
			return append(append(r, reliableRecords()...), history.Record{Op: history.Delivered, Node: 3, Term: 3, Seq: 1, Sender: 8, Value: 30, Start: 8900 * ms})
		}, Config{}, "reliable messages were handled in order", Failed},
		"a reliable message is handled again after a crash": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Reliable = true
			return append(append(r, reliableRecords()...), history.Record{Op: history.Delivered, Node: 2, Term: 2, Seq: 1, Sender: 8, Value: 10, Start: 2010 * ms})
		}, Config{}, "", Passed},
		"a reliable message is never confirmed": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Reliable, c.faults.Rounds[1].To = true, 6010*ms
			c.ended = 30_000 * ms
			for n := range uint64(20) { // another counter goes on
				at := 9000*ms + clock.Instant(n)*600*ms
				r = append(r, history.Record{Op: history.Accepted, Entity: 9, Sender: 8, Value: n + 1, Start: at, End: at + 1},
					history.Record{Op: history.Delivered, Entity: 9, Node: 3, Term: 3, Seq: 1, Sender: 8, Value: n + 1, Start: at + 2},
					history.Record{Op: history.Confirmed, Entity: 9, Sender: 8, Value: n + 1, Start: at + 3})
			}
			return append(r, history.Record{Op: history.Accepted, Sender: 8, Value: 1, Start: 8000 * ms, End: 8001 * ms})
		}, Config{}, "every reliable message was confirmed|answered again", Failed},
		"an overwritten value is back": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Files = true
			return append(r, dataRecords(7)...)
		}, Config{}, "shows no write that was overwritten", Failed},
		"an entry is gone": {func(c *campaign, r []history.Record) []history.Record {
			c.fleet.Files = true
			return append(append(r, dataRecords(8)...), history.Record{Op: history.ReadBack, Entity: 1, Sender: 4, Start: 5000 * ms, End: 5001 * ms})
		}, Config{}, "acknowledged on disk", Failed},
		"slow, and bounds are enforced": {func(_ *campaign, r []history.Record) []history.Record {
			var out []history.Record
			for _, rec := range r {
				if rec.Start.Before(6000*ms) || rec.Start >= 6400*ms || rec.Op == history.Handled {
					out = append(out, rec)
				}
			}
			return out
		}, Config{Enforce: true}, "keeps its bound", Failed},
		"a shard moves three times": {func(_ *campaign, r []history.Record) []history.Record {
			for i := range r {
				if at(r[i], history.Handled, 7000*ms) {
					r[i].Node, r[i].Term = 4, 4
				}
			}
			return r
		}, Config{Rolling: true, Nodes: 2}, "moved more than", Failed},
	} {
		t.Run(name, func(t *testing.T) {
			c, records := planted(tc.cfg)
			if name == "no counter is served after 6 s" {
				c.ended = 20_000 * ms
			}
			r := c.report(tc.plant(c, records), nil)
			if r.Verdict != tc.Verdict {
				t.Errorf("verdict %s, want %s\n%+v", r.Verdict, tc.Verdict, r.Invariants)
			}
			for _, i := range r.Invariants {
				found := false
				for _, f := range strings.Split(tc.finds, "|") {
					found = found || f != "" && strings.Contains(i.Name, f)
				}
				if found == (i.Verdict == Passed) {
					t.Errorf("%s: %s %v", i.Verdict, i.Name, i.Violations)
				}
			}
		})
	}
}

// Requests that were not sent, and those of processes that were gone, count as not available.
func TestAvailabilityLeavesNothingOut(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	c, records := planted(Config{})
	c.calmFrom = 1 * ms
	for at := 3000 * ms; at < 4000*ms; at += 50 * ms {
		records = append(records, history.Record{Op: history.NotSent, Node: 9, Start: at + 10*ms})
	}
	records = slices.DeleteFunc(records, func(r history.Record) bool { // a process is gone from 7 s on
		return r.Start > 7000*ms && (r.Op == history.Answered || r.Op == history.Asked)
	})
	r := c.report(records, nil)
	a := r.Availability
	if a.NotSent != 20 || a.InFlightMax != load.InFlightMax || a.Prompt != a.Answered || a.Answered != 140 || r.Counters["not_sent"] != 20 {
		t.Errorf("%+v, %v", a, r.Counters)
	}
	// 180 were due until 9 s, 40 of them from 7 s on; 20 more of another caller were not sent.
	if a.Due != 200 || a.Missed != 40 {
		t.Errorf("%d requests were due and %d had no caller, want 200 and 40", a.Due, a.Missed)
	}
	for i, b := range r.Timeline[:90] {
		if want := 2; b.Missed != 0 && i < 70 || i > 70 && b.Missed != want {
			t.Errorf("bin %d: %+v, want %d missed from 7 s on", i, b, want)
		}
	}
	var out strings.Builder
	r.Print(&out)
	for _, want := range []string{
		fmt.Sprintf("%.2f %% of %d requests that were due", percent(a.Prompt, a.Due), a.Due), "; 20 not sent, since", "\n" + r.Verdict + ": ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

// What processes still ask when the run is over, while they are stopped, is not counted.
func TestAvailabilityEndsWithTheRun(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	c, records := planted(Config{})
	c.calmFrom, c.ended = 1*ms, 8000*ms
	if a := c.report(records, nil).Availability; a.Due != 160 || a.Answered != 160 || a.Missed != 0 {
		t.Errorf("%+v, want the 160 requests of 8 s", a)
	}
}

// The requests of a counter are due at an interval of their own, whichever process sends them.
func TestMissedRequests(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	in := history.Span{From: 100 * ms, To: 200 * ms}
	asked := func(op history.Op, at ...clock.Instant) (out []history.Record) {
		for _, a := range at {
			out = append(out, history.Record{Op: op, Start: a * ms})
		}
		return out
	}
	for name, c := range map[string]struct {
		records []history.Record
		want    []clock.Instant
	}{
		"all":                     {asked(history.Asked, 85, 105, 125, 145, 165, 185, 205), nil},
		"the first and the last":  {asked(history.Asked, 125, 145, 165), []clock.Instant{105, 185}},
		"in the middle":           {asked(history.Asked, 105, 165, 185), []clock.Instant{125, 145}},
		"two callers":             {asked(history.Asked, 105, 105, 125, 145, 145, 165, 165, 185), nil},
		"not sent is on record":   {asked(history.NotSent, 105, 125, 145, 165, 185), nil},
		"answers are no requests": {asked(history.Answered, 105, 125), []clock.Instant{100, 120, 140, 160, 180}},
	} {
		var got []clock.Instant
		for _, at := range missedRequests(c.records, 1, 20*time.Millisecond, in) {
			got = append(got, at/ms)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := missedRequests(nil, 3, 0, in); got != nil {
		t.Errorf("without a load: %v", got)
	}
}

// A message that was handled twice counts once as handled, and once as handled again.
func TestReliableMessagesAreCounted(t *testing.T) {
	c, records := planted(Config{})
	all := reliableRecords()
	again := all[len(all)-2]
	again.Start++
	got := c.report(append(append(records, all...), again), nil).Counters
	n := uint64(len(all) / 3)
	if got["reliable_accepted"] != n || got["reliable_confirmed"] != n || got["reliable_handled"] != n || got["reliable_handled_again"] != 1 {
		t.Errorf("%v, want %d of each, and one again", got, n)
	}
}
