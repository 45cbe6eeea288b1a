package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/transport"
)

// TestHintsHaveAPace offers more nodes than may be dialled: each dial waits for its turn,
// few are in flight, and the loop processes some hints after everything else.
func TestHintsHaveAPace(t *testing.T) {
	var h hints
	dropped, dials := 0, 0
	for i := range 4000 {
		if !h.offerHint(transport.Peer{ID: gossip.NodeID(i + 1), Addr: fmt.Sprint(i)}) {
			dropped++
		}
	}
	if dropped != 4000-hintsMax {
		t.Errorf("%d hints are dropped", dropped)
	}
	for now, end := h.nextDialAt(), h.nextDialAt().Add(10*time.Second); now.Before(end); now = now.Add(10 * time.Millisecond) {
		var a actions
		h.startDials(now, &a)
		if dials += len(a.lookAt); h.probing > hintsAtOnce {
			t.Fatalf("%d dials at a time", h.probing)
		}
		for range a.lookAt {
			h.dialDone()
		}
	}
	if most := hintsBurst + int(10*time.Second/hintEvery) + 1; dials > most || dials < most/2 {
		t.Errorf("%d dials in 10 s, want at most %d", dials, most)
	}

	b := newInbox(clock.Runtime())
	refused := 0
	for range 4000 {
		if !b.PutHint(found{}) {
			refused++
		}
	}
	b.PutFrame(frameIn{from: 1})
	b.Finish()
	b.Run(nil, func(batch []input) clock.Instant {
		if _, first := batch[0].(frameIn); !first || len(batch) != 1+hintsPerBatch || refused != 4000-hintsWaitingMax {
			t.Errorf("a batch of %d, %d refused", len(batch), refused)
		}
		return clock.Never
	})
}
