package chunks

import (
	"testing"
)

// accept passes a chunk of a transfer to a Receiver.
func accept(r *Receiver, h Head, data string) Verdict {
	return r.Accept(h, len(data), func(before Sum) Sum { return before.Extend([]byte(data)) })
}

// headsOf returns the Heads of a content.
func headsOf(total uint64, content ...string) (heads []Head) {
	var sum Sum
	for i, data := range content {
		sum = sum.Extend([]byte(data))
		heads = append(heads, Head{Number: uint64(i), Total: total, Last: i == len(content)-1, Sum: sum})
	}
	return heads
}

func TestChunksAreAcceptedInOrder(t *testing.T) {
	var r Receiver
	content := []string{"one", "two", "", "three"}
	heads := headsOf(20, content...)
	for i, n := range []int{1, 0, 0, 2, 1, 0, 3, 2, 3, 3} {
		want := Repeated
		if uint64(n) == r.Next() {
			want = Accepted
		}
		if got := accept(&r, heads[n], content[n]); got != want {
			t.Errorf("%d: chunk %d: %v, want %v", i, n, got, want)
		}
		if r.IsComplete() != (r.Next() == 4) {
			t.Errorf("complete %v before chunk %d", r.IsComplete(), r.Next())
		}
	}
	if r.Bytes() != 11 {
		t.Errorf("%d bytes", r.Bytes())
	}
}

// A chunk that contradicts its transfer changes nothing.
func TestContradictingChunksAreRejected(t *testing.T) {
	content := []string{"one", "two"}
	good := headsOf(6, content...)
	for name, bad := range map[string]struct {
		change func(*Head)
		data   string
	}{
		"another sum":     {func(h *Head) { h.Sum ^= 1 }, "two"},
		"another content": {func(*Head) {}, "owt"},
		"another size":    {func(h *Head) { h.Total++ }, "two"},
		"too much":        {func(h *Head) { h.Sum = good[0].Sum.Extend([]byte("twoo")) }, "twoo"},
	} {
		var r Receiver
		accept(&r, good[0], content[0])
		h := good[1]
		bad.change(&h)
		if got := accept(&r, h, bad.data); got != Rejected || r.Next() != 1 || r.IsComplete() {
			t.Errorf("%s: %v", name, got)
		}
		if got := accept(&r, good[1], content[1]); got != Accepted || !r.IsComplete() {
			t.Errorf("%s: then the right chunk: %v", name, got)
		}
	}
}

// FuzzReceiver: whatever arrives, what was accepted is a run of chunks from the first on, within
// the declared size, with the declared sum.
func FuzzReceiver(f *testing.F) {
	f.Add([]byte("\x00\x06\x03one\x01\x06\x83two"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r Receiver
		var all []byte
		var total uint64
		for len(in) >= 3 {
			size := min(int(in[2]&0x7f), len(in)-3)
			data := in[3 : 3+size]
			h := Head{Number: uint64(in[0]), Total: uint64(in[1]), Last: in[2] > 0x7f, Sum: Sum(0).Extend(append(all[:len(all):len(all)], data...))}
			if in[0]&1 == 1 && len(data) > 0 {
				h.Sum ^= Sum(data[0]) // sometimes wrong
			}
			before, done := r.Next(), r.IsComplete()
			switch accept(&r, h, string(data)) {
			case Accepted:
				if all = append(all, data...); before == 0 {
					total = h.Total
				}
				if done || h.Number != before || r.Next() != before+1 || h.Total != total || uint64(len(all)) > total {
					t.Fatalf("accepted %+v after %d chunks", h, before)
				}
			default:
				if r.Next() != before || r.IsComplete() != done {
					t.Fatalf("%+v was not accepted and changes something", h)
				}
			}
			if r.Bytes() != uint64(len(all)) {
				t.Fatalf("%d bytes of %d", r.Bytes(), len(all))
			}
			in = in[3+size:]
		}
	})
}

// Numbers are accepted one by one.
func TestNumbersAreAcceptedInOrder(t *testing.T) {
	var o Order
	for _, c := range []struct {
		number   uint64
		accepted bool
	}{{1, false}, {0, true}, {0, false}, {2, false}, {1, true}} {
		if got := o.AcceptNumber(c.number); got != c.accepted {
			t.Errorf("number %d: accepted %v", c.number, got)
		}
	}
	if o.Next() != 2 {
		t.Errorf("expects %d", o.Next())
	}
}

// Nothing follows the final chunk.
func TestNothingFollowsTheFinalChunk(t *testing.T) {
	var r Receiver
	same := func(before Sum) Sum { return before }
	if got := r.Accept(Head{Total: 10, Last: true}, 4, same); got != Accepted || !r.IsComplete() {
		t.Fatalf("the final chunk: %v", got)
	}
	if got := r.Accept(Head{Number: 1, Total: 10}, 4, same); got != Repeated || r.Bytes() != 4 || r.Next() != 1 {
		t.Errorf("a chunk behind it: %v, %d bytes, expects %d", got, r.Bytes(), r.Next())
	}
}
