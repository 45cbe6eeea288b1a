package flow

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"
)

// firstWindow returns an account with a first window, of which the sender has used a part.
func firstWindow(seen, seenBytes uint64) Account {
	a := NewAccount(1)
	a.seen, a.seenBytes = seen, seenBytes
	return a
}

// parkAll charges n requests of some bytes to the window, and reports whether all had room.
func (a *Account) parkAll(n, bytes int) bool {
	for range n {
		if pooled, may := a.Park("x", Ordinary, 1, bytes, nil); pooled || !may {
			return false
		}
	}
	return true
}

// An account that begins in the middle of a sender's requests grants as much beyond them as one
// that begins with the first.
func TestAnAccountBeginsAtTheSendersNumber(t *testing.T) {
	for number, want := range map[uint64]uint64{0: FirstMessages, 1: FirstMessages, 5: FirstMessages + 4} {
		if a := NewAccount(number); a.Grant() != (Grant{Limit: want, LimitBytes: FirstBytes}) {
			t.Errorf("first number %d: grants %+v", number, a.limits())
		}
	}
}

// A Run is worth an Accept once, when it has an eighth of the window in messages or bytes. The
// first one always is: the home has no account yet.
func TestARunIsAcceptedByEighthsOfTheWindow(t *testing.T) {
	a, r := NewAccount(1), Run{}
	if !r.Add(1, 0) || r.Add(2, MostBytes) {
		t.Error("the first run is not worth an Accept, or twice")
	}
	for name, sizes := range map[string][]int{
		"messages": slices.Repeat([]int{0}, FirstMessages/8),
		"bytes":    {FirstBytes/8 - 2*overhead - 1, 1},
		"one":      {FirstBytes/8 - overhead},
	} {
		if a.Accept(&r); r.Last() != 0 {
			t.Fatalf("%s: not empty after Accept: %+v", name, r)
		}
		for i, size := range sizes {
			if got, want := r.Add(uint64(100+i), size), i == len(sizes)-1; got != want {
				t.Errorf("%s: request %d of %d is worth an Accept: %v", name, i+1, len(sizes), got)
			}
		}
		if r.Add(7, FirstBytes) {
			t.Errorf("%s: worth a second Accept", name)
		}
		if want := uint64(100 + len(sizes) - 1); r.Last() != want {
			t.Errorf("%s: the last number is %d, want %d", name, r.Last(), want)
		}
	}
}

// A window is small for a sender that fills half of it at a time, unless its requests wait for
// mailboxes, or the window is as large as it gets.
func TestAWindowIsSmallForHalfOfIt(t *testing.T) {
	largest := func(a *Account) { a.messages, a.bytes = MostMessages, MostBytes }
	const messages = FirstMessages / 2
	for _, c := range []struct {
		name            string
		messages, bytes int
		change          func(*Account)
		waiting         int
		small           bool
	}{
		{name: "half the messages", messages: messages, small: true},
		{name: "less", messages: messages - 1},
		{name: "half the bytes", messages: 1, bytes: FirstBytes/2 - overhead, small: true},
		{name: "one byte less", messages: 1, bytes: FirstBytes/2 - overhead - 1},
		{name: "some wait", messages: messages, waiting: 1},
		{name: "some waited before", messages: messages, change: func(a *Account) { a.parkAll(1, 0) }},
		{name: "one waits, and one before", messages: messages, change: func(a *Account) { a.parkAll(1, 0) }, waiting: 1},
		{name: "the largest window", messages: MostMessages / 2, change: largest},
	} {
		a, r := NewAccount(1), Run{}
		if c.change != nil {
			c.change(&a)
		}
		for i := range c.messages {
			size := 0
			if i == 0 {
				size = c.bytes
			}
			r.Add(uint64(i+1), size)
		}
		for range c.waiting {
			r.Wait()
		}
		if small := a.Accept(&r); small != c.small {
			t.Errorf("%s: small %v", c.name, small)
		}
	}
}

