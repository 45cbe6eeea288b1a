package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

var kindNames = map[Kind]string{
	Wait: "wait", Buffer: "buffer", NoHome: "no home", Stopped: "stopped", Send: "send", Deliver: "deliver",
	Publish: "publish", Hide: "hide", Marker: "marker", Report: "report", AskGate: "ask gate", AwaitRoom: "await room",
	NeedHome: "need home", Misrouted: "misrouted", Wake: "wake", Lost: "lost", Freed: "freed",
}

// actions performs all that is due, each with the same outcome, and describes it with all that
// the caller needs to perform it.
func actions(r *Route[note], how Outcome) string {
	var all []string
	for a, ok := r.Next(); ok; a, ok = r.Next() {
		s := kindNames[a.Kind]
		if a.To != 0 {
			s += fmt.Sprintf(" to %d", a.To)
		}
		if a.Token != (protocol.Token{}) {
			s += fmt.Sprintf(" under %d.%d", a.Token.Term, a.Token.Seq)
		}
		if a.Item != nil {
			s += fmt.Sprintf(" message %d", a.Item.Msg.n)
		}
		if a.ID != "" {
			s += " of " + a.ID
		}
		if a.First {
			s += ", first"
		}
		if a.Kind == Wake {
			s += fmt.Sprintf(", result %d", a.Result)
		}
		all = append(all, s)
		r.Done(&a, how)
	}
	return strings.Join(all, "; ")
}

// message returns a message for entity a of one byte.
func message(n int) *Item[note] { return &Item[note]{Msg: note{n: n}, ID: "a", Bytes: 1} }

// bufferedFor returns a route without a home, whose buffer has messages, and which asked for one.
func bufferedFor(numbers ...int) *Route[note] {
	r := &Route[note]{}
	for _, n := range numbers {
		r.Keep(message(n))
	}
	actions(r, Sent)
	return r
}

// sendAll offers messages and sends them.
func sendAll(r *Route[note], numbers ...int) {
	for _, n := range numbers {
		if a := r.Offer(message(n)); a.Kind == Send {
			r.Done(&a, Sent)
		}
	}
}

// blockedBy returns a route to node 2 whose window is used up, and a caller that waits for it.
func blockedBy(n int) (*Route[note], *Waiter[note]) {
	r := opened(2, false)
	for r.window.MayLeave(flow.Ordinary) {
		sendAll(r, 1)
	}
	w := &Waiter[note]{Item: *message(n)}
	r.Await(w)
	actions(r, Sent)
	return r, w
}

// Each step of a script is an event, the actions that it makes due, and the route's state.
type step struct {
	event       func(r *Route[note])
	want, state string
}

func playSteps(t *testing.T, name string, r *Route[note], steps []step) {
	t.Helper()
	for i, s := range steps {
		s.event(r)
		if got := actions(r, Sent); got != s.want || r.State() != s.state {
			t.Errorf("%s, step %d: %q, %s; want %q, %s", name, i+1, got, r.State(), s.want, s.state)
		}
		if err := r.Check(); err != nil {
			t.Errorf("%s, step %d: %v", name, i+1, err)
		}
	}
}

func openAt(node uint64, seq uint64, local bool) func(r *Route[note]) {
	return func(r *Route[note]) { r.Open(gossip.NodeID(node), tokenOf(seq), local) }
}

