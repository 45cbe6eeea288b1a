package crdt

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// A causal value is written in columns:
//
//	[kind, [node...], context, live, ...payload columns]
//
// The nodes are the message's own table, in order. Context and live are byte
// strings of base-128 numbers: per node the number of intervals, and each interval
// as the gap since the last one and its length. The payloads follow in the order
// of the live dots, so a dot costs next to nothing.

// appendHead writes the kind and the dots. Extra is the number of payload columns.
func (c *causal[P]) appendHead(b []byte, k Kind, order []int, extra int) []byte {
	b = canonical.AppendArrayLen(b, 4+extra)
	b = canonical.AppendUint(b, uint64(k))
	b = canonical.AppendArrayLen(b, len(order))
	for _, i := range order {
		b = canonical.AppendUint(b, uint64(c.columns[i].node))
	}
	var local [256]byte
	dots := local[:0]
	for _, i := range order {
		dots = c.columns[i].seen.append(dots)
	}
	b = canonical.AppendBin(b, dots)
	dots = dots[:0]
	for _, i := range order {
		dots = c.columns[i].runs().append(dots)
	}
	return canonical.AppendBin(b, dots)
}

// headSize returns about how many bytes appendHead writes.
func (c *causal[P]) headSize() int {
	n := 16
	for i := range c.columns {
		n += 9 + 6*len(c.columns[i].seen) + 4
	}
	return n + c.live/4
}

func (s spans) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	at := uint64(1)
	for _, x := range s {
		b = binary.AppendUvarint(b, x.from-at)
		b = binary.AppendUvarint(b, x.to-x.from)
		at = x.to + 2
	}
	return b
}

// readSpans reads what spans.append wrote.
func readSpans(p *canonical.Blob) spans {
	n := p.Count(2)
	if n == 0 {
		return nil
	}
	s := make(spans, 0, n)
	at := uint64(1)
	for range n {
		from := p.Next()
		from += at
		to := p.Next()
		to += from
		if !p.OK || from < at || to < from || to > seqWireMax {
			p.OK = false
			return nil
		}
		s = append(s, span{from, to})
		at = to + 2
	}
	return s
}

// readHead reads the kind and the dots into the empty c. It returns the live dots
// of each column and how many they are, at most as many as bytes are left: each
// has a payload of a byte at least.
func (c *causal[P]) readHead(r *reader, k Kind, extra int) (live []spans, n int) {
	r.tuple(4 + extra)
	readKind(r, k)
	nodes := readNodes(r)
	seen := canonical.Blob{B: r.Bin(), OK: true}
	runs := canonical.Blob{B: r.Bin(), OK: true}
	if r.Err != nil {
		return nil, 0
	}
	live = make([]spans, len(nodes))
	for i, node := range nodes {
		x := readSpans(&seen)
		if len(x) == 0 {
			seen.OK = false
			break
		}
		ci := c.column(node)
		sum, _ := c.columns[ci].seeAll(x)
		c.sum += sum
		live[i] = readSpans(&runs)
		room := uint64(len(r.B) - n)
		if count := live[i].count(); count > room {
			r.Fail(&LimitError{Field: "live dots", Declared: count, Max: room})
			return nil, 0
		}
		n += int(live[i].count())
		if !x.covers(live[i]) {
			runs.OK = false
		}
	}
	if !seen.Done() || !runs.Done() {
		r.Fail(ErrMalformed)
		return nil, 0
	}
	return live, n
}

// readKind reads a kind, which must be k.
func readKind(r *reader, k Kind) {
	if got := r.Uint(); r.Err == nil && got != uint64(k) {
		r.Fail(&KindError{Want: k, Got: Kind(min(got, 1<<16-1))})
	}
}

// readNodes reads a table of writers, which are in order and all different.
func readNodes(r *reader) []NodeID {
	n := r.arrayLen("nodes", 1)
	if n > nodesMax {
		r.Fail(&LimitError{Field: "nodes", Declared: uint64(n), Max: nodesMax})
		return nil
	}
	nodes := make([]NodeID, n)
	for i := range nodes {
		nodes[i] = NodeID(r.Uint())
		if i > 0 && nodes[i] <= nodes[i-1] {
			r.Fail(ErrMalformed)
		}
	}
	if r.Err != nil {
		return nil
	}
	return nodes
}

// eachRead calls f for each live dot of a decoded head, in the order of the
// payloads. The columns of a value just decoded are in the order of the nodes.
func eachRead(live []spans, f func(ci int, seq uint64) bool) {
	for ci, runs := range live {
		for _, x := range runs {
			for seq := x.from; seq <= x.to; seq++ {
				if !f(ci, seq) {
					return
				}
			}
		}
	}
}
