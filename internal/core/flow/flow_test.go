package flow

import (
	"math/rand/v2"
	"testing"
)

// pair is a sender and a home over a connection that may break: then all that is under
// way in either direction is lost.
type pair struct {
	t      *testing.T
	w      Window
	a      *Account
	run    Run
	budget *Budget
	// requests, reports and answers share a connection, grants and questions come back.
	there []any
	back  []any
	// parked are the bytes of the requests that wait for a mailbox.
	parked []int
	// handled counts requests that entered a mailbox.
	handled, lost int
	// shrunk counts the answers that the home accepted, crossed those that it refused.
	shrunk, crossed int
}

// shrinkAsked is a question of the home, shrunkSaid its answer.
type shrinkAsked uint64

type shrunkSaid Report

type sentRequest struct {
	number uint64
	bytes  int
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, budget: &Budget{Most: 64 << 20}}
	p.w.Open()
	return p
}

// send sends a request if it may leave, and reports to the home if not.
func (p *pair) send(bytes int) bool {
	if !p.w.MayLeave(Ordinary) {
		p.there = append(p.there, p.w.Report())
		return false
	}
	p.w.Left(bytes)
	p.there = append(p.there, sentRequest{p.w.Sent(), bytes})
	return true
}

// receive lets the home take a frame; full says that the mailbox is.
func (p *pair) receive(full bool) {
	if len(p.there) == 0 {
		return
	}
	frame := p.there[0]
	p.there = p.there[1:]
	switch f := frame.(type) {
	case sentRequest:
		if p.a == nil {
			a := NewAccount(f.number)
			p.a = &a
		}
		if p.run.Add(f.number, f.bytes) {
			p.a.Accept(&p.run)
		}
		if !full && len(p.parked) == 0 {
			p.handled++
		} else if p.park(f) {
			p.parked = append(p.parked, f.bytes)
		} else {
			p.t.Fatalf("a sender that kept to its limit had no place: %+v", *p.a)
		}
	case Report:
		if p.a == nil {
			a := NewAccount(f.Sent + 1)
			p.a = &a
		}
		p.a.Accept(&p.run)
		p.a.Reconcile(f, p.budget)
	case shrunkSaid:
		p.a.Accept(&p.run)
		if p.a.Shrunk(Report(f), p.budget) {
			p.shrunk++
		} else {
			p.crossed++
		}
	}
	p.grant()
}

// park charges a request to the window: there is no pool.
func (p *pair) park(r sentRequest) bool {
	_, may := p.a.Park("x", Ordinary, r.number, r.bytes, nil)
	return may
}

// unpark lets a parked request enter its mailbox.
func (p *pair) unpark() {
	if len(p.parked) > 0 {
		p.a.Unpark("x", Ordinary, p.parked[0], false, nil)
		p.parked = p.parked[1:]
		p.handled++
		p.grant()
	}
}

// grant sends grants as late as a home may.
func (p *pair) grant() {
	if p.a.Due() && p.a.Urgent() {
		p.back = append(p.back, p.a.Grant())
	}
}

func (p *pair) raise() {
	if len(p.back) > 0 {
		frame := p.back[0]
		p.back = p.back[1:]
		switch f := frame.(type) {
		case Grant:
			p.w.Raise(f)
		case shrinkAsked:
			if report, ok := p.w.Shrink(uint64(f)); ok {
				p.there = append(p.there, shrunkSaid(report))
			}
		}
	}
}

// disconnect loses what is under way.
func (p *pair) disconnect() {
	for _, f := range p.there {
		if _, is := f.(sentRequest); is {
			p.lost++
		}
	}
	p.there, p.back = nil, nil
}

