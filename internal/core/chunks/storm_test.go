package chunks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// The storm: one transfer over a network that loses, duplicates and reorders, to a receiver
// that sometimes evicts what it has, and a connection that is sometimes full.

type piece struct {
	attempt int
	head    Head
	data    []byte
}

// ack is an acknowledgement, restart the answer of a receiver that holds nothing.
type ack struct {
	attempt int
	next    uint64
	restart bool
}

type storm struct {
	rng     *rand.Rand
	now     clock.Instant
	content []byte
	cut     int
	sum     Sum
	sender  Sender[piece]

	receiver *Receiver
	got      []byte
	evicts   int
	// pieces and acks are in flight, in the order in which they arrive. attempt is the sender's,
	// received the receiver's.
	pieces            []piece
	acks              []ack
	attempt, received int
	sent              int
	err               error
}

const stormWindow = 4

func (w *storm) addPieces() {
	for w.cut < len(w.content) && w.sender.HasRoom() {
		n := min(1+w.cut*7%13, len(w.content)-w.cut)
		data := w.content[w.cut : w.cut+n]
		w.cut += n
		w.sum = w.sum.Extend(data)
		w.sender.Add(piece{w.attempt, Head{Total: uint64(len(w.content)), Last: w.cut == len(w.content), Sum: w.sum}, data})
	}
}

func (w *storm) sendPieces() {
	for w.addPieces(); ; {
		number, p, ok := w.sender.Next(w.now)
		if !ok {
			return
		}
		if w.rng.IntN(20) == 0 {
			w.sender.TakeBack()
			return
		}
		p.head.Number = number
		w.sent++
		w.pieces = shuffleIn(w.rng, w.pieces, p)
		if n := int(w.sender.next - w.sender.first); n > stormWindow {
			w.err = fmt.Errorf("%d chunks in flight", n)
		}
	}
}

// shuffleIn adds an element: lost, or twice, or before others.
func shuffleIn[T any](rng *rand.Rand, all []T, e T) []T {
	switch k := rng.IntN(10); {
	case k == 0:
		return all
	case k == 1:
		all = append(all, e)
	}
	all = append(all, e)
	if n := len(all); rng.IntN(8) == 0 {
		i := rng.IntN(n)
		all[i], all[n-1] = all[n-1], all[i]
	}
	return all
}

func (w *storm) receivePiece(p piece) {
	if p.attempt < w.received {
		return
	}
	if p.attempt > w.received || w.receiver == nil {
		if p.head.Number != 0 {
			w.acks = shuffleIn(w.rng, w.acks, ack{attempt: p.attempt, restart: true})
			return
		}
		w.receiver, w.received, w.got = &Receiver{}, p.attempt, nil
	}
	switch w.receiver.Accept(p.head, len(p.data), func(before Sum) Sum { return before.Extend(p.data) }) {
	case Accepted:
		w.got = append(w.got, p.data...)
	case Rejected:
		w.err = fmt.Errorf("rejects %+v", p.head)
	}
	w.acks = shuffleIn(w.rng, w.acks, ack{attempt: p.attempt, next: w.receiver.Next()})
	if w.evicts > 0 && !w.receiver.IsComplete() && w.rng.IntN(30) == 0 {
		w.evicts--
		w.receiver = nil
	}
}

// receiveAck begins the transfer again if the receiver holds nothing.
func (w *storm) receiveAck(a ack) {
	switch {
	case a.attempt != w.attempt:
	case !a.restart:
		w.sender.OnAck(w.now, a.next)
	default:
		w.beginAgain()
	}
}

func (w *storm) beginAgain() {
	if w.sender.Restart(w.now) {
		w.cut, w.sum = 0, 0
		w.attempt++
	}
}

// play ends when all content is acknowledged.
func (w *storm) play() {
	for steps := 0; w.err == nil; steps++ {
		switch {
		case w.cut == len(w.content) && w.sender.Unacked() == 0:
			if w.receiver == nil || !w.receiver.IsComplete() || !bytes.Equal(w.got, w.content) {
				w.err = fmt.Errorf("acknowledged without being there: %d of %d bytes", len(w.got), len(w.content))
			}
			return
		case steps > 100_000:
			w.err = fmt.Errorf("no end: %d of %d bytes", len(w.got), len(w.content))
			return
		}
		w.now = w.now.Add(time.Millisecond)
		w.sendPieces()
		if w.sender.Expire(w.now) && w.sender.Misses() > 4 {
			w.beginAgain()
		}
		if len(w.pieces) > 0 {
			p := w.pieces[0]
			w.pieces = w.pieces[1:]
			w.receivePiece(p)
		}
		if len(w.acks) > 0 {
			a := w.acks[0]
			w.acks = w.acks[1:]
			w.receiveAck(a)
		}
	}
}

func playStorm(seed uint64) *storm {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &storm{rng: rng, content: make([]byte, 1+rng.IntN(600)), evicts: rng.IntN(3), now: 1}
	for i := range w.content {
		w.content[i] = byte(rng.Uint32())
	}
	w.sender = NewSender[piece](Config{Window: stormWindow, Wait: func(misses int) time.Duration { return Backoff(20*time.Millisecond, misses) }})
	w.play()
	return w
}

// TestStorms: every transfer completes, with its content, and within its window.
func TestStorms(t *testing.T) {
	sent := 0
	for seed := range uint64(5000) {
		w := playStorm(seed)
		if w.err != nil {
			t.Fatalf("seed %d: %v", seed, w.err)
		}
		sent += w.sent
	}
	t.Logf("%d chunks sent", sent)
}
