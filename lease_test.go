package peerage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/replicator"
)

var words = ddata.ORSetKey[string]("words")

func (m *member) say(within time.Duration, word string, level ddata.Level) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return ddata.Update(ctx, m.Data("db"), words, level, func(s *ddata.ORSetTx[string]) error {
		s.Add(word)
		return nil
	})
}

func (m *member) heard(within time.Duration, level ddata.Level) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	set, err := ddata.Get(ctx, m.Data("db"), words, level)
	return set.Elements(), err
}

// Both members with a role are cut off, and removed: they are all of the role in the view
// that they hold, and must take each other for no majority.
func TestARemovedRoleReadsAndWritesNothingAtMajority(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		var db []*member
		for i := 2; i < 4; i++ {
			db = append(db, c.addWith(i, func(c *peerage.Config) { c.Roles = []string{"db"} }, nil))
		}
		c.ready(c.nodes...)
		if err := db[0].say(10*time.Second, "before", ddata.All); err != nil {
			t.Fatal(err)
		}
		stay := c.nodes[:2]
		c.net.Split(peerage.CutDropped, []string{stay[0].addr, stay[1].addr}, []string{db[0].addr, db[1].addr})
		c.until(20*time.Second, "the role is removed", func() bool { return len(stay[1].View().WithRole("db")) == 0 })
		for _, level := range []ddata.Level{ddata.To(2), ddata.Majority, ddata.All} {
			if err := db[0].say(300*time.Millisecond, "lost", level); !errors.Is(err, replicator.ErrNoLease) || !errors.Is(err, replicator.ErrOutcomeUnknown) {
				t.Errorf("write at %v: %v", level, err)
			}
			if got, err := db[1].heard(300*time.Millisecond, level); !errors.Is(err, replicator.ErrNoLease) {
				t.Errorf("read at %v: %v, %v", level, got, err)
			}
		}
		if got, err := db[1].heard(time.Second, ddata.Local); err != nil || len(got) == 0 {
			t.Errorf("local: %v, %v", got, err)
		}
		if n := len(db[0].View().Members); n != 4 {
			t.Errorf("it holds a view of %d: nothing was tried", n)
		}
	})
}

// A lease that lapses and comes back delays a request, and does not fail it.
func TestMajorityWriteOutlastsALapsedLease(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for i := 3; i < 6; i++ {
			c.addWith(i, func(c *peerage.Config) { c.Roles = []string{"db"} }, nil)
		}
		c.ready(c.nodes...)
		out := c.nodes[3:]
		c.net.Split(peerage.CutDropped, addrs(c.nodes[:3]), addrs(out))
		c.until(10*time.Second, "the lease has ended", func() bool { return !out[0].LeaseValid() })
		result := make(chan error, 1)
		go func() { result <- out[0].say(10*time.Second, "late", ddata.Majority) }()
		pass(50 * time.Millisecond)
		select {
		case err := <-result:
			t.Fatalf("ended without a lease: %v", err)
		default:
		}
		c.net.Heal()
		c.until(10*time.Second, "the lease is back", out[0].LeaseValid)
		back := time.Now()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(back); took > 10*time.Millisecond {
			t.Errorf("ended %v after the lease was back", took)
		}
		if len(out[0].View().Members) != 6 {
			t.Error("it was removed meanwhile")
		}
	})
}

func addrs(ms []*member) (out []string) {
	for _, m := range ms {
		out = append(out, m.addr)
	}
	return out
}