func (p *pair) check() {
	if p.a == nil {
		return
	}
	under, underBytes := uint64(0), uint64(0)
	for _, f := range p.there {
		if r, is := f.(sentRequest); is {
			under++
			underBytes += cost(r.bytes)
		}
	}
	parked, parkedBytes := p.a.Parked()
	messages, bytes := p.a.window()
	limit, limitBytes := p.w.limits()
	if room := max(limit, p.w.sent) - p.w.sent; under+room+parked > messages {
		p.t.Fatalf("%d under way, %d to come, %d parked: more than %d", under, room, parked, messages)
	}
	if room := max(limitBytes, p.w.sentBytes) - p.w.sentBytes; underBytes+room+parkedBytes > bytes+cost(maxTestBytes) {
		p.t.Fatalf("%d bytes under way, %d to come, %d parked: more than %d", underBytes, room, parkedBytes, bytes)
	}
	if parkedBytes > bytes+cost(maxTestBytes) {
		p.t.Fatalf("%d bytes parked, window is %d", parkedBytes, bytes)
	}
	if p.budget.Used > p.budget.Most {
		p.t.Fatalf("budget overdrawn: %+v", p.budget)
	}
}

const maxTestBytes = 100_000

// step does what a byte says.
func (p *pair) step(what byte, rnd func(int) int) {
	switch what % 16 {
	case 0, 1, 2, 3, 4:
		p.send(rnd(200))
	case 5:
		p.send(rnd(maxTestBytes))
	case 6, 7, 8:
		p.receive(false)
	case 9, 10:
		p.receive(true)
	case 11, 12:
		p.unpark()
	case 13:
		p.raise()
	case 14:
		if len(p.back) > 0 { // a repeated grant
			p.back = append(p.back, p.back[rnd(len(p.back))])
		}
	case 15:
		if rnd(8) == 0 {
			p.disconnect()
		}
	}
}

// settle lets everything arrive, and the mailbox be worked off, and then the sender must
// not be blocked.
func (p *pair) settle() {
	for range 3 {
		for !p.w.MayLeave(Ordinary) || len(p.there)+len(p.back)+len(p.parked) > 0 {
			if len(p.there)+len(p.back)+len(p.parked) == 0 {
				before := p.w.Report()
				p.send(1)
				p.receive(false)
				p.raise()
				if p.w.Report() == before {
					p.t.Fatalf("blocked for ever: %+v, %+v", p.w, *p.a)
				}
				continue
			}
			p.receive(false)
			p.unpark()
			p.raise()
		}
		p.send(1)
	}
	for len(p.there) > 0 {
		p.receive(false)
	}
	for len(p.parked) > 0 {
		p.unpark()
	}
	if uint64(p.handled+p.lost) != p.w.Sent() {
		p.t.Fatalf("%d handled and %d lost of %d", p.handled, p.lost, p.w.Sent())
	}
}

// Despite loss, repetition and delay, the requests parked at the home stay within its window,
// and a sender whose requests enter mailboxes is not blocked for ever.
func TestNothingStaysBlocked(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPair(t)
		bias := r.IntN(16)
		for range 3000 {
			what := byte(r.IntN(16))
			if r.IntN(4) == 0 {
				what = byte(bias)
			}
			p.step(what, r.IntN)
			p.check()
		}
		p.settle()
	}
}

// FuzzNothingStaysBlocked is the same for schedules that a fuzzer thinks of.
func FuzzNothingStaysBlocked(f *testing.F) {
	f.Add([]byte{0, 0, 6, 6, 13})
	f.Add([]byte{0, 9, 9, 15, 0, 11, 13, 14})
	f.Fuzz(func(t *testing.T, schedule []byte) {
		p := newPair(t)
		r := rand.New(rand.NewPCG(uint64(len(schedule)), 2))
		for _, what := range schedule {
			p.step(what, r.IntN)
			p.check()
		}
		p.settle()
	})
}

// The tail of a window that is lost with its connection stops nobody: relative credits
// would be gone with it.
func TestATailThatIsLostStopsNobody(t *testing.T) {
	p := newPair(t)
	for p.send(1) {
	}
	p.disconnect()
	if p.w.MayLeave(Ordinary) {
		t.Fatal("the window is not used up")
	}
	p.send(1)
	p.receive(false)
	p.raise()
	if !p.w.MayLeave(Ordinary) || p.handled != 0 {
		t.Errorf("after the report: %+v", p.w)
	}
}

