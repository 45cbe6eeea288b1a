package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
)

// Stale is a read that returned a value which had been overwritten before.
type Stale struct {
	// Read returned what Older wrote (the zero Record: nothing), and Newer had been
	// acknowledged before Read began, and begun after Older was acknowledged.
	Read, Older, Newer Record
}

func (s Stale) String() string {
	return fmt.Sprintf("register %d: a read at node %016x from %d returned %x, acknowledged at %d; %x had been written from %d and was acknowledged at %d",
		s.Read.Entity, s.Read.Node, s.Read.Start, s.Read.Value, s.Older.End, s.Newer.Value, s.Newer.Start, s.Newer.End)
}

// When returns when the read began.
func (s Stale) When() clock.Instant { return s.Read.Start }

// StaleReads returns reads of registers that contradict the order of writes: a write that
// is acknowledged wins over all that were acknowledged before it began, and every read that
// begins afterwards shows it or a newer one. Values are unique within a register, 0 is
// none. A value whose write was not acknowledged may be newer than all, and proves nothing.
// A write that was acknowledged before or in a span of lost does not bind reads after the
// span's begin: the copies that the level asks for may be gone. In a span of away they are on disks
// of which a majority may not be back: a read that begins in it may miss them. In a span of setBack
// that is so with clocks that were set back: a write that was acknowledged in it does not know the
// stamps of those copies, and may lose to them.
//
// Checked counts the reads that showed a value with an acknowledged write, or none.
func StaleReads(records []Record, lost, away, setBack []Span) (stale []Stale, checked int) {
	writes := map[uint32][]Record{}
	for _, r := range records {
		if r.Op == Wrote {
			writes[r.Entity] = append(writes[r.Entity], r)
		}
	}
	for _, w := range writes { // order-free: each is sorted by itself
		slices.SortFunc(w, func(a, b Record) int { return cmp.Compare(a.End, b.End) })
	}
	for _, r := range records {
		if r.Op != Seen {
			continue
		}
		older := Record{Entity: r.Entity}
		if r.Value != 0 {
			i := slices.IndexFunc(writes[r.Entity], func(w Record) bool { return w.Value == r.Value })
			if i < 0 {
				continue
			}
			older = writes[r.Entity][i]
		}
		if checked++; touched(away, r.Start, r.Start) {
			continue
		}
		for _, w := range writes[r.Entity] {
			if !w.End.Before(r.Start) {
				break
			}
			if w.Start.After(older.End) && !touched(lost, w.End, r.End) && !touched(setBack, w.End, w.End) {
				stale = append(stale, Stale{r, older, w})
				break
			}
		}
	}
	return stale, checked
}

// Missing returns the reads of entries that found nothing, though the entry had been
// acknowledged, as stored on disks, before the read began. Checked counts the reads of
// acknowledged entries.
func Missing(records []Record) (missing []Record, checked int) {
	return absent(records, Appended, ReadBack, nil)
}

// MissingElements returns the reads of a set in which an element was absent that had been
// acknowledged before the read began. Lost is as for StaleReads.
func MissingElements(records []Record, lost []Span) (missing []Record, checked int) {
	return absent(records, Added, Contained, lost)
}

// absent returns the reads that did not find what had been acknowledged before.
func absent(records []Record, wrote, read Op, lost []Span) (missing []Record, checked int) {
	type entry struct {
		sender uint64
		number uint32
	}
	acked := map[entry]Record{}
	for _, r := range records {
		if r.Op == wrote {
			acked[entry{r.Sender, r.Entity}] = r
		}
	}
	for _, r := range records {
		if r.Op != read {
			continue
		}
		a, ok := acked[entry{r.Sender, r.Entity}]
		if !ok || !a.End.Before(r.Start) || touched(lost, a.End, r.End) {
			continue
		}
		if checked++; r.Value == 0 {
			missing = append(missing, r)
		}
	}
	return missing, checked
}

// Regression is a handler run under a lower token than one that had begun before.
type Regression struct{ Before, After Record }

func (r Regression) String() string {
	return fmt.Sprintf("entity %d: token %d/%d on node %016x at %d, then %d/%d on node %016x at %d",
		r.After.Entity, r.Before.Term, r.Before.Seq, r.Before.Node, r.Before.Start, r.After.Term, r.After.Seq, r.After.Node, r.After.Start)
}

// Regressions returns the handler runs whose token is lower than that of a run of the same
// entity that began earlier, or equal to it on another node. Doubles counts them too; here
// they stand alone, also between lives of the whole cluster.
func Regressions(records []Record) (out []Regression) {
	runs := handlerRuns(records)
	slices.SortStableFunc(runs, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Start, b.Start))
	})
	for i, top := 1, 0; i < len(runs); i++ {
		a, b := runs[top], runs[i]
		switch {
		case a.Entity != b.Entity, tokenLess(a, b):
			top = i
		case tokenLess(b, a), b.Node != a.Node:
			out = append(out, Regression{a, b})
		}
	}
	return out
}
