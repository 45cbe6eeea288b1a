package sharding

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// upper is Raw with a Decode of its own.
type upper struct{ Raw[[]byte] }

func (upper) Decode(p []byte) ([]byte, error) {
	if len(p) == 0 {
		return nil, errors.New("empty")
	}
	return bytes.ToUpper(p), nil
}

// hoarding starts a cluster of one whose entities keep what they are told.
func hoarding(t *testing.T, codec Codec[[]byte]) (*Region[[]byte, []byte], *node, func(id string) [][]byte) {
	c := newCluster(t)
	n := c.add("n1")
	var mu sync.Mutex
	kept := map[string][][]byte{}
	r, err := Register(n.reg, Type[[]byte, []byte]{
		Name: "raw", ReqCodec: codec,
		New: func(id string) Entity[[]byte, []byte] {
			return Func(func(_ *Context, p []byte) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				kept[id] = append(kept[id], p)
				return nil, nil
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	c.install(n)
	for _, id := range []string{"x", "y"} {
		if err := r.Start(within(t, 10*time.Second), id, Retry()); err != nil {
			t.Fatal(err)
		}
	}
	return r, n, func(id string) [][]byte { return kept[id] }
}

// told is the frame of a Tell to an entity that lives here.
func told(r *Region[[]byte, []byte], id string, payload []byte) []byte {
	f := r.Ref(id)
	frame := append(frames.AppendRequest(nil, "raw", f.Shard(), id, 0, nil), payload...)
	frames.Stamp(frame, r.typed.HostedUnder(f.Shard()), 1)
	return frame
}

// A payload that an entity keeps is its own: what the reader does with the block
// afterwards, and what the entity does with the payload, touches no other.
func TestPayloadsOfABlockShareNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, n, kept := hoarding(t, nil)
		var all many
		for i := range 200 {
			all.frames = append(all.frames, told(r, "x", bytes.Repeat([]byte{byte(i)}, i*2)))
		}
		frames := all.frames
		n.s.HandleEntities(9, &all)
		for _, f := range frames {
			clear(f)
		}
		synctest.Wait()
		got := kept("x")
		if len(got) != 200 {
			t.Fatalf("%d messages", len(got))
		}
		for i := range got {
			got[i] = append(got[i], "behind"...)
		}
		for i, p := range got {
			if want := append(bytes.Repeat([]byte{byte(i)}, i*2), "behind"...); !bytes.Equal(p, want) {
				t.Fatalf("message %d of %d bytes became %q", i, i*2, p)
			}
		}
		if s := r.Stats(); s.Received != 200 {
			t.Errorf("%d received", s.Received)
		}
	})
}

func TestACodecAroundRawIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, n, kept := hoarding(t, upper{})
		n.s.HandleEntities(9, &many{[][]byte{told(r, "x", []byte("loud")), told(r, "x", nil), told(r, "x", []byte("too"))}})
		synctest.Wait()
		if got := fmt.Sprintf("%q", kept("x")); got != `["LOUD" "TOO"]` {
			t.Errorf("got %s", got)
		}
		if s := r.Stats(); s.Dropped[DropCodec] != 1 {
			t.Errorf("%d dropped for the codec", s.Dropped[DropCodec])
		}
	})
}

// A block may hold requests of several types, other frames, and garbage between them.
func TestABlockIsOfManyKinds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, n, kept := hoarding(t, nil)
		other := frames.AppendRequest(nil, "other", 0, "x", 0, nil)
		cut := told(r, "x", nil)[:40]
		elsewhere := told(r, "x", []byte("elsewhere"))
		frames.Stamp(elsewhere, protocol.Token{Term: 1, Seq: 1 << 40}, 2)
		n.s.HandleEntities(9, &many{[][]byte{
			told(r, "x", []byte("1")), other, told(r, "x", []byte("2")), {}, {99}, cut[:30], elsewhere,
			frames.AppendCancel(nil, "raw", 7), told(r, "x", []byte("3")), told(r, "y", []byte("4")),
		}})
		synctest.Wait()
		if x, y := fmt.Sprintf("%q", kept("x")), fmt.Sprintf("%q", kept("y")); x != `["1" "2" "3"]` || y != `["4"]` {
			t.Errorf("x got %s, y %s", x, y)
		}
		s := r.Stats()
		if m, u := n.s.endpoints.Malformed.Load(), n.s.endpoints.UnknownType.Load(); m != 3 || u != 1 || s.Received != 5 || s.Stale != 1 {
			t.Errorf("%d malformed, %d of unknown types, %d received, %d stale", m, u, s.Received, s.Stale)
		}
	})
}
