package load

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/defect"
	"github.com/peerage-go/peerage/internal/history"
)

// setReach is how many elements of each process, on both sides of the newest one, a read of the
// set looks for. Elements that do not exist yet prove nothing.
const setReach = 8

// setKey is the set that all processes share.
func setKey() ddata.Key[ddata.ORSet[string], *ddata.ORSetTx[string]] {
	return ddata.ORSetKey[string]("elements")
}

// element names the element number n of a process.
func element(process uint64, n uint32) string { return fmt.Sprintf("%016x-%d", process, n) }

// useSet adds one element after the other, and reads the set after each.
func (l *Data) useSet(ctx context.Context) {
	for number := uint32(1); harness.Pause(ctx, appendEvery) == nil && !l.Leaving(); number++ {
		l.request(ctx, &history.Record{Op: history.Added, Entity: number, Sender: l.Process}, func(ctx context.Context) error {
			return ddata.Update(ctx, l.Data, setKey(), ddata.Majority, func(s *ddata.ORSetTx[string]) error {
				s.Add(element(l.Process, number))
				return nil
			})
		})
		l.readSet(ctx)
	}
}

// readSet reads the set, and records which of the newest elements of each process it has.
func (l *Data) readSet(ctx context.Context) {
	var got ddata.ORSet[string]
	began := l.Clock.Now()
	attempt, done := context.WithTimeout(ctx, dataPatience)
	defer done()
	got, err := ddata.Get(attempt, l.Data, setKey(), ddata.Majority)
	if err != nil {
		if ctx.Err() == nil && !l.Leaving() {
			l.Tried(err)
		}
		return
	}
	r := history.Record{Op: history.Contained, Node: l.Node(), Start: began, End: l.Clock.Now()}
	for process, newest := range newestOf(got.Elements()) {
		for n := max(1, int(newest)-setReach); n <= int(newest)+setReach; n++ {
			r.Sender, r.Entity, r.Value = process, uint32(n), 0
			if got.Contains(element(process, uint32(n))) && defect.Active() != defect.LostEntry {
				r.Value = 1
			}
			l.History.Write(r)
		}
	}
}

// newestOf returns the highest number of each process among the elements of a set.
func newestOf(elements []string) map[uint64]uint32 {
	newest := map[uint64]uint32{}
	for _, e := range elements {
		var process uint64
		var n uint32
		if _, err := fmt.Sscanf(e, "%x-%d", &process, &n); err == nil {
			newest[process] = max(newest[process], n)
		}
	}
	return newest
}