// A grant is due when it raises a limit by half a window. For a blocked sender a quarter is
// enough, of both limits: less would block it again.
func TestAGrantIsDueForHalfAWindow(t *testing.T) {
	blocked := func(seen, parked, parkedBytes uint64) Account {
		a := firstWindow(seen, FirstBytes)
		a.granted, a.blocked = seen, true
		a.waiting = &waitingRequests{parked: parked, parkedBytes: parkedBytes}
		return a
	}
	const quarter, quarterBytes = FirstMessages / 4, FirstBytes / 4
	for _, c := range []struct {
		name string
		a    Account
		due  bool
	}{
		{"a new window", firstWindow(0, 0), false},
		{"half the messages", firstWindow(FirstMessages/2, 0), true},
		{"fewer", firstWindow(FirstMessages/2-1, 0), false},
		{"half the bytes", firstWindow(0, FirstBytes/2), true},
		{"one byte less", firstWindow(0, FirstBytes/2-1), false},
		{"blocked, nothing waits", blocked(100, 0, 0), true},
		{"blocked, a quarter", blocked(100, FirstMessages-quarter, FirstBytes-quarterBytes), true},
		{"blocked, fewer messages", blocked(100, FirstMessages-quarter+1, FirstBytes-quarterBytes), false},
		{"blocked, fewer bytes", blocked(100, FirstMessages-quarter, FirstBytes-quarterBytes+1), false},
		{"blocked, more waits than the window", blocked(100, 2*FirstMessages, 2*FirstBytes), false},
	} {
		if got := c.a.Due(); got != c.due {
			t.Errorf("%s: due %v", c.name, got)
		}
	}
}

// A grant is urgent when the sender has no more than a quarter of its window left, or is blocked,
// or must stop for an entity.
func TestAGrantIsUrgentForTheLastQuarter(t *testing.T) {
	blocked, notified := firstWindow(0, 0), firstWindow(0, 0)
	blocked.blocked = true
	notified.Park("a", Ordinary, 1, 1, &Pool{Share: 1 << 20})
	const used, usedBytes = FirstMessages * 3 / 4, FirstBytes * 3 / 4
	for _, c := range []struct {
		name   string
		a      Account
		urgent bool
	}{
		{"a new window", firstWindow(0, 0), false},
		{"a quarter of the messages is left", firstWindow(used, 0), true},
		{"more is left", firstWindow(used-1, 0), false},
		{"a quarter of the bytes is left", firstWindow(0, usedBytes), true},
		{"one byte more is left", firstWindow(0, usedBytes-1), false},
		{"blocked", blocked, true},
		{"a notice waits", notified, true},
	} {
		if got := c.a.Urgent(); got != c.urgent {
			t.Errorf("%s: urgent %v", c.name, got)
		}
	}
	if !notified.Due() {
		t.Error("a notice is not due")
	}
}

// A blocked sender's report replaces what the home assumed: requests and grants that were lost
// with a connection count no longer.
func TestAReportReplacesWhatWasLost(t *testing.T) {
	a := firstWindow(90, 9000)
	a.granted, a.grantedBytes = 200, 200_000
	a.parkAll(FirstMessages, FirstBytes/FirstMessages)
	a.Reconcile(Report{Sent: 100, SentBytes: 10_000, Limit: 100, LimitBytes: 20_000}, &Budget{})
	if g := a.limits(); g != (Grant{Limit: 100, LimitBytes: 20_000}) || a.seen != 100 || a.seenBytes != 10_000 || !a.blocked {
		t.Errorf("may grant %+v of %+v", g, a)
	}
}

// A sender that a slow entity has blocked does not wait for the network: its window stays as it
// is. When it is blocked again without one, its window grows.
func TestASlowEntityGrowsNoWindow(t *testing.T) {
	a, pool, budget := NewAccount(1), Pool{Share: 1 << 20}, Budget{Most: MostBytes}
	a.Park("a", Ordinary, 1, 1, &pool)
	for i, want := range []uint32{FirstMessages, 2 * FirstMessages} {
		if a.Reconcile(Report{}, &budget); a.messages != want {
			t.Errorf("report %d: the window has %d messages, want %d", i, a.messages, want)
		}
	}
	a = NewAccount(1)
	a.parkAll(1, 1)
	if a.Reconcile(Report{}, &budget); a.messages != FirstMessages {
		t.Errorf("the window has %d messages although a request waits", a.messages)
	}
}

// A report may answer a question of a former account, that a new one has not asked. Its grants
// then carry that number, or the sender would take them for older ones; the next question has a
// higher number.
func TestAnAccountContinuesTheNumbersOfAFormerOne(t *testing.T) {
	a, budget := NewAccount(1), Budget{Most: MostBytes}
	a.asked, a.asking = 1, true
	a.Reconcile(Report{Asked: 3}, &budget)
	if g := a.Grant(); g.Asked != 3 {
		t.Errorf("grants %+v", g)
	}
	if number, ask := a.Idle(); !ask || number != 4 {
		t.Errorf("asks %v with number %d", ask, number)
	}
	// A report that answers the last question leaves it open: the answer may still come.
	a.Reconcile(Report{Asked: 4}, &budget)
	if !a.Shrunk(Report{Asked: 4}, &budget) {
		t.Error("the answer to an open question is not accepted")
	}
}

