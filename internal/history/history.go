// Package history records the operations of entities and callers in real processes, and
// checks afterwards what no single process can: that no entity had two instances acting,
// and how long each took to answer again after a kill.
//
// A process appends fixed-size records to a file of its own with one write each.
// Written records survive SIGKILL, since they are in the kernel's page cache. Times are
// CLOCK_BOOTTIME, which all processes of one machine share.
package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/peerage-go/peerage/internal/clock"
)

// Op is the kind of a Record.
type Op uint8

const (
	// Handled: an instance ran its handler from Start to End.
	Handled Op = iota + 1
	// Answered: a caller asked at Start and had its answer at End.
	Answered
	// Failed: a caller asked at Start and gave up at End.
	Failed
	// HandlerStarted: an instance began to run its handler; End is not set. A
	// killed process leaves it without its Handled.
	HandlerStarted
	// Asked: a caller began a request at Start. Without Answered or Failed its
	// process was killed, or ended, before the answer.
	Asked
	// Told: an instance handled message number Value of the process Sender.
	Told
	// Wrote: a caller wrote Value to register Entity at a majority from Start to End,
	// acknowledged. Failed writes leave no record.
	Wrote
	// Seen: a caller read Value, 0 for none, from register Entity at a majority.
	Seen
	// Appended: the process Sender stored its entry number Entity on the disks of a
	// majority from Start to End, acknowledged.
	Appended
	// ReadBack: a caller read the entry number Entity of the process Sender at a
	// majority; Value is 1 if it was there.
	ReadBack
	// Suspected: Node had evidence at Start that the process of the node Sender is dead.
	Suspected
	// Excluded: Node adopted a view without the former member Sender at Start.
	Excluded
	// Created: Node made an instance of Entity at Start.
	Created
	// Added: the process Sender added its element number Entity to a replicated set at a
	// majority from Start to End, acknowledged.
	Added
	// Contained: a caller read the set at a majority; Value is 1 if the element number
	// Entity of the process Sender was there.
	Contained
	// NotSent: a request of a caller was due at Start, and was not sent since its process
	// had too many in flight.
	NotSent
	// Counted: an attempt of a caller to raise the counter Entity by one, from Start to End,
	// had the answer Value.
	Counted
	// Unsure: an attempt of a caller to raise the counter Entity, or to write Value to the
	// register Entity, began at Start and had no answer: it may take effect at any time.
	Unsure
	// Accepted: the process Sender sent its reliable message number Value to Entity at Start,
	// and the send returned without an error at End.
	Accepted
	// Confirmed: the process Sender had the confirmation at Start that its reliable message number
	// Value to Entity has been handled.
	Confirmed
	// Delivered: an instance handled the reliable message number Value of the process Sender.
	Delivered
)

// lastOp is the highest kind of a Record.
const lastOp = Delivered

// Record is one line of a history.
type Record struct {
	Op Op
	// Entity numbers the entity within the run.
	Entity uint32
	// Node is the incarnation that acted: the host of Handled, the caller of the rest.
	Node uint64
	// Term and Seq are the fencing token of the instance, for Handled.
	Term, Seq uint64
	// Value is the counter's value after the operation, or a register's.
	Value      uint64
	Start, End clock.Instant
	// Sender is the process that sent the message, for Told, Accepted, Confirmed and Delivered,
	// or that stored the entry, for Appended and ReadBack, or added the element, for Added and
	// Contained, or the node that Suspected and Excluded are about.
	Sender uint64
	// Sent is when the request or the message that was handled was sent, for Handled,
	// HandlerStarted, Told and Delivered; 0 if it carries no time.
	Sent clock.Instant
}

const recordBytes = 72

func (r *Record) encodeTo(b *[recordBytes]byte) {
	b[0] = byte(r.Op)
	binary.BigEndian.PutUint32(b[4:], r.Entity)
	binary.BigEndian.PutUint64(b[8:], r.Node)
	binary.BigEndian.PutUint64(b[16:], r.Term)
	binary.BigEndian.PutUint64(b[24:], r.Seq)
	binary.BigEndian.PutUint64(b[32:], r.Value)
	binary.BigEndian.PutUint64(b[40:], uint64(r.Start))
	binary.BigEndian.PutUint64(b[48:], uint64(r.End))
	binary.BigEndian.PutUint64(b[56:], r.Sender)
	binary.BigEndian.PutUint64(b[64:], uint64(r.Sent))
}

func decodeRecord(b []byte) (Record, error) {
	r := Record{
		Op:     Op(b[0]),
		Entity: binary.BigEndian.Uint32(b[4:]),
		Node:   binary.BigEndian.Uint64(b[8:]),
		Term:   binary.BigEndian.Uint64(b[16:]),
		Seq:    binary.BigEndian.Uint64(b[24:]),
		Value:  binary.BigEndian.Uint64(b[32:]),
		Start:  clock.Instant(binary.BigEndian.Uint64(b[40:])),
		End:    clock.Instant(binary.BigEndian.Uint64(b[48:])),
		Sender: binary.BigEndian.Uint64(b[56:]),
		Sent:   clock.Instant(binary.BigEndian.Uint64(b[64:])),
	}
	if r.Op < Handled || r.Op > lastOp {
		return r, fmt.Errorf("history: record of unknown kind %d", r.Op)
	}
	return r, nil
}

// Writer appends records to a file. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	f   *os.File
	err error
}

// Create opens a new history file. It fails if the file exists.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{f: f}, nil
}

// Write appends one record with one system call. The first error sticks and is
// returned by Close: a run with an incomplete history proves nothing.
func (w *Writer) Write(r Record) {
	var b [recordBytes]byte
	r.encodeTo(&b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = w.f.Write(b[:])
	}
}

// Close closes the file and returns the first error of any Write.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.f.Close())
}

// Read reads the records of a file. A last record that was cut off by a kill is
// left out; any other damage is an error.
func Read(path string) ([]Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Record
	for len(data) >= recordBytes {
		r, err := decodeRecord(data[:recordBytes])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, r)
		data = data[recordBytes:]
	}
	return out, nil
}
