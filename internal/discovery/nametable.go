package discovery

import (
	"errors"
	"net/netip"
	"sync"
	"time"
)

const (
	// namesMax bounds the names in memberlist: twice the largest cluster, since dead
	// nodes stay for a while.
	namesMax = 4096
	// newNamesRate bounds the new names per second, with a burst of newNamesBurst.
	newNamesRate  = 16
	newNamesBurst = 1024
	// nameKept is how long a name is kept after its node has gone.
	nameKept = 10 * time.Minute
)

// Reasons to keep a node out of memberlist.
var (
	errTooManyNames = errors.New("gossip: more new nodes than discovery admits")
	errNodeMoved    = errors.New("gossip: the node has another address, which never changes")
)

// nameTable holds the names in memberlist, each with its only valid address. Safe for
// concurrent use.
type nameTable struct {
	mu sync.Mutex
	// Invariant: len(byName) <= namesMax, apart from members of the view; hosts and addrs
	// count the entries of byName.
	byName map[string]knownName
	hosts  map[netip.Addr]int
	addrs  map[netip.AddrPort]int
	// used is how much of the burst is used, as of at.
	used float64
	at   time.Time
	// evictAt is when evictNames may next run.
	evictAt time.Time
}

type knownName struct {
	at netip.AddrPort
	// goneAt is when memberlist last reported its death, zero while it lives.
	goneAt time.Time
}

func newNameTable() *nameTable {
	return &nameTable{byName: map[string]knownName{}, hosts: map[netip.Addr]int{}, addrs: map[netip.AddrPort]int{}}
}

// admitName adds a name, or returns why memberlist must not have it. A member of the view, at
// the address that the view shows, is always admitted.
func (t *nameTable) admitName(name string, at netip.AddrPort, member bool, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.byName[name]; ok {
		if known.at == at {
			return nil
		}
		if !member {
			return errNodeMoved
		}
		t.removeName(name)
	}
	if !member {
		if !t.takeToken(now) || len(t.byName) >= namesMax && !t.evictNames(now) {
			return errTooManyNames
		}
	}
	t.insertName(name, at)
	return nil
}

// takeToken takes a new name from the bucket.
func (t *nameTable) takeToken(now time.Time) bool {
	if now.After(t.at) {
		t.used = max(t.used-now.Sub(t.at).Seconds()*newNamesRate, 0)
		t.at = now
	}
	if t.used+1 > newNamesBurst {
		return false
	}
	t.used++
	return true
}

func (t *nameTable) insertName(name string, at netip.AddrPort) {
	t.byName[name] = knownName{at: at}
	t.hosts[at.Addr()]++
	t.addrs[at]++
}

func (t *nameTable) removeName(name string) {
	at := t.byName[name].at
	delete(t.byName, name)
	if t.hosts[at.Addr()]--; t.hosts[at.Addr()] == 0 {
		delete(t.hosts, at.Addr())
	}
	if t.addrs[at]--; t.addrs[at] == 0 {
		delete(t.addrs, at)
	}
}

// evictNames removes the names that have been gone for long, or else all that are gone. It
// runs once a second at most, and reports whether there is room.
func (t *nameTable) evictNames(now time.Time) bool {
	if now.Before(t.evictAt) {
		return false
	}
	t.evictAt = now.Add(time.Second)
	for _, longer := range []time.Duration{nameKept, 0} {
		for name, k := range t.byName {
			if !k.goneAt.IsZero() && now.Sub(k.goneAt) >= longer {
				t.removeName(name)
			}
		}
		if len(t.byName) < namesMax {
			return true
		}
	}
	return false
}

// markGone and markAlive record memberlist's state of a node.
func (t *nameTable) markGone(name string, now time.Time) { t.setGoneAt(name, now) }
func (t *nameTable) markAlive(name string)               { t.setGoneAt(name, time.Time{}) }

func (t *nameTable) setGoneAt(name string, goneAt time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.byName[name]; ok {
		k.goneAt = goneAt
		t.byName[name] = k
	}
}

// hasName reports whether the table has a name at an address.
func (t *nameTable) hasName(name string, at netip.AddrPort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, known := t.byName[name]
	return known && k.at == at
}

// hasAddr reports whether the table has any name at an address.
func (t *nameTable) hasAddr(at netip.AddrPort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addrs[at] > 0
}

// hasHost reports whether the table has any name at a host.
func (t *nameTable) hasHost(ip netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hosts[ip] > 0
}

// nameCount returns the number of names.
func (t *nameTable) nameCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byName)
}
