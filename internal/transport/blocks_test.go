package transport

import (
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// handing is an engine without a network, and a connection that brought frames.
func handing(kinds ...Kind) (*engine, *inbound, *frameBuffer) {
	e := newEngine(Config{ID: 1, Name: "n", Cluster: "c"}.withDefaults(), "", nil)
	in := &inbound{peer: Peer{ID: 7}, handing: make(chan struct{}, 1)}
	b := newFrameBuffer(1 << 10)
	for i, k := range kinds {
		b.received(copy(b.space(), appendFrame(nil, k, fmt.Appendf(nil, "%d", i))))
	}
	b.received(copy(b.space(), appendFrame(nil, KindEntity, []byte("half a frame"))[:9]))
	return e, in, b
}

func takeAll(f *Frames) (all []string) {
	for p, ok := f.Next(); ok; p, ok = f.Next() {
		all = append(all, string(p))
	}
	return all
}

func TestBlocksAreFramesOfOneKindInARow(t *testing.T) {
	e, in, b := handing(KindEntity, KindEntity, KindView, KindEntity)
	var got []string
	e.Handle(KindView, func(_ gossip.NodeID, p []byte) { got = append(got, "view "+string(p)) })
	e.HandleBlocks(KindEntity, func(from gossip.NodeID, f *Frames) { got = append(got, fmt.Sprint(uint64(from), takeAll(f))) })
	if err := e.receiver.handOut(in, b); err != nil {
		t.Fatal(err)
	}
	if want := []string{"7 [0 1]", "view 2", "7 [3]"}; !slices.Equal(got, want) {
		t.Errorf("handed out %q, want %q", got, want)
	}
	if c := &e.counters.Class[0]; c.FramesReceived.Load() != 4 || c.BytesReceived.Load() != 4*uint64(frameHeaderBytes+1) {
		t.Errorf("counted %d frames of %d bytes", c.FramesReceived.Load(), c.BytesReceived.Load())
	}
}

func TestAReplacedConnectionEndsInTheMiddleOfABlock(t *testing.T) {
	e, in, b := handing(KindEntity, KindEntity, KindEntity)
	e.HandleBlocks(KindEntity, func(_ gossip.NodeID, f *Frames) {
		f.Next()
		in.ended.Store(true)
		if p, ok := f.Next(); ok {
			t.Errorf("%q was handed out behind the end", p)
		}
	})
	if err := e.receiver.handOut(in, b); err != errReplaced {
		t.Fatal(err)
	}
	if n := e.counters.Drops[DropReplaced].Load(); n != 2 {
		t.Errorf("%d drops counted, two frames are left", n)
	}
}

func TestFramesLeftByABlockHandlerAreCounted(t *testing.T) {
	e, in, b := handing(KindEntity, KindEntity, KindView)
	e.HandleBlocks(KindEntity, func(gossip.NodeID, *Frames) {})
	if err := e.receiver.handOut(in, b); err != nil {
		t.Fatal(err)
	}
	if n := e.counters.Drops[DropNoHandler].Load(); n != 3 {
		t.Errorf("%d drops counted, want 2 and that of a kind without a handler", n)
	}
}

func TestABlockEndsAtAnOversizeFrame(t *testing.T) {
	e, in, b := handing(KindEntity)
	b.w -= 9
	b.received(copy(b.space(), appendFrame(nil, KindEntity, make([]byte, 2<<10))[:frameHeaderBytes]))
	e.HandleBlocks(KindEntity, func(_ gossip.NodeID, f *Frames) {
		if got := takeAll(f); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
	if _, ok := e.receiver.handOut(in, b).(*oversizeError); !ok {
		t.Error("the oversize frame went unnoticed")
	}
}
