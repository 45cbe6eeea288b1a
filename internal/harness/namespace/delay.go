package namespace

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

// Delay is how long the packets of some paths are held on their way.
type Delay struct {
	// Base is the least time, Jitter the most that is added to it at random.
	Base, Jitter time.Duration
	// Reorder lets packets of one direction overtake each other.
	Reorder bool
	// Seed feeds the jitter.
	Seed uint64
}

// Delayed is what a delay did to its packets.
type Delayed struct {
	// Packets were held and sent on, Dropped were not: there was no room for them, or the
	// kernel refused them.
	Packets int `json:"packets"`
	Dropped int `json:"dropped"`
	// MeanMS and MaxMS are how long packets were held.
	MeanMS float64 `json:"mean_ms"`
	MaxMS  float64 `json:"max_ms"`
	// BeforeMS and DuringMS are round trips of a datagram on a delayed path, the first one
	// before the delay.
	BeforeMS float64 `json:"round_trip_before_ms"`
	DuringMS float64 `json:"round_trip_during_ms"`
}

// The room for packets that are held. A direct path loses packets, too, if its receiver has
// no room.
const (
	heldMost      = 1 << 14
	heldBytesMost = 64 << 20
)

// direction is the source and the destination of an IPv4 packet, from its header.
type direction [8]byte

// heldPacket is a packet that waits until due.
type heldPacket struct {
	came, due time.Time
	number    int
	data      []byte
}

// delayQueue holds packets until they are due. It has no clock: each call has the time.
type delayQueue struct {
	delay Delay
	rng   *rand.Rand
	held  packetHeap
	bytes int
	// last is when the newest packet of each direction is due.
	last  map[direction]time.Time
	count int
	total time.Duration
	did   Delayed
}

func newDelayQueue(d Delay) *delayQueue {
	return &delayQueue{delay: d, rng: rand.New(rand.NewPCG(d.Seed, 0)), last: map[direction]time.Time{}}
}

// headerLeast is the least length of the header of an IPv4 packet.
const headerLeast = 20

// holdPacket holds a packet that came now. It drops one that finds no room, and ignores what is not
// IPv4: a new device sends solicitations of its own.
func (q *delayQueue) holdPacket(data []byte, now time.Time) {
	if len(data) < headerLeast || data[0]>>4 != 4 {
		return
	}
	if len(q.held) == heldMost || q.bytes+len(data) > heldBytesMost {
		q.did.Dropped++
		return
	}
	due := now.Add(q.delay.Base + time.Duration(q.rng.Int64N(int64(q.delay.Jitter)+1)))
	if !q.delay.Reorder {
		way := direction(data[12:headerLeast])
		if last := q.last[way]; due.Before(last) {
			due = last
		}
		q.last[way] = due
	}
	q.count++
	q.bytes += len(data)
	heap.Push(&q.held, heldPacket{now, due, q.count, data})
}

// nextDue returns when the next packet is due, and false if none is held.
func (q *delayQueue) nextDue() (time.Time, bool) {
	if len(q.held) == 0 {
		return time.Time{}, false
	}
	return q.held[0].due, true
}

// takeDue removes the next packet and returns it, or nil if none is due.
func (q *delayQueue) takeDue(now time.Time) []byte {
	if due, any := q.nextDue(); !any || due.After(now) {
		return nil
	}
	p := heap.Pop(&q.held).(heldPacket)
	q.bytes -= len(p.data)
	held := now.Sub(p.came)
	q.total += held
	q.did.Packets++
	q.did.MaxMS = max(q.did.MaxMS, harness.Milliseconds(held))
	q.did.MeanMS = harness.Milliseconds(q.total) / float64(q.did.Packets)
	return p.data
}

// arrival is a packet that was read from the device.
type arrival struct {
	data []byte
	at   time.Time
}

// pass holds the packets that arrive, and writes each to out when it is due, until ended is
// closed and no packet is held.
func (q *delayQueue) pass(arrivals <-chan arrival, ended <-chan struct{}, out io.Writer) {
	for {
		for data := q.takeDue(time.Now()); data != nil; data = q.takeDue(time.Now()) {
			if _, err := out.Write(data); err != nil {
				q.did.Dropped++
			}
		}
		due, any := q.nextDue()
		if !any && ended == nil {
			return
		}
		var timer <-chan time.Time
		if any {
			timer = time.After(time.Until(due))
		}
		select {
		case a := <-arrivals:
			q.holdPacket(a.data, a.at)
		case <-timer:
		case <-ended:
			ended = nil
		}
	}
}

// packetHeap orders packets by the time at which they are due, then as they came.
type packetHeap []heldPacket

func (h packetHeap) Len() int { return len(h) }
func (h packetHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].number < h[j].number
}
func (h packetHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *packetHeap) Push(p any)   { *h = append(*h, p.(heldPacket)) }
func (h *packetHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = heldPacket{} // releases the data
	*h = (*h)[:last]
	return p
}