// Credit comes back when a request enters its mailbox, not when it arrives.
func TestParkedRequestsHoldTheSenderUp(t *testing.T) {
	p := newPair(t)
	sent := 0
	for range 10 {
		for p.send(1) {
			sent++
		}
		for len(p.there) > 0 {
			p.receive(true)
		}
		p.raise()
	}
	if sent != FirstMessages || len(p.back) > 0 {
		t.Errorf("%d were sent to a mailbox that is full, %d grants", sent, len(p.back))
	}
	for range FirstMessages / 4 {
		p.unpark()
	}
	if p.raise(); !p.w.MayLeave(Ordinary) {
		t.Error("a quarter has entered, and the sender was not told")
	}
}

// The window of a sender that waits for the network alone grows up to its bound, and that
// of one whose requests wait for a mailbox does not.
func TestTheWindowGrowsForTheNetworkAlone(t *testing.T) {
	p := newPair(t)
	for range 40 {
		for p.send(1) {
		}
		for len(p.there) > 0 {
			p.receive(false)
		}
		for len(p.back) > 0 {
			p.raise()
		}
	}
	if p.a.messages != MostMessages || p.a.bytes != MostBytes || p.budget.Used != MostBytes-FirstBytes {
		t.Errorf("%+v, budget %+v", *p.a, p.budget)
	}
	p.a.Close(p.budget)
	if p.budget.Used != 0 {
		t.Errorf("%d bytes of the budget are lost", p.budget.Used)
	}
	q := newPair(t)
	for range 40 {
		for q.send(1) {
		}
		for len(q.there) > 0 {
			q.receive(true)
		}
		q.unpark()
		q.raise()
	}
	if q.a.messages != FirstMessages {
		t.Errorf("the window of a sender to a full mailbox grew to %d", q.a.messages)
	}
}

// A window half of which comes at a time is small: it grows before its sender is blocked.
func TestABurstMakesTheWindowGrow(t *testing.T) {
	a, budget := NewAccount(1), Budget{Most: 1 << 20}
	number := uint64(0)
	burst := func(n int) bool {
		var run Run
		for range n {
			number++
			run.Add(number, 10)
		}
		return a.Accept(&run)
	}
	if burst(FirstMessages/2 - 1) {
		t.Error("less than half a window makes it small")
	}
	if !burst(FirstMessages / 2) {
		t.Fatal("half a window at a time does not make it small")
	}
	a.Grow(&budget)
	if g := a.Grant(); g.Limit != number+2*FirstMessages {
		t.Errorf("granted up to %d, %d came", g.Limit, number)
	}
	a.Park("x", Ordinary, number, 1, nil)
	if burst(FirstMessages) {
		t.Error("the window of a sender to a full mailbox is small")
	}
}

// A budget that is spent leaves every sender its first window.
func TestASpentBudgetLeavesFirstWindows(t *testing.T) {
	p := newPair(t)
	p.budget.Most = 0
	for range 10 {
		for p.send(1000) {
		}
		for len(p.there) > 0 {
			p.receive(false)
		}
		for len(p.back) > 0 {
			p.raise()
		}
	}
	if p.a.bytes != FirstBytes || p.budget.Used != 0 || p.handled < 500 {
		t.Errorf("%+v, budget %+v, %d handled", *p.a, p.budget, p.handled)
	}
}

// A block of requests may be accounted for after its account was closed. The budget must not
// lose bytes that no later Close would return.
func TestAClosedAccountTakesNothingOfTheBudget(t *testing.T) {
	a, budget := NewAccount(1), Budget{Most: 1 << 20}
	a.Grow(&budget)
	a.Close(&budget)
	a.Grow(&budget)
	if budget.Used != 0 {
		t.Errorf("%d bytes of the budget are lost", budget.Used)
	}
}

// Control messages have a little room of their own above a limit that is used up, and a
// home has a place for them.
func TestControlMessagesPassALimit(t *testing.T) {
	p := newPair(t)
	for p.send(1) {
	}
	for range allSpare {
		if !p.w.MayLeave(Control) {
			t.Fatal("a control message was held up")
		}
		p.w.Left(1)
		p.there = append(p.there, sentRequest{p.w.Sent(), 1})
	}
	if p.w.MayLeave(Control) {
		t.Error("control messages have no bound")
	}
	for len(p.there) > 0 {
		p.receive(true)
	}
	if len(p.parked) != FirstMessages+int(allSpare) || p.park(sentRequest{1, 1}) {
		t.Errorf("%d parked", len(p.parked))
	}
}