// A route that opens: when it stays as it is, when it waits for refusals first, and when it turns
// without a wait.
func TestRoutesOpen(t *testing.T) {
	refuse := func(r *Route[note]) { sendAll(r, 7); r.Refused(2, r.window.Sent(), *message(7)) }
	playSteps(t, "the same home again", opened(2, false), []step{
		{openAt(2, 1, false), "", "remote"},
		{openAt(2, 2, false), "hide; freed", "remote"},
		{func(r *Route[note]) { r.PeerLost(2) }, "", "suspended"},
		{openAt(2, 2, false), "hide; freed", "remote"},
		{func(r *Route[note]) { r.Close(0, protocol.Token{}) }, "hide", "closed"},
		{openAt(2, 2, false), "hide; freed", "remote"},
	})
	playSteps(t, "the home that refuses", opened(2, false), []step{
		{refuse, "hide; misrouted under 1.1; marker to 2 under 0.1", "closed"},
		{openAt(2, 2, false), "hide", "remote"}, // refusals may still come
		{func(r *Route[note]) { r.MarkerAcked(2, 1) }, "send to 2 under 1.2 message 7; freed", "remote"},
	})
	playSteps(t, "another home than the one that refuses", opened(2, false), []step{
		{refuse, "hide; misrouted under 1.1; marker to 2 under 0.1", "closed"},
		{openAt(3, 2, false), "hide; send to 3 under 1.2 message 7; freed", "remote"},
		{func(r *Route[note]) { r.MarkerAcked(2, 1) }, "", "remote"},
	})
	playSteps(t, "another home without a close", opened(2, false), []step{
		{openAt(3, 2, false), "hide; marker to 2 under 0.1", "remote"},
		{func(r *Route[note]) { r.Keep(message(1)) }, "", "remote"},
		{func(r *Route[note]) { r.MarkerAcked(3, 1) }, "", "remote"},
		{func(r *Route[note]) { r.MarkerAcked(2, 2) }, "", "remote"},
		{func(r *Route[note]) { r.MarkerAcked(2, 1) }, "send to 3 under 1.2 message 1; freed", "remote"},
	})
	playSteps(t, "this node was the home", opened(2, true), []step{
		{openAt(3, 2, false), "hide; freed", "remote"},
	})
	playSteps(t, "another home after a close", opened(2, false), []step{
		{func(r *Route[note]) { r.Close(2, tokenOf(5)) }, "hide; marker to 2 under 1.5", "closed"},
		{func(r *Route[note]) { r.Mark(2, tokenOf(5)) }, "marker to 2 under 1.5", "closed"},
		{openAt(3, 6, true), "hide; publish to 3 under 1.6; freed", "local"},
	})
}

// Open reports the end of a wait for a home: messages were buffered, and the route asked.
func TestOpenReportsTheEndOfAWait(t *testing.T) {
	asked := &Route[note]{}
	asked.OfferNow(message(1))
	suspended := opened(2, false)
	suspended.PeerLost(2)
	suspended.Keep(message(1))
	already := &Route[note]{}
	already.Open(3, tokenOf(9), false)
	for name, c := range map[string]struct {
		r    *Route[note]
		want bool
	}{
		"buffered and asked": {bufferedFor(1), true},
		"asked alone":        {asked, false},
		"buffered alone":     {suspended, false},
		"neither":            {&Route[note]{}, false},
		"open already":       {already, false},
	} {
		if got := c.r.Open(3, tokenOf(9), false); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A new home, or a new token, has a window of its own. The same allocation that is opened again
// after a break has the window that it had.
func TestAWindowBelongsToAnAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		home, seq uint64
		fresh     bool
	}{"same allocation": {2, 1, false}, "new token": {2, 2, true}, "new home": {3, 1, true}} {
		r, _ := blockedBy(1)
		r.PeerLost(2)
		actions(r, Sent)
		r.Open(gossip.NodeID(c.home), tokenOf(c.seq), false)
		actions(r, Sent)
		if got := r.window.MayLeave(flow.Ordinary); got != c.fresh || r.blocked == c.fresh {
			t.Errorf("%s: a message may leave: %v; blocked: %v", name, got, r.blocked)
		}
	}
}

// Refusals of messages that left for the present home, or for the one whose refusals are
// awaited, are expected, others are not.
func TestExpectedRefusals(t *testing.T) {
	r := opened(2, false)
	sendAll(r, 1, 2)
	r.Open(3, tokenOf(2), false)
	actions(r, Sent)
	r.MarkerAcked(2, 1)
	sendAll(r, 3)
	turned := opened(2, false)
	sendAll(turned, 1)
	turned.Open(3, tokenOf(2), false)
	sameHome := opened(2, false)
	sendAll(sameHome, 1)
	sameHome.Open(2, tokenOf(2), false)
	for i, c := range []struct {
		r            *Route[note]
		from, number uint64
		token        uint64
		want         bool
	}{
		{r, 3, 3, 2, true},
		{r, 3, 2, 2, false},
		{r, 3, 3, 1, false},
		{r, 2, 3, 2, false},
		{r, 2, 2, 1, false},
		{turned, 2, 1, 1, true},
		{turned, 2, 0, 1, false},
		{turned, 3, 1, 1, false},
		{sameHome, 2, 1, 2, true},
	} {
		if got := c.r.Expects(gossip.NodeID(c.from), tokenOf(c.token), c.number); got != c.want {
			t.Errorf("case %d: %v", i+1, got)
		}
	}
}

