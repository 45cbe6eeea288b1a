package chunks

import (
	"hash/crc32"
)

// Sum is the checksum of content: CRC-32C, chained over all chunks.
type Sum uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Extend returns the Sum of the content with data behind it.
func (s Sum) Extend(data []byte) Sum { return Sum(crc32.Update(uint32(s), castagnoli, data)) }

// Head is what a chunk carries beside its content.
type Head struct {
	Number uint64
	// Total is the size of all content in bytes, or more.
	Total uint64
	// Last marks the final chunk.
	Last bool
	// Sum is the Sum of all content up to the end of this chunk.
	Sum Sum
}

// Verdict is what a Receiver decides about a chunk.
type Verdict uint8

const (
	// Rejected: the chunk contradicts its transfer, or arrived damaged. It is neither accepted
	// nor acknowledged.
	Rejected Verdict = iota
	// Accepted: the content follows what was accepted before.
	Accepted
	// Repeated: the chunk was accepted before, or follows a gap. It is only acknowledged.
	Repeated
)

// Order accepts numbers in order. The zero Order expects number 0.
type Order struct{ next uint64 }

// AcceptNumber reports whether number is the next one, and advances if so.
func (o *Order) AcceptNumber(number uint64) bool {
	if number != o.next {
		return false
	}
	o.next++
	return true
}

// Next returns the number of the next chunk, which acknowledges all before it.
func (o *Order) Next() uint64 { return o.next }

// Receiver accepts the chunks of one transfer. It checks, and keeps no content. The zero
// Receiver expects the first chunk.
type Receiver struct {
	order Order
	total uint64
	bytes uint64
	sum   Sum
	done  bool
}

// Accept decides about a chunk with content of size bytes. sumOf returns the Sum of the content
// behind another one: it is called only if the chunk is in order and within the bounds.
func (r *Receiver) Accept(h Head, size int, sumOf func(before Sum) Sum) Verdict {
	if r.done || h.Number != r.order.next {
		return Repeated
	}
	total := r.total
	if h.Number == 0 {
		total = h.Total
	}
	if h.Total != total || uint64(size) > total-r.bytes || sumOf(r.sum) != h.Sum {
		return Rejected
	}
	r.order.AcceptNumber(h.Number)
	r.total, r.bytes, r.sum, r.done = total, r.bytes+uint64(size), h.Sum, h.Last
	return Accepted
}

// Next returns the number of the next chunk, to be sent as acknowledgement.
func (r *Receiver) Next() uint64 { return r.order.Next() }

// Bytes returns the size of the accepted content.
func (r *Receiver) Bytes() uint64 { return r.bytes }

// IsComplete reports whether the final chunk was accepted.
func (r *Receiver) IsComplete() bool { return r.done }
