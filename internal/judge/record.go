package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// kind is the first byte of a record: what happened.
type kind byte

// The kinds of records, as docs/HISTORIES.md numbers them.
const (
	handled kind = iota + 1
	answered
	failed
	handlerStarted
	asked
	told
	wrote
	seen
	appended
	readBack
	suspected
	excluded
	created
	added
	contained
	notSent
	counted
	unsure
	accepted
	confirmed
	delivered
)

var kindNames = [...]string{
	handled: "handled", answered: "answered", failed: "failed", handlerStarted: "handler-started", asked: "asked",
	told: "told", wrote: "wrote", seen: "seen", appended: "appended", readBack: "read-back", suspected: "suspected",
	excluded: "excluded", created: "created", added: "added", contained: "contained", notSent: "not-sent",
	counted: "counted", unsure: "unsure", accepted: "accepted", confirmed: "confirmed", delivered: "delivered",
}

// hasEnd reports whether records of a kind have an end.
func (k kind) hasEnd() bool {
	switch k {
	case handled, answered, failed, wrote, seen, appended, readBack, added, contained, counted, accepted:
		return true
	}
	return false
}

// record is one record of a history. Times are nanoseconds on the clock that all processes share.
type record struct {
	kind   kind
	file   uint16 // index of the file, in the order of their names
	entity uint32
	number uint32 // place in the file, from 0
	node   uint64
	token  token
	value  uint64
	start  int64
	end    int64
	sender uint64
	sent   int64
}

// token is the fencing token of one allocation of a shard.
type token struct{ term, seq uint64 }

func (t token) less(u token) bool { return t.term < u.term || t.term == u.term && t.seq < u.seq }

// recordSize is the length of a record in a file.
const recordSize = 72

// parseRecord reads a record, and rejects those that no process writes.
func parseRecord(b []byte) (record, error) {
	r := record{
		kind:   kind(b[0]),
		entity: binary.BigEndian.Uint32(b[4:8]),
		node:   binary.BigEndian.Uint64(b[8:16]),
		token:  token{binary.BigEndian.Uint64(b[16:24]), binary.BigEndian.Uint64(b[24:32])},
		value:  binary.BigEndian.Uint64(b[32:40]),
		start:  int64(binary.BigEndian.Uint64(b[40:48])),
		end:    int64(binary.BigEndian.Uint64(b[48:56])),
		sender: binary.BigEndian.Uint64(b[56:64]),
		sent:   int64(binary.BigEndian.Uint64(b[64:72])),
	}
	switch {
	case r.kind < handled || r.kind > delivered:
		return r, fmt.Errorf("kind %d does not exist", r.kind)
	case b[1] != 0 || b[2] != 0 || b[3] != 0:
		return r, fmt.Errorf("bytes 1 to 3 are %x, want zeros", b[1:4])
	case r.start < 0 || r.sent < 0:
		return r, fmt.Errorf("a time is negative: start %d, sent %d", r.start, r.sent)
	case r.kind.hasEnd() && r.end < r.start:
		return r, fmt.Errorf("it ends at %d, before its start at %d", r.end, r.start)
	}
	return r, nil
}

// compareStarts orders records by their start; those that start at the same instant stay in the order
// of their files.
func compareStarts(a, b record) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.file, b.file), cmp.Compare(a.number, b.number))
}