// A lost connection suspends the route to that peer alone, and ends the wait for its refusals.
func TestLostAndNewConnections(t *testing.T) {
	lost := func(n uint64) func(*Route[note]) { return func(r *Route[note]) { r.PeerLost(gossip.NodeID(n)) } }
	up := func(n uint64) func(*Route[note]) { return func(r *Route[note]) { r.PeerUp(gossip.NodeID(n)) } }
	playSteps(t, "peers", opened(2, false), []step{
		{lost(3), "", "remote"},
		{up(2), "", "remote"},
		{lost(2), "", "suspended"},
		{up(3), "", "suspended"},
		{func(r *Route[note]) { r.Keep(message(1)) }, "", "suspended"},
		{up(2), "send to 2 under 1.1 message 1; freed", "remote"},
		{func(r *Route[note]) { r.Close(0, protocol.Token{}) }, "hide", "closed"},
		{lost(2), "", "closed"},
	})
	playSteps(t, "refusals", opened(2, false), []step{
		{openAt(3, 2, false), "hide; marker to 2 under 0.1", "remote"},
		{func(r *Route[note]) { r.Keep(message(1)) }, "", "remote"},
		{lost(2), "send to 3 under 1.2 message 1; freed", "remote"},
	})
	r, _ := blockedBy(1)
	playSteps(t, "a report may be lost", r, []step{
		{lost(2), "wake message 1, result 6", "suspended"},
		{up(2), "report to 2 under 1.1; freed", "held up"},
	})
}

// Stops, grants and requests to shrink count if they are of the present home and token.
func TestNoticesAreThoseOfTheAllocation(t *testing.T) {
	for _, c := range []struct {
		name      string
		from, seq uint64
		counts    bool
	}{{"the home", 2, 1, true}, {"another node", 3, 1, false}, {"another token", 2, 2, false}} {
		r := opened(2, false)
		r.Stop(gossip.NodeID(c.from), tokenOf(c.seq), "a", flow.Handler)
		if _, _, gates := r.Held(); (gates == 1) != c.counts {
			t.Errorf("a stop of %s: %d gates", c.name, gates)
		}
		if _, ok := opened(2, false).Shrink(gossip.NodeID(c.from), tokenOf(c.seq), 1); ok != c.counts {
			t.Errorf("a request to shrink of %s: %v", c.name, ok)
		}
		r, w := blockedBy(1)
		r.Grant(gossip.NodeID(c.from), tokenOf(c.seq), flow.Grant{Limit: 1000, LimitBytes: 1 << 20})
		actions(r, Sent)
		if left := w.in == nil; left != c.counts || r.blocked == c.counts {
			t.Errorf("a grant of %s: the caller's message has left: %v; blocked: %v", c.name, left, r.blocked)
		}
	}
	r, w := blockedBy(1)
	r.Grant(2, tokenOf(1), flow.Grant{}) // it raises nothing
	if actions(r, Sent); w.in == nil || !r.blocked {
		t.Error("a grant without room ends a wait")
	}
	local := opened(2, true)
	local.Stop(2, tokenOf(1), "a", flow.Handler)
	suspended := opened(2, false)
	suspended.PeerLost(2)
	suspended.Stop(2, tokenOf(1), "a", flow.Handler)
	for _, r := range []*Route[note]{local, suspended} {
		if _, _, gates := r.Held(); gates != 0 {
			t.Errorf("a route that is %s has %d gates", r.State(), gates)
		}
	}
	if _, ok := suspended.Shrink(2, tokenOf(1), 1); ok {
		t.Error("a suspended route shrinks its window")
	}
}

