package standby

import (
	"testing"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// writer sends the writes of an owner to one holder.
type writer struct {
	t   *testing.T
	c   *Core
	seq uint64
}

func newWriter(t *testing.T, bytesMax int) *writer {
	return &writer{t: t, c: New(Config{Self: 2, Type: "t", BytesMax: bytesMax})}
}

// write has a holder receive a state, and reports whether it took it.
func (w *writer) write(id string, version uint64, size int) bool {
	w.t.Helper()
	tok := protocol.Token{Term: 1, Seq: 1}
	out := &Effects{}
	m := Write{Token: tok, Stream: 1, Seq: w.seq, Copies: []Copy{{ID: id, Tag: Tag{Token: tok, Version: version}, State: make([]byte, size)}}}
	w.c.Step(1, Received{From: 1, Msg: m}, out)
	ack, is := out.Do[0].(Send).Msg.(Ack)
	if !is || len(out.Do) != 1 || ack.Full != (ack.Next == m.Seq) {
		w.t.Fatalf("a write is answered with %+v", out.Do)
	}
	if !ack.Full {
		w.seq++
	}
	return !ack.Full
}

// The room of a holder is for the newest states. A copy that is overwritten gives its room back,
// or a holder would be full once it has been written to for long enough.
func TestAnOverwrittenCopyGivesItsRoomBack(t *testing.T) {
	const most = 2 * (copyBytes + 1 + 100)
	w := newWriter(t, most)
	for version := range uint64(50) {
		for _, id := range []string{"a", "b"} {
			if size := 100 - int(version); !w.write(id, version+1, size) {
				t.Fatalf("version %d of %s has no room among %d bytes of %d", version+1, id, w.c.Bytes(), most)
			}
		}
	}
	if want := 2 * (copyBytes + 1 + 51); w.c.Bytes() != want {
		t.Errorf("counts %d bytes, holds %d", w.c.Bytes(), want)
	}
}

// A holder is full to the last byte of its bound, and a state that takes no more than the one it
// replaces has room even then.
func TestAHolderIsFullAtItsBound(t *testing.T) {
	const most = copyBytes + 1 + 100
	w := newWriter(t, most)
	if w.write("a", 1, 101) {
		t.Error("takes a state of one byte too many")
	}
	if !w.write("a", 1, 100) || w.c.Bytes() != most {
		t.Errorf("a state that fits has no room, or counts %d bytes of %d", w.c.Bytes(), most)
	}
	if !w.write("a", 2, 100) {
		t.Error("a state of the same size has no room")
	}
	if w.write("b", 1, 0) || w.write("a", 3, 101) {
		t.Error("takes more than its bound")
	}
	// The operator lowered the bound: smaller states still replace larger ones.
	w.c.Step(1, Configured{Mode: Quorum, Replicas: 3, BytesMax: 1}, &Effects{})
	if !w.write("a", 3, 99) || w.c.Bytes() != most-1 {
		t.Errorf("a smaller state does not replace a larger one: %d bytes", w.c.Bytes())
	}
}
