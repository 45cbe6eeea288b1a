package route

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// due performs all that is due, each with the same outcome, and returns the kinds.
func due(r *Route[note], how Outcome) (kinds []Kind) {
	for a, ok := r.Next(); ok; a, ok = r.Next() {
		kinds = append(kinds, a.Kind)
		r.Done(&a, how)
	}
	return kinds
}

func tokenOf(n uint64) protocol.Token { return protocol.Token{Term: 1, Seq: n} }

// opened returns a route that is open to a node.
func opened(home gossip.NodeID, local bool) *Route[note] {
	r := &Route[note]{}
	r.Open(home, tokenOf(1), local)
	due(r, Sent)
	return r
}

// A message is offered to a route in each of its states.
func TestOfferInEachState(t *testing.T) {
	for _, c := range []struct {
		name, state string
		make        func() *Route[note]
		want        Kind
		wantNow     Kind
	}{
		{"no home", "unknown", func() *Route[note] { return &Route[note]{} }, Buffer, NoHome},
		{"local", "local", func() *Route[note] { return opened(2, true) }, Publish, Deliver},
		{"remote", "remote", func() *Route[note] { return opened(2, false) }, Send, Send},
		{"closed by a move", "closed", func() *Route[note] {
			r := opened(2, false)
			r.Close(2, tokenOf(2))
			return r
		}, Buffer, NoHome},
		{"connection lost", "suspended", func() *Route[note] {
			r := opened(2, false)
			r.PeerLost(2)
			return r
		}, Buffer, NoHome},
		{"window used up", "held up", func() *Route[note] {
			r := opened(2, false)
			fillWindow(r)
			return r
		}, Wait, Send},
		{"entity stopped", "remote", func() *Route[note] {
			r := opened(2, false)
			r.Stop(2, tokenOf(1), "a", flow.Handler)
			return r
		}, Wait, Stopped},
		{"buffer not empty", "remote", func() *Route[note] {
			r := &Route[note]{}
			r.Keep(&Item[note]{})
			r.Open(2, tokenOf(1), false)
			due(r, Full)
			return r
		}, Buffer, NoHome},
		{"refusals are due", "closed", func() *Route[note] {
			r := opened(2, false)
			r.Refused(2, 1, Item[note]{})
			return r
		}, Buffer, NoHome},
		{"forgotten", "unknown", func() *Route[note] {
			r := opened(2, false)
			r.Reset()
			return r
		}, Buffer, NoHome},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.make()
			due(r, Sent)
			it := Item[note]{ID: "a", Bytes: 1}
			if a := r.Offer(&it); a.Kind != c.want {
				t.Errorf("an offer returns action %d, want %d", a.Kind, c.want)
			}
			if r.State() != c.state {
				t.Errorf("the state is %q, want %q", r.State(), c.state)
			}
			it.Class = flow.Handler
			if a := r.OfferNow(&it); a.Kind != c.wantNow {
				t.Errorf("OfferNow returns action %d, want %d", a.Kind, c.wantNow)
			}
		})
	}
}

// fillWindow uses up the window, and lets one caller wait.
func fillWindow(r *Route[note]) {
	for {
		it := Item[note]{Bytes: 1}
		a := r.Offer(&it)
		if a.Kind == Wait {
			r.Await(&Waiter[note]{Item: it})
			return
		}
		r.Done(&a, Sent)
	}
}

