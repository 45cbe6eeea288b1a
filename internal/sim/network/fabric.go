package network

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// Block is what a one-way path between two hosts does with packets.
type Block uint8

const (
	// Open paths pass all packets.
	Open Block = iota
	// Drop paths lose all packets.
	Drop
	// Reject paths answer in the name of the destination that its port is closed.
	Reject
)

// Frame is a message in flight. The simulator passes the values themselves: messages are
// immutable, the codecs have tests of their own.
type Frame struct {
	Kind transport.Kind
	Msg  any
	// number is that of the recorded message, 0 if it is not recorded, bytes the size of its encoding.
	number, bytes int
}

// fabric is what packets travel on: the paths between hosts, and the power of machines.
type fabric struct {
	run      *run.Run
	machines []machine
	// apart reports whether nothing may pass between two hosts yet.
	apart func(a, b int) bool
}

// machine is one host in the network: it keeps its address while processes come and go.
type machine struct {
	// down is a machine without power: nothing answers, not even a refusal.
	down bool
	// tenant is set while a process that is no part of the run listens at the address of one that
	// has ended: it answers dials, and refuses the handshake.
	tenant bool
	// paths and latency are those to the other hosts.
	paths   []Block
	latency []time.Duration
	// busy is when the line of the machine will have sent what waits for it.
	busy virtual.Instant
}

func newFabric(r *run.Run, apart func(a, b int) bool) *fabric {
	f := &fabric{run: r, machines: make([]machine, r.Config.Nodes), apart: apart}
	for i := range f.machines {
		m := &f.machines[i]
		m.paths = make([]Block, len(f.machines))
		m.latency = make([]time.Duration, len(f.machines))
		for j := range m.latency {
			m.latency[j] = r.Rand.Setup.Duration(50*time.Microsecond, r.Config.LatencyMax)
		}
	}
	return f
}

// blockOf returns what happens to packets from one host to another.
func (f *fabric) blockOf(from, to int) Block { return f.machines[from].paths[to] }

// blocked returns the worse of the two paths between hosts.
func (f *fabric) blocked(a, b int) Block { return max(f.blockOf(a, b), f.blockOf(b, a)) }

// setPath changes one direction between two hosts, and reports whether it was another one.
func (f *fabric) setPath(from, to int, b Block) (Block, bool) {
	if b == Open && f.apart(from, to) {
		b = Drop
	}
	if from == to || f.blockOf(from, to) == b {
		return b, false
	}
	f.machines[from].paths[to] = b
	f.recordPath(from, to, b)
	return b, true
}

const (
	// headerBytes is what packets add to a frame.
	headerBytes = 60
	// backlogMax is how much may wait for the line of a machine. Then datagrams are lost, and
	// connections refuse frames.
	backlogMax = 500 * time.Millisecond
)

// sendOver has a frame wait for the line of a machine, in runs with narrow lines until faults end, and
// returns for how long. It returns false if too much waits already.
func (f *fabric) sendOver(from int, frame *Frame) (wait time.Duration, room bool) {
	m, now, rate := &f.machines[from], f.run.Now(), f.run.Config.LineBytes
	if rate == 0 || f.run.Calm {
		return 0, true
	}
	begins := max(m.busy, now)
	if begins.Sub(now) > backlogMax {
		f.run.Hit(coverage.LineFull)
		return 0, false
	}
	m.busy = begins.Add(time.Duration(frame.bytes+headerBytes) * time.Second / time.Duration(rate))
	return m.busy.Sub(now), true
}

// drawLatency draws how long a packet takes.
func (f *fabric) drawLatency(from, to int, class transport.Class) time.Duration {
	base, r := f.machines[from].latency[to], f.run.Rand.Net
	if r.IntN(64) == 0 {
		return base + r.Duration(0, f.run.Config.Spike)
	}
	if class == transport.Bulk {
		base += r.Duration(0, 5*time.Millisecond)
	}
	return base + time.Duration(r.Uint64()%uint64(base/2+1))
}
