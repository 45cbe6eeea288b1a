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
	run  Run
	pool Pool
	// windows is the budget of windows.
	windows Budget
	// there are requests, reports and questions; back grants and stops.
	there, back []any
	// gates are those that are not open, by entity; waiting are the callers there. next has
	// the callers that have passed their gate, by class: the route's queues.
	gates   map[string]Class
	waiting map[string][]call
	next    [Control][]call
	// parked are the requests that wait, by entity. Mailboxes of full entities accept no
	// ordinary request, those of crammed ones no handler's request either.
	parked        map[string][]parkedCall
	full, crammed map[string]bool
	// handled are the callers served, by entity and class, and lost those whose requests
	// were.
	handled map[string]*[Control][]int
	lost    int
	callers int
	breaks  int
}

type call struct {
	id    string
	class Class
	n     int
}

type townRequest struct {
	call
	number uint64
}

type parkedCall struct {
	call
	pooled bool
}

type stopSaid struct {
	id   string
	gate Class
}

type stopAsked string

func newTown(t *testing.T) *town {
	c := &town{
		t: t, pool: Pool{Share: 1 << 20}, windows: Budget{Most: 64 << 20},
		gates: map[string]Class{}, waiting: map[string][]call{}, parked: map[string][]parkedCall{},
		full: map[string]bool{}, crammed: map[string]bool{}, handled: map[string]*[Control][]int{},
	}
	for _, id := range c.ids() {
		c.handled[id] = &[Control][]int{}
	}
	c.w.Open()
	return c
}

// call lets a caller send to id, or wait.
func (c *town) call(id string) { c.callAs(id, Ordinary) }

func (c *town) callAs(id string, class Class) {
	c.callers++
	by := call{id, class, c.callers}
	if gate, closed := c.gates[id]; closed && class < gate {
		c.waiting[id] = append(c.waiting[id], by)
		return
	}
	c.next[class] = append(c.next[class], by)
	c.serve()
}

// serve sends what waits as far as the window goes.
func (c *town) serve() {
	for class := range Control {
		for len(c.next[class]) > 0 {
			if !c.w.MayLeave(class) {
				c.there = append(c.there, c.w.Report())
				break
			}
			c.w.Left(1)
			c.there = append(c.there, townRequest{c.next[class][0], c.w.Sent()})
			c.next[class] = c.next[class][1:]
		}
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
		a := c.account(f.number)
		if c.run.Add(f.number, 1) {
			a.Accept(&c.run)
		}
		if !c.mustPark(f.call) {
			c.handle(f.call)
			break
		}
		pooled, may := a.Park(f.id, f.class, f.number, 1, &c.pool)
		if !may {
			c.t.Fatalf("a sender that kept to its limits had no place: %+v", *a)
		}
		c.parked[f.id] = append(c.parked[f.id], parkedCall{f.call, pooled})
	case Report:
		c.account(f.Sent + 1).Accept(&c.run)
		c.a.Reconcile(f, &c.windows)
	case shrunkSaid:
		c.account(f.Sent + 1).Accept(&c.run)
		c.a.Shrunk(Report(f), &c.windows)
	case stopAsked:
		gate := Open
		if c.a != nil {
			gate = c.a.GateOf(string(f))
		}
		c.back = append(c.back, stopSaid{string(f), gate})
	}
	c.grant()
}

// mustPark reports whether a request finds its mailbox full, or parked requests of its class.
func (c *town) mustPark(by call) bool {
	if by.class == Ordinary && c.full[by.id] || c.crammed[by.id] {
		return true
	}
	return slices.ContainsFunc(c.parked[by.id], func(p parkedCall) bool { return p.class == by.class })
}

func (c *town) handle(by call) {
	h := &c.handled[by.id][by.class]
	*h = append(*h, by.n)
}

// unpark lets the oldest parked request of id enter its mailbox.
func (c *town) unpark(id string) {
	if q := c.parked[id]; len(q) > 0 {
		c.a.Unpark(id, q[0].class, 1, q[0].pooled, &c.pool)
		c.handle(q[0].call)
		c.parked[id] = q[1:]
		c.grant()
	}
}

// grant sends grants and stops as late as a home may.
func (c *town) grant() {
	if c.a != nil && c.a.Due() && c.a.Urgent() {
		c.a.Notices(func(id string, gate Class) { c.back = append(c.back, stopSaid{id, gate}) })
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
		c.gates[f.id] = f.gate
		for class := range c.next {
			c.next[class] = slices.DeleteFunc(c.next[class], func(o call) bool {
				stops := o.id == f.id && o.class < f.gate
				if stops {
					c.waiting[f.id] = append(c.waiting[f.id], o)
				}
				return stops
			})
		}
		c.letGo(f.id)
		c.serve()
	}
}