// The actions that events make due, in their order.
func TestActionsOfEvents(t *testing.T) {
	held := func() *Route[note] {
		r := &Route[note]{}
		r.Keep(&Item[note]{Bytes: 1})
		return r
	}
	for _, c := range []struct {
		name  string
		r     *Route[note]
		event func(*Route[note])
		want  []Kind
	}{
		{"message without a home", &Route[note]{}, func(r *Route[note]) { r.Keep(&Item[note]{}) }, []Kind{NeedHome}},
		{"home for a message", held(), func(r *Route[note]) { due(r, Sent); r.Open(2, tokenOf(1), false) }, []Kind{Hide, Send, Freed}},
		{"local home for a message", held(), func(r *Route[note]) { due(r, Sent); r.Open(2, tokenOf(1), true) }, []Kind{Hide, Deliver, Publish, Freed}},
		{"close with a marker", opened(2, false), func(r *Route[note]) { r.Close(2, tokenOf(2)) }, []Kind{Hide, Marker}},
		{"turn to another home", opened(2, false), func(r *Route[note]) { r.Open(3, tokenOf(2), false) }, []Kind{Hide, Marker}},
		{"first refusal", opened(2, false), func(r *Route[note]) { r.Refused(2, 1, Item[note]{}) }, []Kind{Hide, Misrouted, Marker}},
		{"window used up", opened(2, false), fillWindow, []Kind{Report}},
		{"connection lost with a caller that waits", opened(2, false), func(r *Route[note]) { fillWindow(r); r.PeerLost(2) }, []Kind{Report, Wake}},
		{"gate opens", opened(2, false), func(r *Route[note]) {
			r.Stop(2, tokenOf(1), "a", flow.Handler)
			r.Await(&Waiter[note]{Item: Item[note]{ID: "a"}})
			r.Stop(2, tokenOf(1), "a", flow.Open)
		}, []Kind{Freed, Send, Wake, Freed}},
	} {
		c.event(c.r)
		if got := due(c.r, Sent); !slices.Equal(got, c.want) {
			t.Errorf("%s: actions %v, want %v", c.name, got, c.want)
		}
		if err := c.r.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A message that no connection carries, and one whose caller has gone, do not hold up those
// behind them.
func TestMessagesThatCannotLeaveHoldUpNone(t *testing.T) {
	for _, how := range []Outcome{TooLarge, Gone} {
		r := &Route[note]{}
		r.Keep(&Item[note]{Bytes: 1})
		r.Keep(&Item[note]{Bytes: 1})
		r.Open(2, tokenOf(1), false)
		due(r, how)
		if n, bytes, _ := r.Held(); n != 0 || bytes != 0 || r.Report().Sent != 0 {
			t.Errorf("outcome %d: %d messages of %d bytes are held, %d sent", how, n, bytes, r.Report().Sent)
		}
	}
}

// Filter removes from the buffer what is over.
func TestFilter(t *testing.T) {
	r := &Route[note]{}
	for n := range 4 {
		r.Keep(&Item[note]{Msg: note{n: n}, Bytes: 10})
	}
	if !r.Filter(func(it *Item[note]) bool { return it.Msg.n%2 == 0 }) || r.Filter(func(*Item[note]) bool { return false }) {
		t.Error("Filter reports what it did not do")
	}
	if n, bytes, _ := r.Held(); n != 2 || bytes != 20 {
		t.Errorf("%d messages of %d bytes are left", n, bytes)
	}
}

// A buffered message waits for room on the connection. The route closes, and the home leaves
// before there is room: the closed route is not suspended, so Look asks for no connection.
func TestTheEndOfAWaitForRoomLeavesAClosedRouteClosed(t *testing.T) {
	r := opened(2, false)
	r.PeerLost(2)
	r.Keep(&Item[note]{ID: "a"})
	r.PeerUp(2)
	if kinds := due(r, Full); !slices.Equal(kinds, []Kind{Send, AwaitRoom}) {
		t.Fatalf("actions %v are due", kinds)
	}
	r.Close(0, protocol.Token{})
	due(r, Sent)
	r.RoomFound(2, Down)
	due(r, Sent)
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if home := r.Look(false); home != 0 {
		t.Errorf("a closed route asks for a connection to %d", home)
	}
}

// TestLookRepeats checks that Look repeats what may have been lost, and returns the home that it
// needs a connection to, and that NeedsLook announces all of it.
func TestLookRepeats(t *testing.T) {
	look := func(gates bool, down uint64) func(*Route[note]) {
		return func(r *Route[note]) {
			needs := NeedsLook(r)
			if got := r.Look(gates); got != gossip.NodeID(down) {
				t.Errorf("Look needs a connection to %d, want %d", got, down)
			}
			if r.Due() && !needs {
				t.Errorf("a look repeats something on a route that needs none (%s)", r.State())
			}
		}
	}
	r, _ := blockedBy(1)
	playSteps(t, "a report", r, []step{
		{look(false, 0), "report to 2 under 1.1", "held up"},
		{func(r *Route[note]) { r.PeerLost(2) }, "wake message 1, result 6", "suspended"},
		{look(false, 2), "", "suspended"},
	})
	playSteps(t, "a marker", opened(2, false), []step{
		{openAt(3, 2, false), "hide; marker to 2 under 0.1", "remote"},
		{look(false, 0), "marker to 2 under 0.1", "remote"},
		{func(r *Route[note]) { r.MarkerAcked(2, 1) }, "freed", "remote"},
		{look(true, 0), "", "remote"},
		{func(r *Route[note]) {
			if NeedsLook(r) {
				t.Error("a route on which nothing waits needs a look")
			}
		}, "", "remote"},
	})
	blocked, _ := blockedBy(1)
	playSteps(t, "a marker of a blocked route", blocked, []step{
		{openAt(3, 2, false), "hide; marker to 2 under 0.1; wake message 1, result 6", "remote"},
		{look(false, 0), "marker to 2 under 0.1", "remote"},
	})
	playSteps(t, "gates", opened(2, false), []step{
		{func(r *Route[note]) {
			r.Stop(2, tokenOf(1), "b", flow.Handler)
			r.Stop(2, tokenOf(1), "a", flow.Handler)
		}, "", "remote"},
		{look(false, 0), "", "remote"},
		{look(true, 0), "ask gate to 2 under 1.1 of a; ask gate to 2 under 1.1 of b", "remote"},
	})
	local := &Route[note]{}
	local.Open(2, tokenOf(1), true)
	actions(local, Down) // the shard has not started
	playSteps(t, "a shard that starts later", local, []step{
		{look(false, 0), "publish to 2 under 1.1; freed", "local"},
	})
}
