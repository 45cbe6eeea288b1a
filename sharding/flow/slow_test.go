package flow

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// town is a home of several entities and a sender with callers for each of them, over a
// connection that may break.
type town struct {
	t    *testing.T
	w    Window
	a    *Account
	pool Budget
	// windows is the budget of windows.
	windows Budget
	// there are requests, reports and questions; back grants and stops.
	there, back []any
	// gates have the callers that wait, by entity; nil where the gate is open. next is
	// what comes behind an open gate: the route's queue.
	gates map[string][]int
	next  []call
	// parked are the requests that wait, by entity; full ones take nothing.
	parked map[string][]parkedCall
	full   map[string]bool
	// handled are the callers served, by entity, and lost those whose requests were.
	handled map[string][]int
	lost    int
	callers int
	breaks  int
}

type call struct {
	id string
	n  int
}

type townRequest struct {
	call
	number uint64
}

type parkedCall struct {
	n      int
	charge Charge
}

type stopSaid struct {
	id   string
	open bool
}

type stopAsked string

func newTown(t *testing.T) *town {
	c := &town{
		t: t, pool: Budget{Most: 1 << 20}, windows: Budget{Most: 64 << 20},
		gates: map[string][]int{}, parked: map[string][]parkedCall{}, full: map[string]bool{}, handled: map[string][]int{},
	}
	c.w.Open()
	return c
}

// call lets a caller send to id, or wait.
func (c *town) call(id string) {
	c.callers++
	if gate, closed := c.gates[id]; closed {
		c.gates[id] = append(gate, c.callers)
		return
	}
	c.next = append(c.next, call{id, c.callers})
	c.serve()
}

// serve sends what waits as far as the window goes.
func (c *town) serve() {
	for len(c.next) > 0 {
		if !c.w.MayLeave(false) {
			c.there = append(c.there, c.w.Report())
			return
		}
		c.w.Left(1)
		c.there = append(c.there, townRequest{c.next[0], c.w.Sent()})
		c.next = c.next[1:]
	}
}

func (c *town) account(next uint64) *Account {
	if c.a == nil {
		a := NewAccount(next)
		c.a = &a
	}
	return c.a
}

func (c *town) receive() {
	if len(c.there) == 0 {
		return
	}
	frame := c.there[0]
	c.there = c.there[1:]
	switch f := frame.(type) {
	case townRequest:
		a, run := c.account(f.number), Run{}
		run.Add(f.number, 1)
		a.Accept(&run)
		if !c.full[f.id] && len(c.parked[f.id]) == 0 {
			c.handled[f.id] = append(c.handled[f.id], f.n)
			break
		}
		charge, may := a.Park(f.id, f.number, 1, &c.pool)
		if !may {
			c.t.Fatalf("a sender that kept to its limits had no place: %+v", *a)
		}
		c.parked[f.id] = append(c.parked[f.id], parkedCall{f.n, charge})
	case Report:
		c.account(f.Sent+1).Reconcile(f, &c.windows)
	case shrunkSaid:
		c.account(f.Sent+1).Shrunk(Report(f), &c.windows)
	case stopAsked:
		if c.a == nil || !c.a.Slow(string(f)) {
			c.back = append(c.back, stopSaid{string(f), true})
		}
	}
	c.grant()
}

// unpark lets the oldest parked request of id enter its mailbox.
func (c *town) unpark(id string) {
	if q := c.parked[id]; len(q) > 0 {
		c.a.Unpark(id, 1, q[0].charge, &c.pool)
		c.handled[id] = append(c.handled[id], q[0].n)
		c.parked[id] = q[1:]
		c.grant()
	}
}

func (c *town) grant() {
	if c.a != nil && c.a.Due() {
		c.a.Notices(func(id string, open bool) { c.back = append(c.back, stopSaid{id, open}) })
		c.back = append(c.back, c.a.Grant())
	}
}

func (c *town) answer() {
	if len(c.back) == 0 {
		return
	}
	frame := c.back[0]
	c.back = c.back[1:]
	switch f := frame.(type) {
	case Grant:
		c.w.Raise(f)
		c.serve()
	case shrinkAsked:
		if report, ok := c.w.Shrink(uint64(f)); ok {
			c.there = append(c.there, shrunkSaid(report))
		}
	case stopSaid:
		gate, closed := c.gates[f.id]
		switch {
		case f.open:
			delete(c.gates, f.id)
			for _, n := range gate {
				c.next = append(c.next, call{f.id, n})
			}
			c.serve()
		case !closed:
			c.gates[f.id] = nil
			c.next = slices.DeleteFunc(c.next, func(o call) bool {
				if o.id == f.id {
					c.gates[f.id] = append(c.gates[f.id], o.n)
				}
				return o.id == f.id
			})
		}
	}
}

// disconnect loses what is under way, and the gates.
func (c *town) disconnect() {
	for _, f := range c.there {
		if _, is := f.(townRequest); is {
			c.lost++
		}
	}
	c.there, c.back = nil, nil
	c.breaks++
	for _, id := range c.ids() {
		for _, n := range c.gates[id] {
			c.next = append(c.next, call{id, n})
		}
		delete(c.gates, id)
	}
	c.there = append(c.there, c.w.Report())
	c.serve()
}

// idle lets the home look for an idle window.
func (c *town) idle() {
	if c.a != nil {
		if number, ask := c.a.Idle(); ask {
			c.back = append(c.back, shrinkAsked(number))
		}
	}
}

