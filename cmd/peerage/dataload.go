package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/replicator"
)

// durablePrefix begins the keys that `peerage node --data-dir` keeps in its file.
const durablePrefix = "durable/"

// dataLoad writes and reads replicated data again and again, at a majority: registers of
// which the last write wins, and with a disk entries that only ever become more. It has no
// patience: a request that fails is counted, and a later one tries again.
type dataLoad struct {
	registers int
	// durable: the registers and entries outlive a stop of all processes.
	durable bool
	data    *ddata.Data
	// process numbers this process in the histories.
	process uint64
	// turn, leaving and node are those of load.
	turn    func() (place, of int)
	leaving func() bool
	node    func() uint64
	clock   clock.Clock
	history *history.Writer
	// path is the history's; those of other processes stand beside it.
	path  string
	tried func(error)

	values atomic.Uint64
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

func (l *dataLoad) register(i int) ddata.Key[ddata.LWWRegister[uint64], *ddata.LWWRegisterTx[uint64]] {
	if l.durable {
		return ddata.LWWRegisterKey[uint64](fmt.Sprintf("%sregister-%d", durablePrefix, i))
	}
	return ddata.LWWRegisterKey[uint64](fmt.Sprintf("register-%d", i))
}

func entryKey(process uint64, number uint32) ddata.Key[ddata.GSet[string], *ddata.GSetTx[string]] {
	return ddata.GSetKey[string](fmt.Sprintf("%sentry-%016x-%d", durablePrefix, process, number))
}

// run writes and reads until ctx ends or the node drains.
func (l *dataLoad) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range l.registers {
		all.Go(func() { l.useRegister(ctx, i) })
	}
	if l.durable {
		all.Go(func() { l.readBack(ctx) })
		all.Go(func() { l.appendEntries(ctx) })
	}
	all.Wait()
}

// useRegister writes register i and reads it a moment later. The processes take turns.
func (l *dataLoad) useRegister(ctx context.Context, i int) {
	for {
		place, of := l.turn()
		round := registerEvery * time.Duration(max(of, 1))
		at := registerEvery*time.Duration(place) + registerEvery*time.Duration(i)/time.Duration(l.registers)
		since := (time.Duration(l.clock.Now()) - at) % round
		if pause(ctx, round-(since+round)%round) != nil || l.leaving() {
			return
		}
		l.write(ctx, i)
		if pause(ctx, rand.N(registerEvery)) != nil || l.leaving() {
			return
		}
		l.read(ctx, i)
	}
}

// request carries f out within dataPatience, and counts its failure.
func (l *dataLoad) request(ctx context.Context, r *history.Record, f func(context.Context) error) {
	attempt, done := context.WithTimeout(ctx, dataPatience)
	defer done()
	r.Start = l.clock.Now()
	err := f(attempt)
	r.End, r.Node = l.clock.Now(), l.node()
	switch {
	case err == nil:
		l.history.Write(*r)
	case ctx.Err() == nil && !l.leaving():
		l.tried(err)
	}
}

func (l *dataLoad) write(ctx context.Context, i int) {
	value := l.process<<32 | l.values.Add(1)
	l.request(ctx, &history.Record{Op: history.Wrote, Entity: uint32(i), Value: value}, func(ctx context.Context) error {
		return ddata.Update(ctx, l.data, l.register(i), ddata.Majority, func(r *ddata.LWWRegisterTx[uint64]) error {
			r.Set(value)
			return nil
		})
	})
}

func (l *dataLoad) read(ctx context.Context, i int) {
	r := history.Record{Op: history.Seen, Entity: uint32(i)}
	l.request(ctx, &r, func(ctx context.Context) error {
		got, err := ddata.Get(ctx, l.data, l.register(i), ddata.Majority)
		r.Value, _ = got.Value()
		return err
	})
}

// appendEntries stores one entry after the other.
func (l *dataLoad) appendEntries(ctx context.Context) {
	text := strings.Repeat("x", entryBytes)
	for number := uint32(1); pause(ctx, appendEvery) == nil && !l.leaving(); number++ {
		l.request(ctx, &history.Record{Op: history.Appended, Entity: number, Sender: l.process}, func(ctx context.Context) error {
			return ddata.Update(ctx, l.data, entryKey(l.process, number), ddata.Majority, func(s *ddata.GSetTx[string]) error {
				s.Add(text)
				return nil
			})
		})
	}
}

// readBack reads the newest entries that the processes of the fleet have stored so far.
// It takes the entries from their histories.
func (l *dataLoad) readBack(ctx context.Context) {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(l.path), "*.history")) // the pattern is well-formed
	var entries []history.Record
	for _, file := range files {
		records, err := history.Read(file)
		if err != nil {
			l.tried(err)
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
		if ctx.Err() != nil || l.leaving() {
			return
		}
		l.readEntry(ctx, e)
	}
}

// readEntry reads an entry until it has an answer.
func (l *dataLoad) readEntry(ctx context.Context, e history.Record) {
	for done := false; !done && !l.leaving() && pause(ctx, retryAfter) == nil; {
		r := history.Record{Op: history.ReadBack, Entity: e.Entity, Sender: e.Sender}
		l.request(ctx, &r, func(ctx context.Context) error {
			got, err := ddata.Get(ctx, l.data, entryKey(e.Sender, e.Entity), ddata.Majority)
			if done = err == nil; done && got.Len() > 0 {
				r.Value = 1
			}
			return err
		})
	}
}

// dataReason names an error of replicated data for the counts of failed attempts.
func dataReason(err error) (string, bool) {
	for _, r := range []struct {
		err  error
		name string
	}{
		{replicator.ErrDurable, "data: disk"}, {replicator.ErrNoLease, "data: no lease"},
		{replicator.ErrTooFewMembers, "data: too few members"}, {replicator.ErrStamp, "data: stamp"},
		{replicator.ErrContended, "data: contended"}, {replicator.ErrOutcomeUnknown, "data: no majority"},
		{replicator.ErrClosed, "data: closed"},
	} {
		if errors.Is(err, r.err) {
			return r.name, true
		}
	}
	return "", false
}