// A reset hides the shard and forgets the home. Messages that were refused return to the buffer.
func TestResetForgetsTheHome(t *testing.T) {
	r := opened(2, true)
	playSteps(t, "local", r, []step{{(*Route[note]).Reset, "hide", "unknown"}})
	r = opened(2, false)
	sendAll(r, 1)
	r.Refused(2, 1, *message(1))
	actions(r, Sent)
	playSteps(t, "refused", r, []step{{(*Route[note]).Reset, "hide", "unknown"}})
	if home, token := r.Home(); home != 0 || token != (protocol.Token{}) || r.local || r.asked || r.blocked || len(r.backlog.buf) != 1 {
		t.Errorf("home %d, token %v, %d messages", home, token, len(r.backlog.buf))
	}
	blocked, _ := blockedBy(1)
	blocked.Reset()
	if got := actions(blocked, Sent); got != "hide; wake message 1, result 6" || blocked.blocked {
		t.Errorf("%q, blocked: %v", got, blocked.blocked)
	}
}

// Placeholders stand for their numbers, and are neither sent again nor lost.
func TestPlaceholdersKeepTheirPlace(t *testing.T) {
	refused := func(placeholder ...bool) *Route[note] {
		r := opened(2, false)
		for i := range placeholder {
			sendAll(r, i+1)
		}
		for i, p := range placeholder {
			it := *message(i + 1)
			it.Placeholder = p
			r.Refused(2, uint64(i+1), it)
		}
		actions(r, Sent)
		r.MarkerAcked(2, 1)
		return r
	}
	r := refused(false, true)
	if n, bytes, _ := r.Held(); n != 1 || bytes != 1 || !r.backlog.buf[0].Returned || r.backlog.buf[0].Msg.n != 1 {
		t.Errorf("%d messages of %d bytes", n, bytes)
	}
	if r = refused(true, true); len(r.backlog.buf) != 0 || actions(r, Sent) != "" {
		t.Errorf("%d messages", len(r.backlog.buf))
	}
	for _, placeholder := range []bool{false, true} {
		r := opened(2, false)
		sendAll(r, 1, 2)
		it := *message(1)
		it.Placeholder = placeholder
		r.Refused(2, 1, it) // the second was accepted
		actions(r, Sent)
		r.MarkerAcked(2, 1)
		want := "lost message 1"
		if placeholder {
			want = ""
		}
		if got := actions(r, Sent); got != want {
			t.Errorf("placeholder %v: %q", placeholder, got)
		}
	}
}

// A connection without room holds the buffer until there is room, and no message passes it.
func TestAFullConnectionHoldsTheBuffer(t *testing.T) {
	r := bufferedFor(1, 2)
	r.Open(2, tokenOf(1), false)
	if got := actions(r, Full); got != "hide; send to 2 under 1.1 message 1; await room to 2" {
		t.Fatal(got)
	}
	r.PeerLost(2)
	if got := actions(r, Sent); got != "" {
		t.Errorf("after the loss: %q", got)
	}
	r.PeerUp(2)
	if got := actions(r, Sent); got != "" { // AwaitRoom is still under way
		t.Errorf("after the new connection: %q", got)
	}
	if a := r.Offer(message(3)); a.Kind != Buffer {
		t.Errorf("an offer: %s", kindNames[a.Kind])
	}
	r.RoomFound(2, Sent)
	if got := actions(r, Sent); got != "send to 2 under 1.1 message 1; send to 2 under 1.1 message 2; freed" {
		t.Errorf("with room: %q", got)
	}
	for how, want := range map[Outcome]string{Gone: "remote", Down: "suspended", Sent: "remote"} {
		r := opened(2, false)
		r.awaiting = true
		if r.RoomFound(2, how); r.awaiting || r.State() != want {
			t.Errorf("outcome %d: %s", how, r.State())
		}
	}
	other := opened(2, false)
	if other.RoomFound(3, Down); other.State() != "remote" {
		t.Errorf("the former home has no room: %s", other.State())
	}
	local := opened(2, true)
	local.awaiting = true
	if a := local.Offer(message(1)); a.Kind != Buffer {
		t.Errorf("an offer to a local route that awaits room: %s", kindNames[a.Kind])
	}
	offered := opened(2, false)
	a := offered.Offer(message(1))
	if offered.Done(&a, Full); offered.awaiting || offered.Due() || offered.window.Sent() != 0 {
		t.Errorf("an offered message that finds no room: awaits %v, due %v", offered.awaiting, offered.Due())
	}
}

