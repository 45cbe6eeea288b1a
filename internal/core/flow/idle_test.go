package flow

import (
	"math/rand/v2"
	"testing"
)

// idle lets the home look for an idle window.
func (p *pair) idle() {
	if p.a != nil {
		if number, ask := p.a.Idle(); ask {
			p.back = append(p.back, shrinkAsked(number))
		}
	}
}

// exchange delivers all frames in flight.
func (p *pair) exchange() {
	for len(p.there)+len(p.back) > 0 {
		p.receive(false)
		p.raise()
	}
}

// burst sends until the window has stopped growing.
func (p *pair) burst() {
	for range 12 {
		for p.send(1000) {
		}
		p.exchange()
	}
}

// Once windows that have grown are idle, another one can grow as far as the first did.
func TestALaterWindowGrowsOnceOthersAreIdle(t *testing.T) {
	budget := &Budget{Most: 64 * (MostBytes - FirstBytes)}
	pairs := make([]*pair, 65)
	for i := range pairs {
		pairs[i] = newPair(t)
		pairs[i].budget = budget
	}
	last := pairs[64]
	for _, p := range pairs[:64] {
		p.burst()
	}
	if budget.Used != budget.Most {
		t.Fatalf("the bursts took %d of %d bytes", budget.Used, budget.Most)
	}
	for range 3 {
		for _, p := range pairs {
			p.idle()
			p.exchange()
		}
	}
	if budget.Used != 0 {
		t.Errorf("idle windows keep %d bytes", budget.Used)
	}
	if last.burst(); last.a.bytes != MostBytes || last.a.messages != MostMessages {
		t.Errorf("a later window has grown to %d messages, %d bytes", last.a.messages, last.a.bytes)
	}
	for _, p := range pairs {
		p.check()
		p.settle()
	}
}

// Grants from before and after the question cross the answer: the home keeps the window that
// the sender may still use.
func TestAGrantThatCrossesTheQuestionKeepsTheWindow(t *testing.T) {
	grown := func() *pair {
		p := newPair(t)
		p.burst()
		p.idle()
		p.idle()
		if len(p.back) != 1 {
			t.Fatalf("the home sends %v", p.back)
		}
		return p
	}
	p := grown()
	for range 50 * FirstMessages { // they left before the question comes
		p.send(1000)
	}
	for len(p.there) > 0 {
		p.receive(false)
	}
	if len(p.back) < 2 {
		t.Fatal("no grant follows the question")
	}
	p.exchange()
	if p.check(); p.a.bytes == FirstBytes || p.w.Report().Limit != p.a.granted {
		t.Errorf("the sender may go to %d, the home has granted %d, the window is %d bytes", p.w.Report().Limit, p.a.granted, p.a.bytes)
	}
	p = grown()
	late := p.a.limits()
	late.Asked--
	p.raise() // lowers the limit
	if p.w.Raise(late) || p.w.Report().Limit != p.w.sent+FirstMessages {
		t.Errorf("a grant from before the question counts: %+v", p.w)
	}
	p.exchange()
	if p.check(); p.a.bytes != FirstBytes || p.budget.Used != 0 {
		t.Errorf("after the answer: %+v, budget %+v", *p.a, *p.budget)
	}
}

// TestAVoidAnswerDelaysByOneLook: a grant made an answer void, and the home accounted for requests from before
// the answer with it. They had arrived long ago, so the next look asks again.
func TestAVoidAnswerDelaysByOneLook(t *testing.T) {
	budget := &Budget{Most: MostBytes}
	a := NewAccount(1)
	a.Grow(budget)
	a.Idle()
	number, ask := a.Idle()
	if !ask {
		t.Fatal("the home does not ask for an idle window")
	}
	a.Grant()
	run := Run{}
	for n := range uint64(5) {
		run.Add(n+1, 100)
	}
	a.Accept(&run)
	if a.Shrunk(Report{Sent: 5, Asked: number}, budget) {
		t.Fatal("an answer that crossed a grant resets the window")
	}
	if next, again := a.Idle(); !again || next != number+1 {
		t.Errorf("the next look asks %v, with number %d", again, next)
	}
	run.Add(6, 100)
	a.Accept(&run)
	if _, again := a.Idle(); again {
		t.Error("a window is idle in which a request has arrived since the answer")
	}
}

// Questions, answers, grants and requests are lost, late or repeated. Still, the requests
// that may be in flight fit the windows, the windows fit the budget, no sender stays blocked,
// and all idle windows return their growth.
func TestWindowsThatShrinkStayWithinTheBudget(t *testing.T) {
	shrunk, crossed := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		budget := &Budget{Most: uint64(r.IntN(12)) * FirstBytes}
		pairs := make([]*pair, 4)
		bias := make([]byte, len(pairs))
		for i := range pairs {
			pairs[i] = newPair(t)
			pairs[i].budget, bias[i] = budget, byte(r.IntN(16))
		}
		for range 6000 {
			i := r.IntN(len(pairs))
			p := pairs[i]
			switch r.IntN(12) {
			case 0:
				p.idle()
			case 1:
				p.raise()
			case 2, 3:
				p.receive(false)
			case 4:
				if len(p.back) > 0 && r.IntN(4) == 0 { // the queue to the sender was full
					p.back = p.back[1:]
				}
			case 5, 6:
				p.step(bias[i], r.IntN)
				if r.IntN(50) == 0 {
					bias[i] = byte(r.IntN(16))
				}
			default:
				p.step(byte(r.IntN(16)), r.IntN)
			}
			held := uint64(0)
			for _, p := range pairs {
				if p.check(); p.a != nil {
					held += uint64(p.a.bytes) - FirstBytes
				}
			}
			if held != budget.Used || held > budget.Most {
				t.Fatalf("seed %d: windows hold %d bytes, the budget is %+v", seed, held, *budget)
			}
		}
		for _, p := range pairs {
			shrunk, crossed = shrunk+p.shrunk, crossed+p.crossed
			p.settle()
			p.exchange()
		}
		for range 3 {
			for _, p := range pairs {
				p.idle()
				p.exchange()
			}
		}
		if budget.Used != 0 {
			t.Fatalf("seed %d: idle windows keep %d bytes", seed, budget.Used)
		}
		for _, p := range pairs {
			p.settle()
		}
	}
	t.Logf("the homes accepted %d answers, and refused %d", shrunk, crossed)
	if shrunk < 500 || crossed < 500 {
		t.Error("the schedules are too calm")
	}
}
