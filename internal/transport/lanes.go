package transport

import "encoding/binary"

// pieceBytes is the size of one piece; a larger frame is sent in several.
const pieceBytes = 32 << 10

// piecesMax is how many frames may be in flight in pieces on one connection.
const piecesMax = 4

// Flow names frames of one peer and class that must be handled in the order in which
// they were sent. Zero is the flow of frames that name none: such a frame is handled
// after all frames sent before it.
type Flow uint64

// lanes holds the part of a link's queue that waits beside its backlog: large frames, and
// frames that must not overtake them.
//
// Small frames of all flows go into the backlog in order. A frame above pieceBytes opens
// a lane for its flow; while it waits there or is in flight, all later frames of the flow
// follow it into the lane, and those of other flows continue through the backlog. The
// writer alternates between a block of the backlog and a piece of a lane, the lanes in
// turn: a small frame waits for one piece at most, and large ones share the remaining
// bandwidth.
//
// Order. Within a lane frames keep theirs. A lane begins when all of the backlog that was
// queued before it has been taken, so a large frame does not overtake small ones of its
// flow; and it closes when its last frame was taken, so later frames in the backlog are
// behind it. A frame of flow zero that finds lanes waits in a lane until all frames that
// were in lanes and backlog on its arrival have been taken. There is one connection, and
// the receiver hands out a frame when its last byte has arrived: the order of last pieces
// on the wire is the order of handling.
//
// Invariant: bytes and frames are the sums over the lanes; no lane is empty; busy has
// those of order by their flows; at most piecesMax lanes have a slot.
type lanes struct {
	order []*lane
	busy  map[Flow]*lane
	next  int // in order: whose turn it is
	slots [piecesMax]bool

	bytes, frames int
	// turn: the last block was of the backlog.
	turn bool
	// queued and taken count the frames that went into the backlog and out of it.
	queued, taken uint64
	// piece is the block of the piece that is being written.
	piece block
}

type lane struct {
	flow   Flow
	frames []waiting
	// slot, if not 0, identifies the first frame on the wire; sent is how much of it was
	// sent.
	slot byte
	sent int
	// put and done count the frames added and removed.
	put, done uint64
}

// waiting is a frame in a lane. It must wait until the backlog has been taken up to
// after, and each lane in behind up to its count.
type waiting struct {
	kind    Kind
	payload []byte
	after   uint64
	behind  []laneMark
}

type laneMark struct {
	lane *lane
	upTo uint64
}

// add appends a frame; the lane keeps the payload.
func (q *lanes) add(f Flow, k Kind, payload []byte) {
	w := waiting{kind: k, payload: payload}
	l := q.busy[f]
	if l == nil || f == 0 {
		w.after = q.queued
	}
	if f == 0 {
		for _, other := range q.order {
			if other != l {
				w.behind = append(w.behind, laneMark{other, other.put})
			}
		}
	}
	if l == nil {
		l = &lane{flow: f}
		if q.busy == nil {
			q.busy = make(map[Flow]*lane)
		}
		q.busy[f] = l
		q.order = append(q.order, l)
	}
	l.frames = append(l.frames, w)
	l.put++
	q.frames++
	q.bytes += frameHeaderBytes + len(payload)
}

// ready returns the lane that sends next, or nil if none may send now.
func (q *lanes) ready() *lane {
	for i := range q.order {
		at := (q.next + i) % len(q.order)
		if l := q.order[at]; q.may(l) {
			q.next = at
			return l
		}
	}
	return nil
}

// may reports whether the first frame of l may go now.
func (q *lanes) may(l *lane) bool {
	if l.slot != 0 {
		return true
	}
	w := &l.frames[0]
	if w.after > q.taken || len(w.payload) > pieceBytes && q.slot() == 0 {
		return false
	}
	for _, m := range w.behind {
		if m.lane.done < m.upTo {
			return false
		}
	}
	return true
}

// slot returns a free slot, or 0.
func (q *lanes) slot() byte {
	for i, taken := range q.slots {
		if !taken {
			return byte(i + 1)
		}
	}
	return 0
}

// take returns the next block of a lane: a piece, or small frames up to the size of one.
func (q *lanes) take(l *lane) *block {
	b := &q.piece
	b.bytes, b.frames, b.sealed = b.bytes[:0], 0, true
	if w := &l.frames[0]; l.slot != 0 || len(w.payload) > pieceBytes {
		q.appendPiece(b, l, w)
	} else {
		for first := true; first || q.fits(b, l); first = false {
			w := &l.frames[0]
			b.bytes = appendFrame(b.bytes, w.kind, w.payload)
			q.bytes -= frameHeaderBytes + len(w.payload)
			q.shift(b, l)
		}
	}
	if len(l.frames) == 0 {
		delete(q.busy, l.flow)
		q.order = append(q.order[:q.next], q.order[q.next+1:]...)
	} else {
		q.next++
	}
	if len(q.order) > 0 {
		q.next %= len(q.order)
	}
	return b
}

// fits reports whether the first frame of l may go in the same block as those before it.
func (q *lanes) fits(b *block, l *lane) bool {
	return len(l.frames) > 0 && len(b.bytes)+frameHeaderBytes+len(l.frames[0].payload) <= pieceBytes && q.may(l)
}

// appendPiece appends the next piece of l's first frame.
func (q *lanes) appendPiece(b *block, l *lane, w *waiting) {
	mark := byte(0)
	if l.slot == 0 {
		l.slot = q.slot()
		q.slots[l.slot-1] = true
		mark = firstPiece
		b.bytes = binary.BigEndian.AppendUint32(append(b.bytes, make([]byte, frameHeaderBytes)...), uint32(len(w.payload)))
		q.bytes -= frameHeaderBytes
	} else {
		b.bytes = append(b.bytes, make([]byte, frameHeaderBytes)...)
	}
	n := min(pieceBytes, len(w.payload)-l.sent)
	b.bytes = append(b.bytes, w.payload[l.sent:l.sent+n]...)
	h := makePieceHeader(w.kind, l.slot|mark, b.bytes[frameHeaderBytes:])
	copy(b.bytes, h[:])
	l.sent += n
	q.bytes -= n
	if l.sent == len(w.payload) {
		q.slots[l.slot-1] = false
		l.slot, l.sent = 0, 0
		q.shift(b, l)
	}
}

// shift takes the first frame of l out; its last byte is in b.
func (q *lanes) shift(b *block, l *lane) {
	l.frames[0] = waiting{}
	l.frames = l.frames[1:]
	l.done++
	q.frames--
	b.frames++
}

// clear drops the waiting frames. The piece may still be in a write.
func (q *lanes) clear() {
	q.order, q.busy, q.next, q.slots, q.turn = nil, nil, 0, [piecesMax]bool{}, false
	q.bytes, q.frames, q.queued, q.taken = 0, 0, 0, 0
}
