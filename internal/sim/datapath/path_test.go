package datapath

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/transport"
)

// process is an Env: a process with one shard at most, on a network without delay.
type process struct {
	t    *testing.T
	self gossip.NodeID
	net  map[gossip.NodeID]*process
	path *Path
	// token is that of the shard here, zero if it does not run here.
	token protocol.Token
	boxes Mailboxes
	// full: its connections have no room, and the functions wait for some.
	full    bool
	waiting []func(route.Outcome)
	later   []func()
	counts  map[Event]int
	lost    []uint64
}

func tokenOf(n uint64) protocol.Token { return protocol.Token{Term: 1, Seq: n} }

// newProcesses returns processes 1 to n, whose mailboxes hold most messages.
func newProcesses(t *testing.T, n, most int) []*process {
	net, all := map[gossip.NodeID]*process{}, make([]*process, n)
	for i := range all {
		p := &process{t: t, self: gossip.NodeID(i + 1), net: net, boxes: Mailboxes{Most: most}, counts: map[Event]int{}}
		p.path = New(Config{Self: p.self, Shards: 1, Buffer: 4, Windows: 1 << 20, Parked: 1 << 20}, p)
		net[p.self], all[i] = p, p
	}
	return all
}

func (p *process) Send(to gossip.NodeID, f *Frame) error {
	if p.full {
		return transport.ErrQueueFull
	}
	peer := p.net[to]
	p.Later(func() { peer.path.Handle(p.self, f) })
	return nil
}

func (p *process) Answer(to gossip.NodeID, f *Frame) { _ = p.Send(to, f) }

func (p *process) AwaitRoom(_ gossip.NodeID, then func(route.Outcome)) {
	p.waiting = append(p.waiting, then)
}

func (p *process) Later(do func())                                             { p.later = append(p.later, do) }
func (p *process) NeedHome(protocol.ShardID)                                   {}
func (p *process) Misrouted(protocol.ShardID, protocol.Token)                  {}
func (p *process) Hosted(protocol.ShardID) protocol.Token                      { return p.token }
func (p *process) Lost(m *Message, _ protocol.Token)                           { p.lost = append(p.lost, m.Seq) }
func (p *process) Count(e Event)                                               { p.counts[e]++ }
func (p *process) CopyRefused(*Message)                                        {}
func (p *process) Freed(protocol.ShardID, string)                              {}
func (p *process) Fail(err error)                                              { p.t.Error(err) }
func (p *process) Move(*Message, gossip.NodeID) (time.Duration, bool)          { return 0, true }
func (p *process) MarkerAcked(gossip.NodeID, protocol.ShardID, protocol.Token) {}

func (p *process) Deliver(m *Message, _ time.Duration, at *Place) {
	if !p.boxes.Put(Ready{Message: m}, at, p.Count) {
		p.t.Errorf("message %d is rejected", m.Seq)
	}
}

// run lets all frames arrive.
func run(all []*process) {
	for more := true; more; {
		more = false
		for _, p := range all {
			for len(p.later) > 0 {
				do := p.later[0]
				p.later, more = p.later[1:], true
				do()
			}
		}
	}
}

// handle empties the mailboxes and returns the numbers of the messages.
func (p *process) handle(all []*process) (seqs []uint64) {
	for r, ok := p.boxes.Take(); ok; r, ok = p.boxes.Take() {
		seqs = append(seqs, r.Seq)
		run(all)
	}
	return seqs
}

// post has a caller of its own send each message.
func (p *process) post(from, to uint64) {
	for n := from; n <= to; n++ {
		p.path.Post(&Message{Sender: p.self, Caller: int(n), Seq: n, Bytes: 100})
	}
}

func numbers(from, to uint64) (all []uint64) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// A home with a small mailbox holds the callers of another process up, and grants more as it
// works the messages off. All of them are handled, in order.
func TestASmallMailboxHoldsCallersUp(t *testing.T) {
	all := newProcesses(t, 2, 4)
	sender, home := all[0], all[1]
	home.token = tokenOf(1)
	sender.path.Open(0, home.self, home.token)
	for n := uint64(1); n <= 300; n += 10 {
		sender.post(n, n+9)
		run(all)
	}
	if sender.counts[HeldUp] == 0 || sender.counts[GateClosed] == 0 || home.counts[MessageParked] == 0 {
		t.Errorf("events at the sender %v, at the home %v", sender.counts, home.counts)
	}
	if got := home.handle(all); !slices.Equal(got, numbers(1, 300)) {
		t.Errorf("handled %d", got)
	}
	if len(sender.path.callers.calls) > 0 {
		t.Errorf("%d callers wait for ever", len(sender.path.callers.calls))
	}
}