// A message that must leave now asks for a home once, and reports a window that is used up.
func TestOfferNowAsks(t *testing.T) {
	r := &Route[note]{}
	r.OfferNow(message(1))
	r.OfferNow(message(1))
	if got := actions(r, Sent); got != "need home" {
		t.Errorf("without a home: %q", got)
	}
	r = opened(2, false)
	for r.window.MayLeave(flow.Ordinary) {
		sendAll(r, 1)
	}
	a := r.OfferNow(message(1))
	if got := actions(r, Sent); a.Kind != Wait || a.To != 2 || got != "report to 2 under 1.1, first" {
		t.Errorf("%s to %d, then %q", kindNames[a.Kind], a.To, got)
	}
	r.backlog.due.actions |= doReport | doRepeat
	if got := actions(r, Sent); got != "report to 2 under 1.1, first" {
		t.Errorf("a report and its repetition: %q", got)
	}
}

// A gate holds callers for its entity, by class; those for other entities, and those whom a gate
// admitted, pass. A gate that opens further admits the classes that it held alone.
func TestGatesHoldClasses(t *testing.T) {
	at := func(r *Route[note], id string, class flow.Class) *Waiter[note] {
		w := &Waiter[note]{Item: Item[note]{Msg: note{n: int(class)}, ID: id, Class: class, Bytes: 1}}
		r.Await(w)
		return w
	}
	r, first := blockedBy(9)
	other, handler := at(r, "b", flow.Ordinary), at(r, "a", flow.Handler)
	r.Stop(2, tokenOf(1), "a", flow.Handler)
	gate := r.backlog.held.gates["a"]
	if first.in != &gate.held[flow.Ordinary] || other.in != &r.backlog.held.queues[flow.Ordinary] || handler.in != &r.backlog.held.queues[flow.Handler] {
		t.Error("a stop for ordinary messages holds others, or not these")
	}
	r.Stop(2, tokenOf(1), "a", flow.Control)
	if handler.in != &gate.held[flow.Handler] || first.in != &gate.held[flow.Ordinary] {
		t.Error("a stop for messages of handlers does not hold these, or no longer ordinary ones")
	}
	r.backlog.due.actions = 0
	r.Stop(2, tokenOf(1), "a", flow.Control)
	if r.Due() {
		t.Error("a repeated stop makes actions due")
	}
	r.Stop(2, tokenOf(1), "a", flow.Handler)
	if handler.in != &r.backlog.held.queues[flow.Handler] || !handler.admitted || first.in != &gate.held[flow.Ordinary] || !r.Due() {
		t.Error("a gate that opens for handlers")
	}
	r.backlog.due.actions = 0
	r.Stop(2, tokenOf(1), "a", flow.Control)
	if handler.in != &r.backlog.held.queues[flow.Handler] {
		t.Error("a caller that a gate has admitted is held again")
	}
	r.Stop(2, tokenOf(1), "a", flow.Open)
	if q := &r.backlog.held.queues[flow.Ordinary]; q.first != other || q.last != first || len(r.backlog.held.gates) != 0 {
		t.Error("callers of a gate that opens do not join the end of the queue")
	}
	r.Stop(2, tokenOf(1), "a", flow.Open)
	if got := r.backlog.due.freed; !slices.Equal(got, []string{"a"}) {
		t.Errorf("freed %q", got)
	}
}

// Of the callers at a gate that opens, admittedMost are not held by a further stop. A node keeps
// SlowMost gates for a shard.
func TestGatesAreBounded(t *testing.T) {
	r, _ := blockedBy(1)
	r.Stop(2, tokenOf(1), "b", flow.Handler)
	for range admittedMost + 5 {
		r.Await(&Waiter[note]{Item: Item[note]{ID: "b", Bytes: 1}})
	}
	r.Stop(2, tokenOf(1), "b", flow.Open)
	r.Stop(2, tokenOf(1), "b", flow.Handler)
	held := 0
	for w := r.backlog.held.gates["b"].held[flow.Ordinary].first; w != nil; w = w.next {
		held++
	}
	if held != 5 {
		t.Errorf("%d callers are held again, want 5", held)
	}
	for i := range flow.SlowMost + 2 {
		r.Stop(2, tokenOf(1), fmt.Sprint("entity", i), flow.Handler)
	}
	if _, _, gates := r.Held(); gates != flow.SlowMost {
		t.Errorf("%d gates, want %d", gates, flow.SlowMost)
	}
}

