package namespace

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newPacket returns an IPv4 packet of a direction, with a number as its content.
func newPacket(from, to byte, number int) []byte {
	b := make([]byte, headerLeast, headerLeast+4)
	b[0], b[15], b[19] = 4<<4|headerLeast/4, from, to
	return binary.BigEndian.AppendUint32(b, uint32(number))
}

func numberOf(packet []byte) int { return int(binary.BigEndian.Uint32(packet[headerLeast:])) }

// sentPacket is what came out of a queue, and how long after the begin.
type sentPacket struct {
	number int
	after  time.Duration
}

// outlet notes the packets that are sent on.
type outlet struct {
	began time.Time
	sent  []sentPacket
	err   error
}

func (o *outlet) Write(b []byte) (int, error) {
	o.sent = append(o.sent, sentPacket{numberOf(b), time.Since(o.began)})
	return len(b), o.err
}

// playDelay sends packets of one direction and then of another each millisecond, and ends the
// delay right behind the last one.
func playDelay(d Delay, packets int, err error) ([]sentPacket, Delayed) {
	q, arrivals, ended := newDelayQueue(d), make(chan arrival), make(chan struct{})
	out, done := &outlet{began: time.Now(), err: err}, make(chan struct{})
	go func() {
		defer close(done)
		q.pass(arrivals, ended, out)
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range packets {
		for way := range 2 {
			arrivals <- arrival{newPacket(byte(way), byte(1-way), 2*i+way), time.Now()}
		}
		<-tick.C
	}
	close(ended)
	<-done
	return out.sent, q.did
}

// Each packet is held for the least time and at most the jitter more, also those that are held
// when the delay ends. Packets of one direction stay in order, unless they may overtake.
func TestPacketsAreHeldAndSentOn(t *testing.T) {
	const packets, base, jitter = 500, 50 * time.Millisecond, 20 * time.Millisecond
	for _, reorder := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sent, did := playDelay(Delay{Base: base, Jitter: jitter, Reorder: reorder, Seed: 1}, packets, nil)
			if len(sent) != 2*packets {
				t.Fatalf("%d of %d packets were sent on", len(sent), 2*packets)
			}
			byNumber := func(a, b sentPacket) int { return a.number - b.number }
			if slices.IsSortedFunc(sent, byNumber) {
				t.Error("the directions wait for each other")
			}
			for way := range 2 {
				one := slices.DeleteFunc(slices.Clone(sent), func(p sentPacket) bool { return p.number%2 != way })
				if inOrder := slices.IsSortedFunc(one, byNumber); inOrder == reorder {
					t.Errorf("reorder %v, and direction %d is in order: %v", reorder, way, inOrder)
				}
			}
			for _, p := range sent {
				held := p.after - time.Duration(p.number/2)*time.Millisecond
				if held < base || held > base+jitter {
					t.Fatalf("packet %d was held for %v", p.number, held)
				}
			}
			if did.Packets != 2*packets || did.Dropped != 0 || did.MeanMS < 50 || did.MeanMS > did.MaxMS || did.MaxMS > 70 {
				t.Errorf("%+v", did)
			}
		})
	}
}

// A delay without packets ends immediately. Packets that the device refuses are counted.
func TestDelaysEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, did := playDelay(Delay{Base: time.Second}, 0, nil); did != (Delayed{}) || time.Since(began) != 0 {
			t.Errorf("%+v after %v", did, time.Since(began))
		}
		if _, did := playDelay(Delay{Base: time.Second}, 3, errors.New("refused")); did.Dropped != 6 {
			t.Errorf("%+v", did)
		}
	})
}

// The queue is bounded by packets and by bytes, drops what comes then, and has room again when
// packets have been sent on. Packets other than IPv4 are not held.
func TestHeldPacketsAreBounded(t *testing.T) {
	began := time.Now()
	for _, c := range []struct{ size, most int }{{0, heldMost}, {1 << 15, heldBytesMost / (1<<15 + headerLeast + 4)}} {
		q := newDelayQueue(Delay{Base: time.Second})
		q.holdPacket([]byte{6 << 4}, began)
		q.holdPacket(make([]byte, 40), began)
		for i := range c.most + 3 {
			q.holdPacket(append(newPacket(1, 2, i), make([]byte, c.size)...), began)
		}
		if len(q.held) != c.most || q.did.Dropped != 3 || q.bytes > heldBytesMost {
			t.Errorf("%d packets are held, %d bytes, want %d; %d dropped", len(q.held), q.bytes, c.most, q.did.Dropped)
		}
		if q.takeDue(began.Add(time.Second-1)) != nil {
			t.Error("a packet came too early")
		}
		for i := range c.most {
			if p := q.takeDue(began.Add(time.Second)); p == nil || numberOf(p) != i {
				t.Fatalf("packet %d is missing: %v", i, p)
			}
		}
		if _, any := q.nextDue(); any || q.bytes != 0 {
			t.Errorf("an empty queue has %d bytes", q.bytes)
		}
		if q.holdPacket(newPacket(1, 2, 0), began.Add(time.Second)); len(q.held) != 1 {
			t.Error("an empty queue has no room")
		}
	}
}