// letGo releases the callers at a gate that does not stop their class.
func (c *town) letGo(id string) {
	c.waiting[id] = slices.DeleteFunc(c.waiting[id], func(o call) bool {
		goes := o.class >= c.gates[id]
		if goes {
			c.next[o.class] = append(c.next[o.class], o)
		}
		return goes
	})
	if c.gates[id] == Open {
		delete(c.gates, id)
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
		c.gates[id] = Open
		c.letGo(id)
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
		here := [Control]int{}
		for _, p := range c.parked[id] {
			if p.pooled {
				here[p.class]++
			}
		}
		for class, n := range here {
			pooled += n
			if c.breaks == 0 && c.a != nil && uint64(n) > uint64(c.a.messages)+uint64(class)*Spare {
				c.t.Fatalf("%d of class %d parked for %s, the window is %d", n, class, id, c.a.messages)
			}
			if !slices.IsSorted(c.handled[id][class]) {
				c.t.Fatalf("%s was handled out of order: %v", id, c.handled[id])
			}
		}
	}
	if c.pool.Used != uint64(pooled)*cost(1) || c.pool.Used > c.pool.Share {
		c.t.Fatalf("%d in the pool, %d bytes of it used", pooled, c.pool.Used)
	}
}

// settle lets everything arrive and every entity go on; then all callers are served.
func (c *town) settle() {
	clear(c.full)
	clear(c.crammed)
	waiting := func() int { return len(c.back) + len(c.next[Ordinary]) + len(c.next[Handler]) + len(c.gates) }
	for round := 0; len(c.there)+waiting() > 0 || c.pool.Used > 0; round++ {
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
		if waiting() > 0 {
			c.look()
		}
	}
	served := 0
	for _, id := range c.ids() {
		served += len(c.handled[id][Ordinary]) + len(c.handled[id][Handler])
	}
	if served+c.lost != c.callers {
		c.t.Fatalf("%d served and %d lost of %d", served, c.lost, c.callers)
	}
	c.check()
}

// Despite loss and delay, the requests parked for one entity are at most a window for each
// class, their order is kept, and every caller is served in the end.
func TestSlowEntitiesAreStoppedFor(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := newTown(t)
		if r.IntN(4) == 0 {
			c.pool.Share = cost(1) * uint64(r.IntN(100))
		}
		faults := r.IntN(3)
		for range 2000 {
			id := c.ids()[r.IntN(1+r.IntN(4))]
			switch r.IntN(12) {
			case 0, 1, 2, 3:
				c.callAs(id, Class(r.IntN(4)/3))
			case 4, 5, 6:
				c.receive()
			case 7:
				c.unpark(id)
			case 8, 9:
				c.answer()
			case 10:
				c.full[id] = !c.full[id]
				c.crammed[id] = c.full[id] && r.IntN(3) == 0
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
	if c.back[0] != (stopSaid{"0", Handler}) {
		t.Fatalf("the home says first: %+v", c.back[0])
	}
	for len(c.back) > 0 {
		c.answer()
	}
	if c.call("0"); len(c.there) != 0 || len(c.waiting["0"]) != 1 {
		t.Errorf("a caller for the entity that is full left: %v", c.there)
	}
	if c.call("1"); len(c.there) != 1 {
		t.Errorf("a caller for another entity was held up: %+v", c.w)
	}
	for range FirstMessages - 1 {
		c.unpark("0")
	}
	if slices.Contains(c.back, any(stopSaid{"0", Open})) {
		t.Error("the gate opens while a request is parked")
	}
	c.unpark("0")
	if !slices.Contains(c.back, any(stopSaid{"0", Open})) || c.pool.Used != 0 {
		t.Errorf("the home says %v, %d bytes in the pool", c.back, c.pool.Used)
	}
}

// Without a place in the pool the sender is stalled for the shard, as far as its window
// goes.
func TestAUsedUpPoolStallsOneSender(t *testing.T) {
	c := newTown(t)
	c.pool.Share, c.full["0"] = 0, true
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

// Only so many entities of a sender are slow at a time. The request for one more is charged to
// the window, and the pool keeps none of its bytes.
func TestOneSlowEntityTooManyIsChargedToTheWindow(t *testing.T) {
	a, pool := NewAccount(1), Pool{Share: 1 << 30}
	park := func(id string) bool {
		pooled, may := a.Park(id, Ordinary, 1, 1, &pool)
		if !may {
			t.Fatalf("no room for %s", id)
		}
		return pooled
	}
	for i := range SlowMost {
		if !park(strconv.Itoa(i)) {
			t.Fatalf("entity %d is not charged to the pool", i)
		}
	}
	used := pool.Used
	if park("one more") || pool.Used != used {
		t.Errorf("%d bytes in the pool, want %d", pool.Used, used)
	}
	if messages, bytes := a.Parked(); messages != 1 || bytes != cost(1) {
		t.Errorf("%d messages of %d bytes in the window", messages, bytes)
	}
	// Those that are slow already are charged to the pool as before.
	if !park("0") || pool.Used != used+cost(1) {
		t.Errorf("%d bytes in the pool, want %d", pool.Used, used+cost(1))
	}
	a.Unpark("one more", Ordinary, 1, false, &pool)
	if messages, bytes := a.Parked(); messages != 0 || bytes != 0 || pool.Used != used+cost(1) {
		t.Errorf("%d messages of %d bytes in the window", messages, bytes)
	}
}
