package main

import (
	"bufio"
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"math"
	"slices"
)

// formats are the forms of an export.
const (
	formatEDN       = "edn"
	formatPorcupine = "porcupine-json"
)

// objectKind is what an operation is about.
type objectKind byte

const (
	aCounter objectKind = iota
	aRegister
)

// object is a counter or a register, from one loss of its value to the next.
type object struct {
	kind   objectKind
	number uint32
	life   int
}

// String names an object. After a loss it is another one.
func (o object) String() string {
	name := [...]string{"counter", "register"}[o.kind]
	if o.life == 0 {
		return fmt.Sprintf("%s-%d", name, o.number)
	}
	return fmt.Sprintf("%s-%d.%d", name, o.number, o.life)
}

// action is what an operation does.
type action byte

const (
	addOne action = iota // to the count value
	writeValue
	readValue
)

var actionNames = [...]string{addOne: "add", writeValue: "write", readValue: "read"}

// step is one operation of an export.
type step struct {
	object object
	action action
	value  uint64
	call   int64
	// ret is when its caller had the answer, noAnswer if it had none.
	ret int64
	// client is the caller: it has one operation at a time.
	client int
}

const noAnswer = math.MaxInt64

// exporter collects the operations of a run.
type exporter struct {
	steps []step
	// end is a moment after all calls and answers.
	end int64
}

// addCounter adds the operations of one life of a counter, in the order of their counts, which
// lie above begin. One without an answer took effect in its handler, since a later count
// shows it.
func (e *exporter) addCounter(number uint32, life int, begin uint64, order []operation) {
	for _, op := range order {
		e.addCount(object{aCounter, number, life}, op.value-begin, op.call, op.ret)
	}
}

// addCount adds an operation that raised a counter to a value.
func (e *exporter) addCount(of object, value uint64, call, ret int64) {
	e.steps = append(e.steps, step{object: of, action: addOne, value: value, call: call, ret: ret})
}

// addAnswers adds the answers of a service's counter in one of its lives, by their counts, which
// lie above begin. The counts that are missing between them belong to attempts without an
// answer, which began at these instants.
func (e *exporter) addAnswers(answers []record, begins []int64, life int, begin uint64) {
	last := begin
	for _, a := range answers {
		of := object{aCounter, a.entity, life}
		for last++; last < a.value && len(begins) > 0; last++ {
			e.addCount(of, last-begin, begins[0], noAnswer)
			begins = begins[1:]
		}
		e.addCount(of, a.value-begin, a.start, a.end)
		last = a.value
	}
}

// addRegister adds the writes and reads of a register that lie between losses. A value that was
// read, and whose write has no record, was written by a caller that had no answer.
func (e *exporter) addRegister(records []record, lost []span) {
	for life, in := range betweenLosses(lost) {
		from := len(e.steps)
		numbers, written := map[uint64]uint64{0: 0}, map[uint64]bool{0: true}
		for _, r := range records {
			s := step{object: object{aRegister, r.entity, life}, action: writeValue, call: r.start, ret: r.end}
			switch {
			case r.kind == seen:
				s.action = readValue
			case r.kind == unsure:
				s.ret = noAnswer
			case r.kind != wrote:
				continue
			}
			if s.call < in.from || s.call >= in.to || s.ret != noAnswer && s.ret >= in.to {
				continue
			}
			if _, known := numbers[r.value]; !known {
				numbers[r.value] = uint64(len(numbers))
			}
			s.value = numbers[r.value]
			written[s.value] = written[s.value] || s.action == writeValue
			e.steps = append(e.steps, s)
		}
		for _, s := range e.steps[from:] {
			if s.action == readValue && !written[s.value] {
				written[s.value] = true
				e.steps = append(e.steps, step{object: s.object, action: writeValue, value: s.value, call: in.from, ret: noAnswer})
			}
		}
	}
}

// moment is the begin or the end of an operation.
type moment struct {
	at    int64
	end   bool
	index int // of the operation
}

