package route

import (
	"math/rand/v2"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/testsize"
)

// send lets a sender make its next call, or continue with the one that it makes.
func (w *world) send(i int, bytes int) {
	s := w.sends[i]
	switch {
	case s.waits == nil:
		s.sent++
		w.offer(s, Item[note]{Msg: note{i, s.sent}, ID: s.id, Bytes: bytes, Class: s.class})
	case s.waits.in == nil:
		it := s.waits.Item
		s.waits = nil
		w.offer(s, it)
	}
}

func (w *world) offer(s *sender, it Item[note]) {
	if w.published {
		w.take(it.Msg)
		return
	}
	switch a := w.r.Offer(&it); a.Kind {
	case Wait:
		w.note("%d of %d waits", it.Msg.n, it.Msg.sender)
		s.waits = &Waiter[note]{Item: it}
		w.r.Await(s.waits)
	case Buffer:
		w.r.Keep(&it)
	case Send, Publish:
		how := w.perform(&a)
		w.r.Done(&a, how)
		w.note("%d of %d: action %d, outcome %d", it.Msg.n, it.Msg.sender, a.Kind, how)
		switch {
		case how == Sent && a.Kind == Publish:
			w.take(it.Msg)
		case how == TooLarge:
			w.dropped++
		case how == Full: // the caller waits for the connection, and offers again
			s.waits = &Waiter[note]{Item: it}
		case how == Down:
			w.r.Keep(&it)
		}
	default:
		w.fatal("an offer returned action %d", a.Kind)
	}
	w.carryOut()
}

// withdraw lets a sender that waits give up.
func (w *world) withdraw(i int) {
	if s := w.sends[i]; s.waits != nil {
		w.note("%d gives up", i)
		s.waits.Withdraw()
		s.waits = nil
		w.withdrawn++
		w.carryOut()
	}
}

// place gives the shard to a node, as a coordinator does when no node hosts it.
func (w *world) place(n gossip.NodeID) {
	if w.owner != 0 {
		return
	}
	w.seq++
	w.owner, w.token = n, protocol.Token{Term: 1, Seq: w.seq}
	if n != self {
		w.remote = append(w.remote, allocation{n, w.token})
	}
	w.note("placed at %d", n)
	w.r.Open(n, w.token, n == self)
	w.carryOut()
}

// begin closes the route for a move, finish ends the move once the marker is acknowledged.
func (w *world) begin() {
	if w.owner == 0 || w.moving != (protocol.Token{}) {
		return
	}
	w.seq++
	w.moving, w.acked = protocol.Token{Term: 1, Seq: w.seq}, false
	w.note("begin, marker to %d", w.owner)
	w.r.Close(w.owner, w.moving)
	w.carryOut()
}

func (w *world) finish(n gossip.NodeID) {
	switch {
	case w.moving == (protocol.Token{}):
		return
	case w.owner == 0 || w.down[w.owner]:
	case !w.acked:
		w.r.Mark(w.owner, w.moving)
		w.carryOut()
		return
	}
	w.moving, w.owner = protocol.Token{}, 0
	w.place(n)
}

// publish opens the route to the present home again, as the answer to a question does. If a move
// has begun, this cancels it, whether or not its marker has been acknowledged.
func (w *world) publish() {
	if w.owner != 0 {
		w.note("published at %d", w.owner)
		w.open(w.owner, w.token)
	}
}

// publishFormer opens the route by the record of an earlier allocation: a coordinator that has
// just taken office may serve one that its census then refutes.
func (w *world) publishFormer() {
	for i := len(w.remote) - 1; i >= 0; i-- {
		if former := w.remote[i]; former.token != w.token {
			w.note("published at %d by a former record", former.home)
			w.open(former.home, former.token)
			return
		}
	}
}

func (w *world) open(n gossip.NodeID, token protocol.Token) {
	w.moving = protocol.Token{}
	w.r.Open(n, token, n == self)
	w.carryOut()
}