// lose loses the oldest frame of the home alone: its queue to the sender was full.
func (c *town) lose() {
	if len(c.back) > 0 {
		c.back = c.back[1:]
	}
}

// look asks about gates, and reports.
func (c *town) look() {
	for _, id := range c.ids() {
		if _, closed := c.gates[id]; closed {
			c.there = append(c.there, stopAsked(id))
		}
	}
	c.there = append(c.there, c.w.Report())
}

func (c *town) ids() []string {
	var ids []string
	for i := range 4 {
		ids = append(ids, strconv.Itoa(i))
	}
	return ids
}

func (c *town) check() {
	pooled := 0
	for _, id := range c.ids() {
		here := 0
		for _, p := range c.parked[id] {
			if p.charge == Pooled {
				here++
			}
		}
		pooled += here
		if c.breaks == 0 && c.a != nil && uint64(here) > c.a.messages {
			c.t.Fatalf("%d parked for %s, the window is %d", here, id, c.a.messages)
		}
		if !slices.IsSorted(c.handled[id]) {
			c.t.Fatalf("%s was handled out of order: %v", id, c.handled[id])
		}
	}
	if c.pool.Used != uint64(pooled)*cost(1) || c.pool.Used > c.pool.Most {
		c.t.Fatalf("%d in the pool, %d bytes of it used", pooled, c.pool.Used)
	}
}

// settle lets everything arrive and every entity go on; then all callers are served.
func (c *town) settle() {
	clear(c.full)
	for round := 0; len(c.there)+len(c.back)+len(c.next)+len(c.gates) > 0 || c.pool.Used > 0; round++ {
		if round == 1000 {
			c.t.Fatalf("callers wait for ever: %+v, %+v, gates %v, next %v", c.w, *c.a, c.gates, c.next)
		}
		for len(c.there)+len(c.back) > 0 {
			c.receive()
			c.answer()
		}
		for _, id := range c.ids() {
			for len(c.parked[id]) > 0 {
				c.unpark(id)
			}
		}
		if len(c.back)+len(c.next)+len(c.gates) > 0 {
			c.look()
		}
	}
	served := 0
	for _, id := range c.ids() {
		served += len(c.handled[id])
	}
	if served+c.lost != c.callers {
		c.t.Fatalf("%d served and %d lost of %d", served, c.lost, c.callers)
	}
	c.check()
}

// Whatever is lost or late: what waits for one entity is at most a window, its order is
// kept, and every caller is served in the end.
func TestSlowEntitiesAreStoppedFor(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := newTown(t)
		if r.IntN(4) == 0 {
			c.pool.Most = cost(1) * uint64(r.IntN(100))
		}
		faults := r.IntN(3)
		for range 2000 {
			id := c.ids()[r.IntN(1+r.IntN(4))]
			switch r.IntN(12) {
			case 0, 1, 2, 3:
				c.call(id)
			case 4, 5, 6:
				c.receive()
			case 7:
				c.unpark(id)
			case 8, 9:
				c.answer()
			case 10:
				c.full[id] = !c.full[id]
			case 11:
				if r.IntN(10) == 0 {
					c.look()
				}
				if r.IntN(4) == 0 {
					c.idle()
				}
				if faults > 0 && r.IntN(20) == 0 {
					c.disconnect()
				}
				if faults > 1 && r.IntN(10) == 0 {
					c.lose()
				}
			}
			if faults > 1 {
				c.breaks = 1
			}
			c.check()
		}
		c.settle()
	}
}

// A stop leaves before the grant that gives the window back, and an open when nothing is
// parked any longer.
func TestAStopLeavesBeforeTheGrant(t *testing.T) {
	c := newTown(t)
	c.full["0"] = true
	for range FirstMessages {
		c.call("0")
	}
	for len(c.there) > 0 {
		c.receive()
	}
	if c.back[0] != (stopSaid{"0", false}) {
		t.Fatalf("the home says first: %+v", c.back[0])
	}
	for len(c.back) > 0 {
		c.answer()
	}
	if c.call("0"); len(c.there) != 0 || len(c.gates["0"]) != 1 {
		t.Errorf("a caller for the entity that is full left: %v", c.there)
	}
	if c.call("1"); len(c.there) != 1 {
		t.Errorf("a caller for another entity was held up: %+v", c.w)
	}
	for range FirstMessages - 1 {
		c.unpark("0")
	}
	if slices.Contains(c.back, any(stopSaid{"0", true})) {
		t.Error("the gate opens while a request is parked")
	}
	c.unpark("0")
	if !slices.Contains(c.back, any(stopSaid{"0", true})) || c.pool.Used != 0 {
		t.Errorf("the home says %v, %d bytes in the pool", c.back, c.pool.Used)
	}
}

// Without a place in the pool the sender is stalled for the shard, as far as its window
// goes.
func TestAUsedUpPoolStallsOneSender(t *testing.T) {
	c := newTown(t)
	c.pool.Most, c.full["0"] = 0, true
	for range 10 * FirstMessages {
		c.call("0")
		c.receive()
		c.answer()
	}
	for len(c.there)+len(c.back) > 0 {
		c.receive()
		c.answer()
	}
	if len(c.parked["0"]) != FirstMessages || len(c.gates) != 0 {
		t.Errorf("%d parked, gates %v", len(c.parked["0"]), c.gates)
	}
	c.settle()
}
