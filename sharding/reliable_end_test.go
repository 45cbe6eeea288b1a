package sharding

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// late is an entity that does not begin at the first attempts, in the way that its id
// says.
type late struct {
	id  string
	log *lateLog
}

type lateLog struct {
	mu    sync.Mutex
	tries map[string]int
	ran   []string
}

// again counts an attempt, and reports whether it is one of the first.
func (l *lateLog) again(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries[id]++
	return l.tries[id] <= lateTries
}

const lateTries = 3

func (l *late) OnStart(*Context) error {
	if l.id == "is not made" || !l.log.again(l.id) {
		return nil
	}
	switch l.id {
	case "fails":
		return errors.New("not yet")
	case "its friend panicked":
		return &PanicError{Value: "there"}
	case "its friend cannot be kept":
		return ErrState
	case "panics":
		panic("not yet")
	}
	return nil
}

func (l *late) Handle(_ *Context, req string) (string, error) {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	l.log.ran = append(l.log.ran, l.id+" "+req)
	return "", nil
}

// TestReliableWaitsForAnInstance: what keeps an instance from beginning has handled
// nothing. The message is sent again, and confirmed when it has run.
func TestReliableWaitsForAnInstance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		log := &lateLog{tries: map[string]int{}}
		r, err := Register(n.reg, Type[string, string]{Name: "late", New: func(id string) Entity[string, string] {
			if id == "is not made" && log.again(id) {
				panic("not yet")
			}
			return &late{id, log}
		}})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		told := map[string]error{}
		s, err := r.Reliable(ReliableConfig[string]{Resend: time.Hour, OnConfirm: func(id, req string, err error) { told[id+" "+req] = err }})
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{"fails", "its friend panicked", "its friend cannot be kept", "panics", "is not made"}
		for _, req := range []string{"1", "2"} {
			for _, id := range ids {
				if err := s.Send(t.Context(), id, req); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Flush(within(t, time.Minute)); err != nil {
			t.Fatal(err, log.ran)
		}
		ran := log.ran
		for _, id := range ids {
			first, second := slices.Index(ran, id+" 1"), slices.Index(ran, id+" 2")
			if first < 0 || second < first {
				t.Errorf("%s: ran %v", id, ran)
			}
			if err, ok := told[id+" 1"]; !ok || err != nil {
				t.Errorf("%s: confirmed %v, with %v", id, ok, err)
			}
		}
		if len(ran) != 2*len(ids) {
			t.Errorf("ran %v", ran)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReliableSaysThatAnAnswerIsLost: the message ran once, and its answer never came.
func TestReliableSaysThatAnAnswerIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c, nodes, regions := three(t, j, nil)
		id, _ := elsewhere(t, c, regions[0], nodes[0])
		eaten := 0
		c.eat = func(frame []byte) bool {
			if frames.KindOf(frame) != frames.KindConfirm || eaten > 0 {
				return false
			}
			eaten++
			return true
		}
		var told []error
		s := sure(t, regions[0], ReliableConfig[say]{Resend: 50 * time.Millisecond, OnConfirm: func(_ string, _ say, err error) { told = append(told, err) }})
		j.send(t, s, []string{id}, 7, 7)
		flushed(t, s)
		// The first line is elsewhere's own.
		if len(told) != 1 || !errors.Is(told[0], ErrResultLost) || Retryable(told[0]) || j.count(id) != 2 {
			t.Errorf("told %v, ran %v", told, j.lines[id])
		}
		if st := regions[0].Stats().Reliable; st.Confirmed != 1 || st.Resends != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReliableGivesRoomBack: a message that has ended, as OnConfirm reported, takes no room,
// in messages and in bytes. A closed producer is removed.
func TestReliableGivesRoomBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		_, _, regions := three(t, j, nil)
		r := regions[0]
		for range 3 {
			told := 0
			s := sure(t, r, ReliableConfig[say]{Messages: 2, Bytes: 300, OnConfirm: func(string, say, error) { told++ }})
			for n := range 20 {
				if err := s.Send(within(t, time.Second), "e", say{strings.Repeat("x", 200), n}); err != nil {
					t.Fatalf("message %d: %v", n, err)
				}
			}
			flushed(t, s)
			if err := s.Close(); err != nil || told != 20 || s.Unconfirmed() != 0 {
				t.Errorf("%v, %d told, %d unconfirmed", err, told, s.Unconfirmed())
			}
		}
		if n := r.typed.ReliableFigures().Producers; n != 0 {
			t.Errorf("%d producers are left after all were closed", n)
		}
	})
}

// TestReliableNamesItsSender: what an entity sends reliably names the entity.
func TestReliableNamesItsSender(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newCluster(t).add("n1")
		said := make(chan string, 2)
		var s *Reliable[string]
		r, err := Register(n.reg, Type[string, string]{Name: "talk", New: func(string) Entity[string, string] {
			return Func(func(ctx *Context, req string) (string, error) {
				if req == "begin" {
					return "", s.Send(ctx, "listener", "hello")
				}
				said <- ctx.Sender().Type + "/" + ctx.Sender().ID
				return "", nil
			})
		}})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		n.c.install(n)
		if s, err = r.Reliable(ReliableConfig[string]{}); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := r.Ask(within(t, 5*time.Second), "talker", "begin"); err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), "listener", "from outside"); err != nil {
			t.Fatal(err)
		}
		if a, b := <-said, <-said; a != "talk/talker" || b != "/" {
			t.Errorf("from %q and %q", a, b)
		}
	})
}