// abandon ends the hosting of the shard without notice: its home has died.
func (w *world) abandon() {
	w.note("abandoned")
	w.owner, w.published = 0, false
}

func (w *world) disconnect(n gossip.NodeID) {
	w.note("connection to %d lost", n)
	for _, f := range append(w.there[n], w.back[n]...) {
		w.lose(f)
	}
	w.there[n], w.back[n] = nil, nil
	w.down[n] = true
	w.r.PeerLost(n)
	w.carryOut()
}

func (w *world) connect(n gossip.NodeID) {
	if w.down[n] {
		w.note("connection to %d open", n)
		w.down[n] = false
		w.r.PeerUp(n)
		w.carryOut()
	}
}

// relieve gives the connections room, and ends the wait for it.
func (w *world) relieve(how Outcome) {
	clear(w.full)
	if n := w.awaits; n != 0 {
		w.awaits = 0
		w.r.RoomFound(n, how)
		w.carryOut()
	}
}

func (w *world) stop(id string, lowest flow.Class) {
	if w.owner > self {
		w.back[w.owner] = append(w.back[w.owner], frame{kind: Stopped, token: w.token, id: id, lowest: lowest})
	}
}

// step performs one step of a schedule.
func (w *world) step(b byte) {
	n := 2 + gossip.NodeID(b>>4&1)
	sender := int(b>>4) % len(w.sends)
	switch b & 15 {
	case 0, 1, 2:
		w.send(sender, 10)
	case 3:
		for range 20 {
			w.send(sender, 10)
		}
	case 4, 5:
		w.arrive(n)
	case 6, 7:
		w.answer(n)
	case 8:
		w.begin()
	case 9:
		w.finish(self + gossip.NodeID(b>>4)%3)
	case 10:
		w.place(self + gossip.NodeID(b>>4)%3)
	case 11:
		w.stepFault(n, b)
	case 12:
		w.answer(self)
		w.stop([]string{"a", "b"}[b>>5&1], flow.Class(b>>6)%(flow.Control+1))
	case 13:
		w.withdraw(sender)
	case 14:
		w.r.Look(true)
		w.carryOut()
	case 15:
		w.send(sender, []int{1000, tooLarge}[b>>7])
	}
}

func (w *world) stepFault(n gossip.NodeID, b byte) {
	switch b >> 5 {
	case 0:
		w.abandon()
	case 1:
		w.stepPublish(b)
	case 2:
		w.disconnect(n)
	case 3, 4:
		w.connect(n)
	case 5:
		w.full[n] = true
	case 6:
		w.stepRoom(b)
	case 7:
		w.r.ReleaseCallers()
		w.carryOut()
	}
}

// stepRoom ends the wait for room: the connection has some, or its peer has left.
func (w *world) stepRoom(b byte) {
	if b>>4&1 == 1 && w.down[w.awaits] {
		w.relieve(Down)
		return
	}
	w.relieve(Sent)
}

func (w *world) stepPublish(b byte) {
	if b>>4&1 == 0 {
		w.publish()
	} else {
		w.publishFormer()
	}
}

// settle lets all messages arrive, and checks that each has an outcome.
func (w *world) settle() {
	for range 60 {
		w.relieve(Sent)
		for i := range w.sends {
			if w.sends[i].waits != nil {
				w.send(i, 0)
			}
		}
		for _, n := range []gossip.NodeID{self, 2, 3} {
			w.connect(n)
			for len(w.there[n])+len(w.back[n]) > 0 {
				w.arrive(n)
				w.answer(n)
			}
		}
		w.r.Look(true)
		w.carryOut()
		w.finish(2)
		w.place(2)
		w.publish()
	}
	sent := 0
	for i, s := range w.sends {
		if s.waits != nil {
			w.fatal("sender %d waits for ever", i)
		}
		sent += s.sent
	}
	if messages, bytes, gates := w.r.Held(); messages != 0 || bytes != 0 || gates != 0 {
		w.fatal("%d messages of %d bytes are held, %d gates", messages, bytes, gates)
	}
	if sent != w.taken+w.lost+w.dropped+w.withdrawn {
		w.fatal("%d sent, %d handled, %d lost with connections, %d dropped, %d withdrawn", sent, w.taken, w.lost, w.dropped, w.withdrawn)
	}
}

