package route

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// self is the node of the route; the shard may also live on nodes 2 and 3.
const self gossip.NodeID = 1

// note is a message of a sender: its number among those to one entity.
type note struct{ sender, n int }

// sender sends one message at a time, to one entity each: its calls return before the next.
type sender struct {
	id    string
	class flow.Class
	sent  int
	// waits is its place while it waits.
	waits *Waiter[note]
	// taken is the last of its messages that its entity handled.
	taken int
}

// frame travels on a connection.
type frame struct {
	kind   Kind // Send, Marker, Report, AskGate; back: Lost for a refusal, Wake for a grant, Stopped
	item   Item[note]
	token  protocol.Token
	number uint64
	report flow.Report
	grant  flow.Grant
	id     string
	lowest flow.Class
}

// allocation is a home that the shard has had.
type allocation struct {
	home  gossip.NodeID
	token protocol.Token
}

// world is a route and its surroundings, moved by a schedule of bytes.
type world struct {
	t     testing.TB
	r     Route[note]
	sends []*sender

	owner gossip.NodeID
	token protocol.Token
	seq   uint64
	// remote are the allocations to nodes 2 and 3 so far.
	remote []allocation
	// accounts are the homes' records of this node, by token.
	accounts  map[protocol.Token]*flow.Account
	budget    flow.Budget
	published bool
	// there and back are the connections; those that are down lose frames, full ones take none.
	there, back map[gossip.NodeID][]frame
	down, full  map[gossip.NodeID]bool
	// awaits is the connection whose room the route waits for, 0 if none.
	awaits gossip.NodeID
	moving protocol.Token
	acked  bool
	// lost, dropped and withdrawn count messages by outcome.
	taken, lost, dropped, withdrawn int
	trace                           []string
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, accounts: map[protocol.Token]*flow.Account{},
		there: map[gossip.NodeID][]frame{}, back: map[gossip.NodeID][]frame{},
		down: map[gossip.NodeID]bool{}, full: map[gossip.NodeID]bool{},
	}
	w.budget.Most = 64 << 20
	for i, class := range []flow.Class{flow.Ordinary, flow.Ordinary, flow.Handler, flow.Control} {
		for _, id := range []string{"a", "b"}[:1+i%2] {
			w.sends = append(w.sends, &sender{id: id, class: class})
		}
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	trace := w.trace[max(0, len(w.trace)-60):]
	w.t.Fatalf("%s\n%v", fmt.Sprintf(format, args...), trace)
}

// take lets the shard handle a message.
func (w *world) take(m note) {
	s := w.sends[m.sender]
	if m.n <= s.taken {
		w.fatal("sender %d: %d was handled after %d", m.sender, m.n, s.taken)
	}
	w.note("%d of %d handled", m.n, m.sender)
	s.taken = m.n
	w.taken++
}

func (w *world) hosts(n gossip.NodeID, token protocol.Token) bool {
	return w.owner == n && w.token == token
}

// carryOut performs what is due, and checks the invariants.
func (w *world) carryOut() {
	for a, ok := w.r.Next(); ok; a, ok = w.r.Next() {
		how := w.perform(&a)
		if a.Source == Buffered && how == TooLarge {
			w.dropped++
		}
		w.r.Done(&a, how)
	}
	if err := w.r.Check(); err != nil {
		w.fatal("%v", err)
	}
}

func (w *world) perform(a *Action[note]) Outcome {
	switch a.Kind {
	case Send:
		return w.transmit(a.To, frame{kind: Send, item: *a.Item, token: a.Token, number: a.Number})
	case Deliver:
		if !w.hosts(self, a.Token) {
			return Down
		}
		w.accept(self, a.Token, a.Number, a.Item.Bytes)
		w.take(a.Item.Msg)
	case Publish:
		if !w.hosts(self, a.Token) {
			return Down
		}
		w.published = true
	case Hide:
		w.published = false
	case Marker:
		w.mark(a)
	case Report:
		w.report(a)
	case AskGate:
		w.transmit(a.To, frame{kind: AskGate, token: a.Token, id: a.ID})
	case AwaitRoom:
		w.awaits = a.To
	case Wake:
		w.wake(a)
	case Lost:
		w.note("%d of %d given up", a.Item.Msg.n, a.Item.Msg.sender)
		w.dropped++
	}
	return Sent
}

