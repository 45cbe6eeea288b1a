package transport

import (
	"container/list"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// stranger is an accepted connection whose handshake is not done.
type stranger struct {
	conn   net.Conn
	source string
	at     *list.Element
	// displaced: it was ended to make room. Written with strangers.mu.
	displaced bool
}

// strangers holds the handshake slots. A stranger that sends nothing keeps its slot until
// HandshakeTimeout, so full slots must not exclude a newcomer: it always gets one, and
// another stranger ends for it.
//
//	its source holds perSource slots:   the oldest of that source
//	all slots are taken:                the oldest of the source that holds most
//	more than half are taken:           any, with a probability that rises to 1
//
// A handshake takes a few round trips and an attacker's never ends, so the oldest is most
// likely the attacker's. The random choice prevents an attacker with many addresses from
// timing its connections so that a slow correct handshake is always the oldest. A node
// that loses its slot dials again after a back-off.
type strangers struct {
	max, perSource int
	// draw returns a number in [0, n).
	draw func(n int) int

	mu sync.Mutex
	// all is in the order of arrival. Invariant: bySource counts it by source, without
	// zeros; all.Len() <= max.
	all      *list.List
	bySource map[string]int
}

func (s *strangers) init(max, perSource int) {
	s.max, s.perSource, s.draw = max, perSource, rand.IntN
	s.all, s.bySource = list.New(), make(map[string]int)
}

// sourceOf returns the source of a connection: an IPv4 address, or an IPv6 network,
// within which a host chooses freely.
func sourceOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return host
}

// enter gives conn a slot, and returns the stranger that must end for it, or nil.
func (s *strangers) enter(conn net.Conn) (in, out *stranger) {
	in = &stranger{conn: conn, source: sourceOf(conn)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out = s.victim(in.source); out != nil {
		out.displaced = true
		s.remove(out)
	}
	in.at = s.all.PushBack(in)
	s.bySource[in.source]++
	return in, out
}

// victim returns the stranger that ends for a newcomer from source, or nil.
func (s *strangers) victim(source string) *stranger {
	n, half := s.all.Len(), s.max/2
	switch {
	case s.bySource[source] >= s.perSource:
		return s.oldest(source)
	case n >= s.max:
		return s.oldest(s.fullest())
	case n > half && s.draw(s.max-half) < n-half:
		at := s.all.Front()
		for range s.draw(n) {
			at = at.Next()
		}
		return at.Value.(*stranger)
	}
	return nil
}

func (s *strangers) oldest(source string) *stranger {
	for at := s.all.Front(); at != nil; at = at.Next() {
		if x := at.Value.(*stranger); x.source == source {
			return x
		}
	}
	return nil
}

// fullest returns the source with most slots; of several, that of the oldest stranger.
func (s *strangers) fullest() (source string) {
	for at := s.all.Front(); at != nil; at = at.Next() {
		if x := at.Value.(*stranger).source; s.bySource[x] > s.bySource[source] {
			source = x
		}
	}
	return source
}

func (s *strangers) remove(x *stranger) {
	s.all.Remove(x.at)
	if s.bySource[x.source]--; s.bySource[x.source] == 0 {
		delete(s.bySource, x.source)
	}
}

// leave frees the slot. It reports false if x had lost it.
func (s *strangers) leave(x *stranger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.displaced {
		return false
	}
	s.remove(x)
	return true
}

// len returns how many slots are taken.
func (s *strangers) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Len()
}