// The shard has moved when messages arrive: they are refused, and sent to the next home before
// newer ones.
func TestRefusedMessagesAreSentAgainInOrder(t *testing.T) {
	all := newProcesses(t, 3, 100)
	sender, home := all[0], all[2]
	sender.path.Open(0, 2, tokenOf(1))
	sender.post(1, 3)
	run(all)
	sender.post(4, 4)
	home.token = tokenOf(2)
	sender.path.Open(0, home.self, home.token)
	sender.post(5, 5)
	run(all)
	if got := home.handle(all); !slices.Equal(got, numbers(1, 5)) || len(sender.lost) > 0 {
		t.Errorf("handled %d, lost %d", got, sender.lost)
	}
	if all[1].counts[MessageRefused] != 3 || sender.counts[SentAgain] != 3 {
		t.Errorf("events at the sender %v, at the former home %v", sender.counts, all[1].counts)
	}
}

// Callers wait for room on the connection and in the buffer, one of them gives up.
func TestCallersWaitForRoom(t *testing.T) {
	all := newProcesses(t, 2, 100)
	sender, home := all[0], all[1]
	sender.post(1, 6)
	if !sender.path.Busy(0, 6) || sender.path.Busy(0, 4) || sender.counts[NoRoom] != 2 {
		t.Errorf("events %v with a buffer of 4", sender.counts)
	}
	if sender.path.Withdraw(&Message{Caller: 7}) || !sender.path.Withdraw(sender.path.callers.calls[callerKey{0, 5}].m) {
		t.Error("only a caller that waits can give up")
	}
	home.token, sender.full = tokenOf(1), true
	sender.path.Open(0, home.self, home.token)
	run(all)
	sender.full = false
	for _, then := range sender.waiting {
		then(route.Sent)
	}
	run(all)
	if got := home.handle(all); !slices.Equal(got, []uint64{1, 2, 3, 4, 6}) {
		t.Errorf("handled %d", got)
	}
}

// Callers find a shard that runs here without the route. When it stops, those that wait at the
// mailbox offer their messages to the route again.
func TestCallersHereLookForTheNextHome(t *testing.T) {
	all := newProcesses(t, 2, 2)
	sender, next := all[0], all[1]
	sender.token = tokenOf(1)
	sender.path.Open(0, sender.self, sender.token)
	sender.post(1, 4)
	if sender.boxes.Len() != 2 || !sender.path.Busy(0, 4) {
		t.Fatalf("%d messages in a mailbox of 2", sender.boxes.Len())
	}
	sender.token = protocol.Token{}
	sender.boxes.Release()
	sender.path.Close(0, sender.self, tokenOf(2))
	run(all)
	next.token = tokenOf(2)
	sender.path.Open(0, next.self, next.token)
	run(all)
	if here, there := sender.handle(all), next.handle(all); !slices.Equal(here, numbers(1, 2)) || !slices.Equal(there, numbers(3, 4)) {
		t.Errorf("handled %d, then %d at the next home", here, there)
	}
}

// An idle window returns its growth to the home's budget.
func TestIdleWindowsAreShrunk(t *testing.T) {
	all := newProcesses(t, 2, 10_000)
	sender, home := all[0], all[1]
	home.token = tokenOf(1)
	sender.path.Open(0, home.self, home.token)
	for n := uint64(1); n <= 1000; n += 200 {
		sender.post(n, n+199)
		run(all)
	}
	if home.path.accounts.windows.Used == 0 {
		t.Fatal("the window has not grown")
	}
	for range 3 {
		home.path.Tidy()
		run(all)
	}
	if used := home.path.accounts.windows.Used; used > 0 || home.counts[WindowShrunk] != 1 {
		t.Errorf("%d bytes are in use, %d windows shrunk", used, home.counts[WindowShrunk])
	}
}
