package replica

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// subscription shows one subscriber what has changed. The replicator's goroutine
// only marks keys; the subscription's own fetches their values when the
// subscriber is ready, so it always sees the newest, and a slow one only lets
// marks pile up: at most one per key.
type subscription struct {
	r      *Replicator
	name   string
	prefix bool
	f      func(operation.Change)

	mu    sync.Mutex
	dirty map[string]struct{}

	wake chan struct{}
	quit chan struct{}
	once sync.Once
	done chan struct{}
	busy sync.Mutex // held while f runs
}

func (s *subscription) end() { s.once.Do(func() { close(s.quit) }) }

func (s *subscription) mark(keys ...string) {
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	for _, k := range keys {
		s.dirty[k] = struct{}{}
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the marked keys, sorted, and unmarks them.
func (s *subscription) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.dirty))
	clear(s.dirty)
	return keys
}

func (s *subscription) run() {
	defer close(s.done)
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
		}
		for _, k := range s.take() {
			if !s.show(k) {
				return
			}
		}
	}
}

// show fetches a key's value and shows it. It returns false at the end.
func (s *subscription) show(key string) bool {
	got := make(chan crdt.Value, 1)
	posted := s.r.post(job{call: func() {
		v := s.r.loop.core.Value(key)
		if v != nil {
			v = v.Clone()
		}
		got <- v
	}})
	if !posted {
		return false
	}
	select {
	case v := <-got:
		s.busy.Lock()
		defer s.busy.Unlock()
		select {
		case <-s.quit:
			return false
		default:
		}
		s.f(operation.Change{Key: key, Value: v})
		return true
	case <-s.quit:
		return false
	case <-s.r.done:
		return false
	}
}

// subscriptions belongs to the replicator's goroutine.
type subscriptions struct {
	exact    map[string][]*subscription
	prefixes []*subscription
	n        int
}

func (l *loop) subscribe(s *subscription) {
	select {
	case <-s.quit:
		close(s.done)
		return
	default:
	}
	l.subs.n++
	go s.run()
	if s.prefix {
		l.subs.prefixes = append(l.subs.prefixes, s)
		s.mark(l.core.Keys(s.name)...)
		return
	}
	l.subs.exact[s.name] = append(l.subs.exact[s.name], s)
	if l.core.Value(s.name) != nil {
		s.mark(s.name)
	}
}

func (l *loop) unsubscribe(s *subscription) {
	drop := func(list []*subscription) []*subscription {
		before := len(list)
		list = slices.DeleteFunc(list, func(o *subscription) bool { return o == s })
		l.subs.n -= before - len(list)
		return list
	}
	if s.prefix {
		l.subs.prefixes = drop(l.subs.prefixes)
	} else if list := drop(l.subs.exact[s.name]); len(list) > 0 {
		l.subs.exact[s.name] = list
	} else {
		delete(l.subs.exact, s.name)
	}
}

// changed marks keys in all subscriptions that match them.
func (ss *subscriptions) changed(keys []string) {
	for _, k := range keys {
		for _, s := range ss.exact[k] {
			s.mark(k)
		}
		for _, s := range ss.prefixes {
			if strings.HasPrefix(k, s.name) {
				s.mark(k)
			}
		}
	}
}

// close ends all subscriptions and waits for their goroutines, but for those in
// which the subscriber's function is running.
func (ss *subscriptions) close() {
	all := slices.Clone(ss.prefixes)
	for _, list := range ss.exact {
		all = append(all, list...)
	}
	for _, s := range all {
		s.end()
	}
	for _, s := range all {
		if s.busy.TryLock() {
			s.busy.Unlock()
			<-s.done
		}
	}
}