func playSchedule(t testing.TB, schedule []byte) *world {
	w := newWorld(t)
	for _, b := range schedule {
		w.step(b)
	}
	w.settle()
	return w
}

// Under all schedules of moves, deaths, broken and full connections, stops, and grants, each
// message is handled at most once, in the order of its sender, or has a reported outcome (S3).
func FuzzOrder(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomSchedule(rand.New(rand.NewPCG(seed, 1))))
	}
	f.Fuzz(func(t *testing.T, schedule []byte) {
		playSchedule(t, schedule[:min(len(schedule), 2000)])
	})
}

// randomSchedule draws a schedule in which some steps are more frequent than others.
func randomSchedule(r *rand.Rand) []byte {
	weights := [16]int{}
	for i := range weights {
		weights[i] = r.IntN(1 + r.IntN(8))
	}
	weights[0]++
	var steps []byte
	for b, n := range weights {
		for range n {
			steps = append(steps, byte(b))
		}
	}
	schedule := make([]byte, r.IntN(400))
	for i := range schedule {
		schedule[i] = steps[r.IntN(len(steps))] | byte(r.IntN(16))<<4
	}
	return schedule
}

// The schedules of FuzzOrder, many more of them, drawn at random. Together they see what a
// route can do to a message.
func TestOrderHoldsUnderRandomSchedules(t *testing.T) {
	seeds := uint64(testsize.Runs(2000, 2000, 20_000))
	var all world
	for seed := range seeds {
		w := playSchedule(t, randomSchedule(rand.New(rand.NewPCG(seed, 2))))
		all.taken, all.lost, all.dropped, all.withdrawn = all.taken+w.taken, all.lost+w.lost, all.dropped+w.dropped, all.withdrawn+w.withdrawn
	}
	t.Logf("%d handled, %d lost with connections, %d dropped, %d withdrawn", all.taken, all.lost, all.dropped, all.withdrawn)
	if all.taken < 1000 || all.lost < 100 || all.dropped < 100 || all.withdrawn < 100 {
		t.Error("the schedules are too calm")
	}
}

// A refusal from an earlier way arrives while the route waits for those of a later way to the
// same node, or while the later way has the same token. Its message may not be sent again:
// another one has run on this node in between.
func TestOrderHoldsWhenARefusalOfAnEarlierWayIsLate(t *testing.T) {
	// runHere sends a message that runs on this node, and turns the route to node 2 and back.
	runHere := func(w *world) {
		w.send(0, 10)
		w.abandon()
		w.place(2)
		w.abandon()
		w.place(self)
	}
	for _, c := range []struct {
		name string
		play func(w *world)
	}{
		{"a home dies before it has the coordinator's marker", func(w *world) {
			w.place(2)
			w.send(0, 10)
			w.begin()
			w.abandon()
			w.finish(self)
			runHere(w)
		}},
		{"a home opens before the former one has the route's marker", func(w *world) {
			w.place(2)
			w.send(1, 10)
			w.send(0, 10)
			w.abandon()
			w.arrive(2)
			w.answer(2)
			w.place(self)
			runHere(w)
		}},
		{"a former record opens the earlier way again", func(w *world) {
			w.place(2)
			w.send(0, 10)
			w.begin()
			w.abandon()
			w.finish(self)
			w.send(0, 10)
			w.publishFormer()
			w.arrive(2)
			w.answer(2)
			w.publish()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.play(w)
			w.settle()
			if s := w.sends[0]; s.taken != s.sent {
				t.Errorf("sender 0 has sent %d messages, and the last one handled is %d", s.sent, s.taken)
			}
		})
	}
}