func (w *world) transmit(to gossip.NodeID, f frame) Outcome {
	switch {
	case f.kind == Send && f.item.Bytes == tooLarge:
		return TooLarge
	case w.full[to]:
		return Full
	case w.down[to]:
		w.lose(f)
	default:
		w.there[to] = append(w.there[to], f)
	}
	return Sent
}

// tooLarge is the length of a message that no connection carries.
const tooLarge = 1 << 20

// lose counts a message that a broken connection took with it.
func (w *world) lose(f frame) {
	if f.kind == Send || f.kind == Lost {
		w.lost++
	}
}

func (w *world) mark(a *Action[note]) {
	if a.To == self {
		w.acked = w.acked || a.Token == w.moving
		return
	}
	w.transmit(a.To, frame{kind: Marker, token: a.Token})
}

func (w *world) report(a *Action[note]) {
	if a.To != self {
		w.transmit(a.To, frame{kind: Report, token: a.Token, report: w.r.Report()})
	} else if w.hosts(self, a.Token) {
		w.reconcile(a.Token, w.r.Report())
	}
}

// wake ends the wait of a sender; one that must retry does so when the schedule says so.
func (w *world) wake(a *Action[note]) {
	s := w.sends[a.Item.Msg.sender]
	switch a.Result {
	case Sent:
		s.waits = nil
	case TooLarge, Gone:
		s.waits = nil
		w.dropped++
	case Retry: // it offers its message again when the schedule lets it
	default:
		w.fatal("a caller is woken with %d", a.Result)
	}
}

// These are the homes.

func (w *world) account(token protocol.Token, next uint64) *flow.Account {
	a := w.accounts[token]
	if a == nil {
		made := flow.NewAccount(next)
		a = &made
		w.accounts[token] = a
	}
	return a
}

func (w *world) accept(n gossip.NodeID, token protocol.Token, number uint64, bytes int) {
	var run flow.Run
	run.Add(number, bytes)
	a := w.account(token, number)
	a.Accept(&run)
	w.grant(n, token)
}

func (w *world) reconcile(token protocol.Token, r flow.Report) {
	a := w.account(token, r.Sent+1)
	a.Reconcile(r, &w.budget)
	w.grant(w.owner, token)
}

func (w *world) grant(n gossip.NodeID, token protocol.Token) {
	if a := w.accounts[token]; a.Due() {
		w.back[n] = append(w.back[n], frame{kind: Wake, token: token, grant: a.Grant()})
	}
}

// arrive hands the next frame to a home.
func (w *world) arrive(n gossip.NodeID) {
	if len(w.there[n]) == 0 {
		return
	}
	f := w.there[n][0]
	w.there[n] = w.there[n][1:]
	switch hosted := w.hosts(n, f.token); {
	case f.kind == Marker:
		w.back[n] = append(w.back[n], f)
	case f.kind == Send && hosted:
		w.accept(n, f.token, f.number, f.item.Bytes)
		w.take(f.item.Msg)
	case f.kind == Send:
		w.note("%d refuses %d of %d", n, f.item.Msg.n, f.item.Msg.sender)
		f.kind = Lost
		w.back[n] = append(w.back[n], f)
	case f.kind == Report && hosted:
		w.reconcile(f.token, f.report)
	case f.kind == Report:
		g := flow.Grant{Limit: f.report.Sent + 1, LimitBytes: f.report.SentBytes + 1, Asked: f.report.Asked}
		w.back[n] = append(w.back[n], frame{kind: Wake, token: f.token, grant: g})
	case f.kind == AskGate:
		w.back[n] = append(w.back[n], frame{kind: Stopped, token: f.token, id: f.id, lowest: flow.Open})
	}
}

// answer hands the next frame of a home to the route.
func (w *world) answer(n gossip.NodeID) {
	if len(w.back[n]) == 0 {
		return
	}
	f := w.back[n][0]
	w.back[n] = w.back[n][1:]
	switch f.kind {
	case Marker:
		if f.token.Term == 0 {
			w.r.MarkerAcked(n, f.token.Seq)
		}
		w.acked = w.acked || f.token == w.moving
	case Wake:
		w.r.Grant(n, f.token, f.grant)
	case Stopped:
		w.r.Stop(n, f.token, f.id, f.lowest)
	case Lost:
		if !w.r.Expects(n, f.token, f.number) {
			w.dropped++
			break
		}
		f.item.Placeholder = false
		w.r.Refused(n, f.number, f.item)
	}
	w.carryOut()
}
