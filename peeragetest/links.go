package peeragetest

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage"
)

// links holds which paths of the network are cut or slow, by addresses. All methods are
// safe for concurrent use.
type links struct {
	network *peerage.Network

	mu    sync.Mutex
	addrs []string
	slow  map[string]time.Duration
	alone map[string]bool
	// apart holds pairs of addresses, in both orders.
	apart map[[2]string]bool
}

// usualLatency is the latency of all paths: without it, a loop of messages would take no
// virtual time, and never end by a timer.
const usualLatency = 100 * time.Microsecond

func newLinks(n *peerage.Network) *links {
	n.SetUsual(peerage.NetworkPath{Latency: usualLatency})
	return &links{network: n, slow: map[string]time.Duration{}, alone: map[string]bool{}, apart: map[[2]string]bool{}}
}

func (l *links) addHost(addr string) {
	l.changePaths(func() { l.addrs = append(l.addrs, addr) })
}

func (l *links) cutOff(addr string) {
	l.changePaths(func() { l.alone[addr] = true })
}

func (l *links) cutPair(a, b string) {
	l.changePaths(func() { l.apart[[2]string{a, b}], l.apart[[2]string{b, a}] = true, true })
}

func (l *links) slowDown(addr string, d time.Duration) {
	l.changePaths(func() { l.slow[addr] = d })
}

func (l *links) openAll() {
	l.changePaths(func() {
		clear(l.alone)
		clear(l.apart)
	})
}

// changePaths makes a change, and sets all paths.
func (l *links) changePaths(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	for i, a := range l.addrs {
		for _, b := range l.addrs[i+1:] {
			l.network.SetPaths(a, b, l.between(a, b))
		}
	}
}

// between returns the path between two addresses.
func (l *links) between(a, b string) peerage.NetworkPath {
	p := peerage.NetworkPath{Latency: max(usualLatency, l.slow[a], l.slow[b])}
	if l.alone[a] || l.alone[b] || l.apart[[2]string{a, b}] {
		p.Cut = peerage.CutDropped
	}
	return p
}