// Ordinary callers and handlers take turns, and control messages go first.
func TestCallersTakeTurns(t *testing.T) {
	r, _ := blockedBy(1)
	for i, class := range []flow.Class{flow.Ordinary, flow.Handler, flow.Handler, flow.Control} {
		r.Await(&Waiter[note]{Item: Item[note]{Msg: note{n: i + 2}, ID: "b", Class: class, Bytes: 1}})
	}
	actions(r, Sent)
	var order []int
	r.Grant(2, tokenOf(1), flow.Grant{Limit: 1000, LimitBytes: 1 << 20})
	for a, ok := r.Next(); ok; a, ok = r.Next() {
		if a.Kind == Send {
			order = append(order, a.Item.Msg.n)
		}
		r.Done(&a, Sent)
	}
	if !slices.Equal(order, []int{5, 1, 3, 2, 4}) {
		t.Errorf("messages leave in the order %v", order)
	}
}

// A caller that gives up leaves its queue, wherever it stands, once.
func TestCallersWithdraw(t *testing.T) {
	for out := range 3 {
		var q waiterQueue[note]
		all := []*Waiter[note]{{}, {}, {}}
		for _, w := range all {
			q.pushWaiter(w)
		}
		if !all[out].Withdraw() || all[out].Withdraw() || all[out].prev != nil || all[out].next != nil {
			t.Errorf("waiter %d withdraws twice, or keeps its neighbours", out)
		}
		left := slices.Delete(slices.Clone(all), out, out+1)
		if q.first != left[0] || q.last != left[1] || left[0].next != left[1] || left[1].prev != left[0] || left[0].prev != nil || left[1].next != nil {
			t.Errorf("without waiter %d the queue is broken", out)
		}
	}
}

// TestAClosedRouteAsksForAHomeWhenARefusalComesBack: it was closed while its only message was at the
// home that refuses it, and so had no reason to ask.
func TestAClosedRouteAsksForAHomeWhenARefusalComesBack(t *testing.T) {
	refuse := func(r *Route[note]) { sendAll(r, 7); r.Refused(2, r.window.Sent(), *message(7)) }
	for name, end := range map[string]func(r *Route[note]){
		"acknowledged": func(r *Route[note]) { r.MarkerAcked(2, 1) },
		"lost":         func(r *Route[note]) { r.PeerLost(2) },
	} {
		playSteps(t, name, opened(2, false), []step{
			{refuse, "hide; misrouted under 1.1; marker to 2 under 0.1", "closed"},
			{func(r *Route[note]) { r.Close(0, protocol.Token{}) }, "hide", "closed"},
			{end, "need home", "closed"},
			{openAt(3, 2, false), "hide; send to 3 under 1.2 message 7; freed", "remote"},
		})
	}
}

// TestCallersKeepWaitingForRoom checks the waits for the connection, and for the window after a stop.
func TestCallersKeepWaitingForRoom(t *testing.T) {
	r, _ := blockedBy(1)
	r.Grant(2, tokenOf(1), flow.Grant{Limit: 1000, LimitBytes: 1 << 20})
	if got := actions(r, Full); got != "send to 2 under 1.1 message 1; await room to 2" {
		t.Errorf("without room on the connection: %q", got)
	}
	r.RoomFound(2, Sent)
	if got := actions(r, Sent); got != "send to 2 under 1.1 message 1; wake message 1, result 1; freed" {
		t.Errorf("with room: %q", got)
	}
	r, _ = blockedBy(1)
	r.Stop(2, tokenOf(1), "a", flow.Handler)
	r.Stop(2, tokenOf(1), "a", flow.Open)
	if got := actions(r, Sent); got != "freed of a; freed" || r.State() != "held up" {
		t.Errorf("a stop that ends: %q, %s", got, r.State())
	}
}
