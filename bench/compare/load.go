package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// remoteEntities is how many entities the messages go to, in turns.
const remoteEntities = 1000

const totalPatience = 100 * time.Millisecond

// start asks each entity until it answers, so that the caller knows its home.
func start(ctx context.Context, es entities, n int) (result, error) {
	began := time.Now()
	for id := range n {
		for {
			_, err := es.ask(ctx, id, payload(opEcho), askPatience)
			if err == nil {
				break
			}
			if time.Since(began) > time.Minute {
				return result{}, fmt.Errorf("entity %d does not answer: %w", id, err)
			}
		}
	}
	return result{Count: uint64(n), Seconds: time.Since(began).Seconds()}, nil
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(time.Minute), 3)
}

// askFor lets callers ask for a while, each its next question when it has the last answer.
// Every question has a time limit, as services give it.
func askFor(ctx context.Context, es entities, callers int, d time.Duration) (result, error) {
	var wg sync.WaitGroup
	var stop atomic.Bool
	hists := make([]*hdrhistogram.Histogram, callers)
	failed := make([]uint64, callers)
	began := time.Now()
	for c := range callers {
		hists[c] = newHistogram()
		wg.Go(func() {
			b := payload(opEcho)
			for id := c; !stop.Load(); id += callers {
				at := time.Now()
				got, err := es.ask(ctx, id%remoteEntities, b, askPatience)
				took := time.Since(at)
				if err != nil || len(got) != payloadBytes {
					failed[c]++
					continue
				}
				_ = hists[c].RecordValue(int64(took)) // beyond a minute, the ask has failed
			}
		})
	}
	<-time.After(d)
	stop.Store(true)
	wg.Wait()
	r := result{Seconds: time.Since(began).Seconds()}
	all := newHistogram()
	for c := range callers {
		all.Merge(hists[c])
		r.Failed += failed[c]
	}
	r.Count = uint64(all.TotalCount())
	r.P50, r.P99 = float64(all.ValueAtQuantile(50))/1e3, float64(all.ValueAtQuantile(99))/1e3
	return r, nil
}

// total returns what the entities have counted. Each is asked with a short time limit again
// and again for a minute: systems without back-pressure drop questions behind a flood.
func total(ctx context.Context, es entities) (sum uint64, err error) {
	for id := range remoteEntities {
		var b []byte
		for range int(time.Minute / totalPatience) {
			if b, err = es.ask(ctx, id, payload(opTotal), totalPatience); err == nil {
				break
			}
		}
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(string(b), 10, 64)
		if err != nil {
			return 0, errNoAnswer
		}
		sum += n
	}
	return sum, nil
}

// tellAll sends messages and waits until they are handled: the question for the total
// of an entity comes behind the messages to it. Messages that are lost meanwhile are in Failed.
func tellAll(ctx context.Context, es entities, senders, messages int) (result, error) {
	before, err := total(ctx, es)
	if err != nil {
		return result{}, err
	}
	var wg sync.WaitGroup
	refused := make([]uint64, senders)
	began := time.Now()
	for s := range senders {
		wg.Go(func() {
			b := payload(opCount)
			for i := s; i < messages; i += senders {
				if es.tell(ctx, i%remoteEntities, b) != nil {
					refused[s]++
				}
			}
		})
	}
	wg.Wait()
	after, err := total(ctx, es)
	took := time.Since(began)
	return result{Count: after - before, Failed: uint64(messages) - (after - before), Seconds: took.Seconds()}, err
}

// watchFor asks each entity in turns for a while, with a short time limit, and returns the
// longest time between two of its answers. It measures from outside what a caller that
// repeats must wait when the home of an entity ends.
func watchFor(ctx context.Context, es entities, n int, d time.Duration) (result, error) {
	waits := make([]waited, n)
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for id := range n {
		wg.Go(func() { waits[id] = watchOne(ctx, es, id, end) })
	}
	wg.Wait()
	return result{Waits: waits}, nil
}

func watchOne(ctx context.Context, es entities, id int, end time.Time) (w waited) {
	last := time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for ; time.Now().Before(end); <-tick.C {
		host, err := es.ask(ctx, id, payload(opHost), watchPatience)
		if err != nil {
			w.Failed++
			continue
		}
		now := time.Now()
		if w.First == "" {
			w.First = string(host)
		} else {
			w.Millis = max(w.Millis, float64(now.Sub(last))/1e6)
		}
		w.Last, last = string(host), now
	}
	return w
}
