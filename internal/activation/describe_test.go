package activation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestInstancesAreDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 3)
		<-time.After(3 * time.Hour)
		deliver(t, s, "idle", ask(1, 1))
		synctest.Wait()
		<-time.After(90 * time.Second)
		deliver(t, s, "busy", ask(-2, 2)) // waits at the gate
		synctest.Wait()
		deliver(t, s, "busy", ask(3, 3), ask(4, 4))
		<-time.After(5 * time.Second)
		for id, want := range map[string]EntityState{
			"idle": {Shard: 3, ID: "idle", Age: 95},
			"busy": {Shard: 3, ID: "busy", Age: 5, Waiting: 2, Running: true},
		} {
			if got, ok := Describe(s, id); !ok || got != want {
				t.Errorf("%+v, %v, want %+v", got, ok, want)
			}
		}
		if got, ok := Describe(s, "none"); ok {
			t.Errorf("%+v describes no instance", got)
		}
		close(r.gate)
		synctest.Wait()
		if got, _ := Describe(s, "busy"); got.Waiting != 0 || got.Running || got.Age != 5 {
			t.Errorf("after its last message: %+v", got)
		}
	})
}

// A figure of a scrape must not depend on how many entities there are, so only those with messages
// are looked at: one that runs, and one that waits for a worker.
func TestWaitingMessagesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 3)
		deliver(t, s, "idle", ask(1, 1))
		synctest.Wait()
		expect := func(what string, messages, most int) {
			t.Helper()
			if n, m := r.Waiting(); n != messages || m != most {
				t.Errorf("%s: %d messages wait, %d at most, want %d and %d", what, n, m, messages, most)
			}
		}
		expect("at rest", 0, 0)
		deliver(t, s, "one", ask(-2, 2)) // waits at the gate
		deliver(t, s, "two", ask(-2, 3))
		synctest.Wait()
		deliver(t, s, "one", ask(4, 4), ask(5, 5), ask(6, 6))
		deliver(t, s, "two", ask(7, 7))
		expect("both run", 4, 3)
		close(r.gate)
		synctest.Wait()
		expect("all handled", 0, 0)
		// A message that found its entity at rest is part of the task.
		q := &runQueue[*Context, int, int]{plain: taskList[*Context, int, int]{tasks: appendTask(nil, s, s.entities.Find("idle"), &Message[int]{}, false)}}
		if busy := q.appendBusy(nil); len(busy) != 1 || busy[0].extra != 1 || busy[0].in.id != "idle" {
			t.Errorf("waiting for a worker: %+v", busy)
		}
	})
}

func TestSearchReturnsTheFirstByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		for i := range 50 {
			deliver(t, s, fmt.Sprintf("cart-%02d", i), ask(1, uint64(2*i)))
			deliver(t, s, fmt.Sprintf("other-%02d", i), ask(1, uint64(2*i+1)))
		}
		synctest.Wait()
		for _, c := range []struct {
			text  string
			first string
			n     int
		}{{"cart-", "cart-00", 5}, {"art-4", "cart-40", 5}, {"-49", "cart-49", 2}, {"", "cart-00", 5}, {"none", "", 0}} {
			got := Search(s, c.text, 5)
			if len(got) != c.n || c.n > 0 && got[0].ID != c.first {
				t.Errorf("%q: %d found, %+v; want %d from %q", c.text, len(got), got, c.n, c.first)
			}
		}
	})
}

// The creation time shares a word with the flags, which change all the while.
func TestFlagsLeaveTheAgeAlone(t *testing.T) {
	in := &instance[*Context, int, int]{}
	in.setBorn(400 * 24 * time.Hour)
	in.flags.Or(flagWaited | flagControl | flagListens | flagUrgent | flagWatched | flagBegun)
	if got := in.age(401 * 24 * time.Hour); got != 24*60*60 {
		t.Errorf("age %d s, want a day", got)
	}
	in.flags.And(^(flagWaited | flagControl | flagListens | flagUrgent | flagWatched | flagBegun))
	if got := in.age(400*24*time.Hour + time.Minute); got != 60 {
		t.Errorf("age %d s, want a minute", got)
	}
	if flagBegun != 1<<(bornBit-1) {
		t.Error("bornBit is not above the flags")
	}
}