// The home asks for an idle window's growth back: not while requests come or wait, or while the
// sender is blocked, and not for a window that has not grown.
func TestOnlyAnIdleWindowIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Account)
		ask    bool
	}{
		"idle":              {func(*Account) {}, true},
		"in messages alone": {func(a *Account) { a.bytes = FirstBytes }, true},
		"requests came":     {func(a *Account) { a.seen++ }, false},
		"some wait":         {func(a *Account) { a.parkAll(1, 1) }, false},
		"an entity is slow": {func(a *Account) { a.Park("a", Ordinary, 1, 1, &Pool{Share: 1 << 20}) }, false},
		"blocked":           {func(a *Account) { a.blocked = true }, false},
		"a first window":    {func(a *Account) { a.messages, a.bytes = FirstMessages, FirstBytes }, false},
	} {
		a := NewAccount(1)
		a.Grow(&Budget{Most: MostBytes})
		c.change(&a)
		if _, ask := a.Idle(); ask != c.ask {
			t.Errorf("%s: asks %v", name, ask)
		}
	}
}

// The answer to a question counts once, and with it the sender's own numbers. A copy of it that
// comes after further requests changes nothing.
func TestAnAnswerShrinksAWindowOnce(t *testing.T) {
	a, budget := NewAccount(1), Budget{Most: MostBytes}
	a.Grow(&budget)
	number, _ := a.Idle()
	answer := Report{Sent: 10, SentBytes: 1000, Limit: 10 + FirstMessages, LimitBytes: 1000 + FirstBytes, Asked: number}
	if !a.Shrunk(answer, &budget) || budget.Used != 0 {
		t.Fatalf("not accepted, or keeps %d bytes", budget.Used)
	}
	if g := a.limits(); a.seen != 10 || a.seenBytes != 1000 || g != (Grant{answer.Limit, answer.LimitBytes, number}) {
		t.Errorf("may grant %+v of %+v", g, a)
	}
	if a.Shrunk(answer, &budget) {
		t.Error("accepted twice")
	}
}

// A sender shrinks its window to a first one from where it is. A question from before the last
// one it answered has no answer.
func TestASenderShrinksToAFirstWindow(t *testing.T) {
	var w Window
	w.Open()
	w.Raise(Grant{Limit: 1000, LimitBytes: 1 << 20})
	w.Left(300 - overhead)
	want := Report{Sent: 1, SentBytes: 300, Limit: 1 + FirstMessages, LimitBytes: 300 + FirstBytes, Asked: 2}
	if got, ok := w.Shrink(2); !ok || got != want {
		t.Errorf("answers %+v, %v; want %+v", got, ok, want)
	}
	if got, ok := w.Shrink(1); ok || got != (Report{}) || w.Report() != want {
		t.Errorf("an older question is answered with %+v, %v", got, ok)
	}
	if w.Raise(Grant{Limit: 1000, LimitBytes: 1 << 20, Asked: 1}) || w.Report() != want {
		t.Error("a grant from before the question counts")
	}
}

// Only a grant that raises a limit lets requests leave.
func TestAGrantRaisesEitherLimit(t *testing.T) {
	for _, c := range []struct {
		messages, bytes uint64
		raises          bool
	}{{0, 0, false}, {1, 0, true}, {0, 1, true}, {1, 1, true}} {
		var w Window
		w.Open()
		if got := w.Raise(Grant{Limit: FirstMessages + c.messages, LimitBytes: FirstBytes + c.bytes}); got != c.raises {
			t.Errorf("%+v: raised %v", c, got)
		}
	}
}

// Each class has room above the limits of the former, in messages and in bytes.
func TestEachClassHasRoomOfItsOwn(t *testing.T) {
	for class := range classes {
		room, roomBytes := FirstMessages+int(class)*Spare, FirstBytes+int(class)*SpareBytes
		for _, c := range []struct {
			messages, bytes int
			may             bool
		}{
			{room - 1, 0, true}, {room, 0, false},
			{1, roomBytes - 1 - overhead, true}, {1, roomBytes - overhead, false},
		} {
			var w Window
			w.Open()
			for range c.messages {
				w.Left(c.bytes)
			}
			if w.MayLeave(class) != c.may {
				t.Errorf("class %d may leave %v after %d requests of %d bytes", class, !c.may, c.messages, c.bytes)
			}
		}
		if got, ok := ParseClass(byte(class)); !ok || got != class {
			t.Errorf("class %d is parsed as %d, %v", class, got, ok)
		}
	}
	if _, ok := ParseClass(byte(classes)); ok {
		t.Error("an unknown class is accepted")
	}
}