// assignClients gives each operation a client that has no other one at that time, and returns
// the begins and ends of all operations by their time. A client without an answer is not used
// again.
func (e *exporter) assignClients() []moment {
	slices.SortStableFunc(e.steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.object.kind, b.object.kind), cmp.Compare(a.object.number, b.object.number), cmp.Compare(a.value, b.value))
	})
	moments := make([]moment, 0, 2*len(e.steps))
	for i, s := range e.steps {
		moments = append(moments, moment{s.call, false, i}, moment{s.ret, true, i})
		if e.end = max(e.end, s.call+1); s.ret != noAnswer {
			e.end = max(e.end, s.ret+1)
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.end != b.end && b.end: // operations that touch are concurrent
			return -1
		case a.end != b.end:
			return 1
		}
		return 0
	})
	free, clients := &clientHeap{}, 0
	for _, m := range moments {
		s := &e.steps[m.index]
		switch {
		case m.end && s.ret != noAnswer:
			heap.Push(free, s.client)
		case m.end:
		case free.Len() > 0:
			s.client = heap.Pop(free).(int)
		default:
			s.client = clients
			clients++
		}
	}
	return moments
}

// clientHeap has the clients without an operation, the lowest first.
type clientHeap []int

func (h clientHeap) Len() int           { return len(h) }
func (h clientHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h clientHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a client.
func (h *clientHeap) Push(x any) { *h = append(*h, x.(int)) }

// Pop removes the last client.
func (h *clientHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// writeExport writes the operations in a format.
func (e *exporter) writeExport(w io.Writer, format string) error {
	out := bufio.NewWriter(w)
	moments := e.assignClients()
	if format == formatEDN {
		e.writeEDN(out, moments)
	} else {
		e.writePorcupine(out)
	}
	return out.Flush()
}

// writeEDN writes a history for Elle: each operation is a transaction of one or two
// micro-operations on a register. One that raises a count reads the count below it, and writes
// the next one.
func (e *exporter) writeEDN(out *bufio.Writer, moments []moment) {
	for i, m := range moments {
		s := e.steps[m.index]
		outcome, at, known := "invoke", m.at, false
		switch {
		case m.end && s.ret == noAnswer:
			outcome, at = "info", e.end
		case m.end:
			outcome, known = "ok", true
		}
		fmt.Fprintf(out, "{:index %d, :type :%s, :process %d, :time %d, :f :txn, :value [%s]}\n", i, outcome, s.client, at, s.microOperations(known))
	}
}

// microOperations words an operation for Elle. Before its answer is known, a read has no value.
func (s *step) microOperations(known bool) string {
	read := func(value uint64) string {
		if !known || value == 0 {
			return fmt.Sprintf("[:r %q nil]", s.object)
		}
		return fmt.Sprintf("[:r %q %d]", s.object, value)
	}
	switch s.action {
	case readValue:
		return read(s.value)
	case writeValue:
		return fmt.Sprintf("[:w %q %d]", s.object, s.value)
	}
	return fmt.Sprintf("%s [:w %q %d]", read(s.value-1), s.object, s.value)
}

// writePorcupine writes an array that package encoding/json decodes into []porcupine.Operation.
// An operation without an answer returns at the end.
func (e *exporter) writePorcupine(out *bufio.Writer) {
	fmt.Fprint(out, "[")
	for i, s := range e.steps {
		separator := ",\n"
		if i == 0 {
			separator = "\n"
		}
		fmt.Fprintf(out, `%s{"ClientId": %d, "Input": {"key": %q, "op": %q`, separator, s.client, s.object, actionNames[s.action])
		if s.action == writeValue {
			fmt.Fprintf(out, `, "value": %d`, s.value)
		}
		fmt.Fprintf(out, `}, "Call": %d, "Output": {"value": %d}, "Return": %d}`, s.call, s.value, min(s.ret, e.end))
	}
	fmt.Fprint(out, "\n]\n")
}
