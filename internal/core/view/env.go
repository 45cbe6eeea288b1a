package view

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// env is the environment of a node's machines: the configuration, the time and the effects
// of the current step, and the source of random waits.
type env struct {
	cfg Config
	rng uint64
	// now and out are those of the current step.
	now clock.Instant
	out *Effects
	// epoch is that of the newest view, for traces.
	epoch  gossip.Epoch
	mutant mutant
}

func (e *env) self() gossip.NodeID { return e.cfg.Self.ID }

func (e *env) sendTo(to gossip.NodeID, m Message) {
	if to != e.self() && to != 0 {
		e.out.Send = append(e.out.Send, Send{To: to, Msg: m})
	}
}

func (e *env) traceEvent(kind string, subject gossip.NodeID, detail string) {
	e.out.Trace = append(e.out.Trace, TraceEvent{Kind: kind, Subject: subject, Epoch: e.epoch, Detail: detail})
}

// margin is how far one clock may run ahead of another over d.
func (e *env) margin(d time.Duration) time.Duration {
	return time.Duration(int64(d)/1e6*int64(e.cfg.DriftPPM)) + time.Microsecond
}

// random draws from the seed: splitmix64.
func (e *env) random() uint64 {
	e.rng += 0x9e3779b97f4a7c15
	z := e.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// upTo draws a random wait below d.
func (e *env) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(e.random() % uint64(d))
}