// More requests than the window and the spare room of all classes cannot have been sent: they
// have no place. The last one may exceed the room in bytes.
func TestMoreThanAllRoomHasNoPlace(t *testing.T) {
	a := NewAccount(1)
	if !a.parkAll(FirstMessages+2*Spare, 0) || a.parkAll(1, 0) {
		t.Errorf("room for %+v", a)
	}
	a = NewAccount(1)
	if !a.parkAll(1, FirstBytes+2*SpareBytes-overhead) || !a.parkAll(1, 0) || a.parkAll(1, 0) {
		t.Errorf("room for %+v", a)
	}
	if pooled, may := a.Park("x", Ordinary, 1, 0, nil); pooled || may {
		t.Errorf("refused as pooled %v, may %v", pooled, may)
	}
}

// sendNotices returns the notices that wait: the entity, and its gate.
func (a *Account) sendNotices() (all []string) {
	a.Notices(func(id string, gate Class) { all = append(all, fmt.Sprint(id, gate)) })
	return all
}

// The sender is notified when the gate of an entity changes, and not of each request. A notice is
// repeated when a request above the limit of its time shows that it was lost.
func TestNoticesFollowTheGate(t *testing.T) {
	a, pool := NewAccount(1), Pool{Share: 1 << 20}
	park := func(c Class, number uint64) { a.Park("a", c, number, 1, &pool) }
	for _, c := range []struct {
		name  string
		do    func()
		waits bool
		want  []string
	}{
		{"parked and gone before a notice left", func() { park(Ordinary, 1); a.Unpark("a", Ordinary, 1, true, &pool) }, true, nil},
		{"two of them", func() {
			for range 2 {
				park(Ordinary, 1)
			}
			for range 2 {
				a.Unpark("a", Ordinary, 1, true, &pool)
			}
		}, true, nil},
		{"the first two", func() { park(Ordinary, 2); park(Ordinary, 3) }, true, []string{"a1"}},
		{"up to the limit of the notice", func() { park(Ordinary, FirstMessages) }, false, nil},
		{"above it", func() { park(Ordinary, FirstMessages+1); park(Ordinary, 4) }, true, []string{"a1"}},
		{"above it, but the gate lets it pass", func() { park(Control, FirstMessages+1) }, false, nil},
		{"of a handler", func() { park(Handler, 5) }, true, []string{"a2"}},
		{"a control message again", func() { park(Control, FirstMessages+1) }, false, nil},
		{"of a handler above it", func() { park(Handler, FirstMessages+1) }, true, []string{"a2"}},
		{"one handler left", func() { a.Unpark("a", Handler, 1, true, &pool) }, false, nil},
		{"no handler left", func() { a.Unpark("a", Handler, 1, true, &pool) }, true, []string{"a1"}},
	} {
		c.do()
		if due := a.Due(); due != c.waits {
			t.Errorf("%s: due %v", c.name, due)
		}
		if got := a.sendNotices(); !slices.Equal(got, c.want) {
			t.Errorf("%s: notices %v, want %v", c.name, got, c.want)
		}
		if a.slowEntities().areAny() && a.GateOf("a") != a.slowEntities().byID["a"].told {
			t.Errorf("%s: the gate is %d", c.name, a.GateOf("a"))
		}
	}
	for a.slowEntities().byID["a"].pooled > 0 {
		a.Unpark("a", Ordinary, 1, true, &pool)
	}
	if got := a.sendNotices(); !slices.Equal(got, []string{"a0"}) || a.waits() || a.GateOf("a") != Open || pool.Used != 0 {
		t.Errorf("in the end: notices %v, waits %v, gate %d, %d bytes in the pool", got, a.waits(), a.GateOf("a"), pool.Used)
	}
}

// A grant that no home sends is cut to what a Window can store, and the sender reports what it
// has stored. A request beyond both limits leaves them where they are.
func TestAWindowStoresItsLimitsExactly(t *testing.T) {
	var w Window
	w.Open()
	w.Left(0)
	w.Raise(Grant{Limit: math.MaxUint64, LimitBytes: math.MaxUint64})
	if want := (Report{Sent: 1, SentBytes: overhead, Limit: 1 + math.MaxInt32, LimitBytes: overhead + math.MaxInt32}); w.Report() != want {
		t.Errorf("reports %+v, want %+v", w.Report(), want)
	}
	w = Window{}
	w.Open()
	for range FirstMessages + 2*Spare {
		w.Left(MostBytes)
	}
	if r := w.Report(); r.Limit != FirstMessages || r.LimitBytes != FirstBytes || w.MayLeave(Control) {
		t.Errorf("reports %+v", r)
	}
}

// A home has an Account and a Run for each shard and sender, a sender a Window for each shard.
func TestStatesOfAShardAreSmall(t *testing.T) {
	if a, r, w := unsafe.Sizeof(Account{}), unsafe.Sizeof(Run{}), unsafe.Sizeof(Window{}); a > 64 || r > 32 || w > 32 {
		t.Errorf("an Account has %d bytes, a Run %d, a Window %d", a, r, w)
	}
}
