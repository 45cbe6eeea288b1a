package load

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

// outbox is a producer that has no room at first, and confirms at Flush.
type outbox struct {
	mu      sync.Mutex
	full    int // how many sends find no room
	sent    []Add
	ids     []string
	flushed bool
	closed  bool
	confirm func(id string, m Add, err error)
}

func (o *outbox) Send(ctx context.Context, id string, m Add) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full > 0 {
		o.full--
		return errors.Join(sharding.ErrWindowFull, context.DeadlineExceeded)
	}
	o.sent, o.ids = append(o.sent, m), append(o.ids, id)
	return nil
}

func (o *outbox) Flush(context.Context) error {
	o.flushed = true
	for i, m := range o.sent {
		o.confirm(o.ids[i], m, nil)
	}
	return nil
}

func (o *outbox) Close() error {
	o.closed = o.flushed
	return nil
}

// Each counter gets the numbers from 1 without a gap. A message that found no room is not on
// record, and its number is used again. When the run ends, the load waits for confirmations.
func TestReliableMessagesAreNumberedWithoutGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "load.history")
		w, err := history.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		o := &outbox{full: 3}
		l := Reliable{
			First: 30, Every: 10 * time.Millisecond, Producer: o, Process: 77, History: w,
			Turn: func() (int, int) { return 0, 1 }, Leaving: func() bool { return false }, Node: func() uint64 { return 5 },
			Tried: func(err error) { t.Errorf("%v counts as a failed attempt", err) },
			Clock: clock.Func(func() clock.Instant { return clock.Instant(time.Since(begun)) + 1 }),
		}
		o.confirm = l.Config().OnConfirm
		ctx, cancel := context.WithTimeout(t.Context(), 205*time.Millisecond)
		defer cancel()
		l.Run(ctx)
		if !o.closed {
			t.Error("the producer was not flushed and closed")
		}
		var refused int
		l.Tried = func(error) { refused++ }
		l.OnConfirm(CounterID(30), Add{}, sharding.ErrTooLarge)
		records, err := history.Read(file)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		accepted, confirmed := map[uint32][]uint64{}, map[uint32][]uint64{}
		for _, r := range records {
			if r.Sender != 77 || r.Node != 5 {
				t.Errorf("%+v", r)
			}
			switch r.Op {
			case history.Accepted:
				accepted[r.Entity] = append(accepted[r.Entity], r.Value)
			case history.Confirmed:
				confirmed[r.Entity] = append(confirmed[r.Entity], r.Value)
			}
		}
		if n := len(accepted[30]) + len(accepted[31]) + len(accepted[32]) + len(accepted[33]); n != 77 || len(accepted) != 4 || len(records) != 2*n || refused != 1 {
			t.Errorf("%d messages accepted, %d records, %d will never be handled", n, len(records), refused)
		}
		for entity, numbers := range accepted {
			for i, n := range numbers {
				if n != uint64(i+1) {
					t.Fatalf("counter %d was sent %d", entity, numbers)
				}
			}
			if !slices.Equal(numbers, confirmed[entity]) {
				t.Errorf("counter %d: sent %d, confirmed %d", entity, numbers, confirmed[entity])
			}
		}
	})
}
