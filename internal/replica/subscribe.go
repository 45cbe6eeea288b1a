package replica

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/signal"
)

// subscription calls one subscriber with the values of changed keys. The replicator's
// goroutine only marks keys. The subscription's own goroutine fetches their values when the
// subscriber is ready, so the subscriber receives the newest ones, and a slow subscriber
// holds at most one mark per key.
type subscription struct {
	name   string
	prefix bool
	f      func(operation.Change)
	// fetch returns a copy of the value of a key. It returns false if quit or the
	// replicator ends before.
	fetch func(key string, quit <-chan struct{}) (crdt.Value, bool)

	mu    sync.Mutex
	dirty map[string]struct{}

	wake signal.Wake
	quit chan struct{}
	once sync.Once
	done chan struct{}
	busy sync.Mutex // held while f runs
}

func (s *subscription) requestEnd() { s.once.Do(func() { close(s.quit) }) }

func (s *subscription) markKeys(keys ...string) {
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	for _, k := range keys {
		s.dirty[k] = struct{}{}
	}
	s.mu.Unlock()
	s.wake.Set()
}

// takeMarked returns the marked keys, sorted, and unmarks them.
func (s *subscription) takeMarked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.dirty))
	clear(s.dirty)
	return keys
}

func (s *subscription) deliverMarked() {
	defer close(s.done)
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
		}
		for _, k := range s.takeMarked() {
			if !s.fetchAndDeliver(k) {
				return
			}
		}
	}
}

// fetchAndDeliver fetches a key's value and shows it. It returns false at the end.
func (s *subscription) fetchAndDeliver(key string) bool {
	v, ok := s.fetch(key, s.quit)
	if !ok {
		return false
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	select {
	case <-s.quit:
		return false
	default:
	}
	s.f(operation.Change{Key: key, Value: v})
	return true
}

// subscriptions belongs to the replicator's goroutine.
type subscriptions struct {
	exact    map[string][]*subscription
	prefixes []*subscription
	n        int
}

// addSubscription starts a subscription and marks the keys that exist.
func (ss *subscriptions) addSubscription(s *subscription, existing []string) {
	select {
	case <-s.quit:
		close(s.done)
		return
	default:
	}
	ss.n++
	go s.deliverMarked()
	if s.prefix {
		ss.prefixes = append(ss.prefixes, s)
	} else {
		ss.exact[s.name] = append(ss.exact[s.name], s)
	}
	s.markKeys(existing...)
}

// removeSubscription removes a subscription that has ended.
func (ss *subscriptions) removeSubscription(s *subscription) {
	drop := func(list []*subscription) []*subscription {
		before := len(list)
		list = slices.DeleteFunc(list, func(o *subscription) bool { return o == s })
		ss.n -= before - len(list)
		return list
	}
	if s.prefix {
		ss.prefixes = drop(ss.prefixes)
	} else if list := drop(ss.exact[s.name]); len(list) > 0 {
		ss.exact[s.name] = list
	} else {
		delete(ss.exact, s.name)
	}
}

// markChanged marks keys in all subscriptions that match them.
func (ss *subscriptions) markChanged(keys []string) {
	for _, k := range keys {
		for _, s := range ss.exact[k] {
			s.markKeys(k)
		}
		for _, s := range ss.prefixes {
			if strings.HasPrefix(k, s.name) {
				s.markKeys(k)
			}
		}
	}
}

// endAll ends all subscriptions and waits for their goroutines, but for those in
// which the subscriber's function is running.
func (ss *subscriptions) endAll() {
	all := slices.Clone(ss.prefixes)
	for _, list := range ss.exact {
		all = append(all, list...)
	}
	for _, s := range all {
		s.requestEnd()
	}
	for _, s := range all {
		if s.busy.TryLock() {
			s.busy.Unlock()
			<-s.done
		}
	}
}
