package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/defect"
	"github.com/peerage-go/peerage/internal/history"
)

// DurablePrefix begins the keys that `peerage node --data-dir` keeps in its file.
const DurablePrefix = "durable/"

// Data writes and reads replicated data again and again, at a majority: registers of
// which the last write wins, and with a disk entries that only ever become more. It has no
// patience: a request that fails is counted, and a later one tries again.
type Data struct {
	Registers int
	// Durable: the registers and entries outlive a stop of all processes.
	Durable bool
	Data    *ddata.Data
	// Set: elements are added to a replicated set, and read.
	Set bool
	// Process numbers this process in the histories.
	Process uint64
	// Turn, leaving and node are those of load.
	Turn    func() (place, of int)
	Leaving func() bool
	Node    func() uint64
	Clock   clock.Clock
	History *history.Writer
	// Path is the history's; those of other processes stand beside it.
	Path  string
	Tried func(error)

	values atomic.Uint64
	// shown are the values that the last reads of each register returned, for a defect.
	shown []atomic.Uint64
}

const (
	// registerEvery is the time between two writes of a register by any member.
	registerEvery = 100 * time.Millisecond
	appendEvery   = 250 * time.Millisecond
	// entryBytes makes a file grow, so that a full disk is noticed.
	entryBytes = 4 << 10
	// dataPatience ends a request, as attemptPatience does an ask.
	dataPatience = 2 * time.Second
	// readBackMax bounds how many entries of other processes are looked for at a start.
	readBackMax = 1000
)

func (l *Data) registerKey(i int) ddata.Key[ddata.LWWRegister[uint64], *ddata.LWWRegisterTx[uint64]] {
	if l.Durable {
		return ddata.LWWRegisterKey[uint64](fmt.Sprintf("%sregister-%d", DurablePrefix, i))
	}
	return ddata.LWWRegisterKey[uint64](fmt.Sprintf("register-%d", i))
}

func entryKey(process uint64, number uint32) ddata.Key[ddata.GSet[string], *ddata.GSetTx[string]] {
	return ddata.GSetKey[string](fmt.Sprintf("%sentry-%016x-%d", DurablePrefix, process, number))
}

// Run writes and reads until ctx ends or the node drains.
func (l *Data) Run(ctx context.Context) {
	var all sync.WaitGroup
	l.shown = make([]atomic.Uint64, l.Registers)
	for i := range l.Registers {
		all.Go(func() { l.useRegister(ctx, i) })
	}
	if l.Set {
		all.Go(func() { l.useSet(ctx) })
	}
	if l.Durable {
		all.Go(func() { l.readBack(ctx) })
		all.Go(func() { l.appendEntries(ctx) })
	}
	all.Wait()
}

// useRegister writes register i and reads it a moment later. The processes take turns.
func (l *Data) useRegister(ctx context.Context, i int) {
	for {
		place, of := l.Turn()
		round := registerEvery * time.Duration(max(of, 1))
		at := registerEvery*time.Duration(place) + registerEvery*time.Duration(i)/time.Duration(l.Registers)
		since := (time.Duration(l.Clock.Now()) - at) % round
		if harness.Pause(ctx, round-(since+round)%round) != nil || l.Leaving() {
			return
		}
		l.writeRegister(ctx, i)
		if harness.Pause(ctx, rand.N(registerEvery)) != nil || l.Leaving() {
			return
		}
		l.readRegister(ctx, i)
	}
}

// request carries f out within dataPatience, and counts its failure.
func (l *Data) request(ctx context.Context, r *history.Record, f func(context.Context) error) {
	attempt, done := context.WithTimeout(ctx, dataPatience)
	defer done()
	r.Start = l.Clock.Now()
	err := f(attempt)
	r.End, r.Node = l.Clock.Now(), l.Node()
	switch {
	case err == nil:
		l.History.Write(*r)
	case ctx.Err() == nil && !l.Leaving():
		l.Tried(err)
	}
}

func (l *Data) writeRegister(ctx context.Context, i int) {
	value := l.Process<<32 | l.values.Add(1)
	l.request(ctx, &history.Record{Op: history.Wrote, Entity: uint32(i), Value: value}, func(ctx context.Context) error {
		return ddata.Update(ctx, l.Data, l.registerKey(i), ddata.Majority, func(r *ddata.LWWRegisterTx[uint64]) error {
			r.Set(value)
			return nil
		})
	})
}

func (l *Data) readRegister(ctx context.Context, i int) {
	r := history.Record{Op: history.Seen, Entity: uint32(i)}
	l.request(ctx, &r, func(ctx context.Context) error {
		got, err := ddata.Get(ctx, l.Data, l.registerKey(i), ddata.Majority)
		r.Value, _ = got.Value()
		if defect.Active() == defect.StaleRead {
			r.Value = l.shown[i].Swap(r.Value)
		}
		return err
	})
}

// appendEntries stores one entry after the other.
func (l *Data) appendEntries(ctx context.Context) {
	text := strings.Repeat("x", entryBytes)
	for number := uint32(1); harness.Pause(ctx, appendEvery) == nil && !l.Leaving(); number++ {
		l.request(ctx, &history.Record{Op: history.Appended, Entity: number, Sender: l.Process}, func(ctx context.Context) error {
			return ddata.Update(ctx, l.Data, entryKey(l.Process, number), ddata.Majority, func(s *ddata.GSetTx[string]) error {
				s.Add(text)
				return nil
			})
		})
	}
}

// readBack reads the newest entries that the processes of the fleet have stored so far.
// It takes the entries from their histories.
func (l *Data) readBack(ctx context.Context) {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(l.Path), "*.history")) // the pattern is well-formed
	var entries []history.Record
	for _, file := range files {
		records, err := history.Read(file)
		if err != nil {
			l.Tried(err)
			continue
		}
		for _, r := range records {
			if r.Op == history.Appended {
				entries = append(entries, r)
			}
		}
	}
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	for _, e := range entries[:min(len(entries), readBackMax)] {
		if ctx.Err() != nil || l.Leaving() {
			return
		}
		l.readEntry(ctx, e)
	}
}

// readEntry reads an entry until it has an answer.
func (l *Data) readEntry(ctx context.Context, e history.Record) {
	for done := false; !done && !l.Leaving() && harness.Pause(ctx, retryAfter) == nil; {
		r := history.Record{Op: history.ReadBack, Entity: e.Entity, Sender: e.Sender}
		l.request(ctx, &r, func(ctx context.Context) error {
			got, err := ddata.Get(ctx, l.Data, entryKey(e.Sender, e.Entity), ddata.Majority)
			if done = err == nil; done && got.Len() > 0 && defect.Active() != defect.LostEntry {
				r.Value = 1
			}
			return err
		})
	}
}
