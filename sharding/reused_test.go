package sharding

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// ledger keeps its state in a buffer and returns that from Snapshot, as reuse says.
type ledger struct {
	buf   []byte
	reuse string
	other []byte
	turn  int
}

func (l *ledger) Handle(_ *Context, add int) (int, error) {
	if l.buf == nil {
		l.buf = make([]byte, 8)
	}
	n := binary.BigEndian.Uint64(l.buf) + uint64(add)
	binary.BigEndian.PutUint64(l.buf, n)
	return int(n), nil
}

func (l *ledger) Snapshot(*Context) ([]byte, error) {
	switch l.turn++; l.reuse {
	case "copy":
		return append([]byte(nil), l.buf...), nil
	case "cache": // the same slice, unless there is something new
		if string(l.other) != string(l.buf) {
			l.other = append([]byte(nil), l.buf...)
		}
		return l.other, nil
	case "every other":
		if l.turn%2 == 0 {
			return append([]byte(nil), l.buf...), nil
		}
	}
	return l.buf, nil
}

func (l *ledger) Restore(_ *Context, state []byte) error {
	l.buf = state
	if l.reuse == "copy" || l.reuse == "cache" {
		l.buf = append([]byte(nil), state...)
	}
	return nil
}

// An entity that goes on changing the slice that its Snapshot returned, or that its Restore
// took, is kept all the same, and it is said: one that does it right, or returns a slice again
// that has not changed, is not.
func TestSlicesThatAreUsedAgainAreKeptAndSaid(t *testing.T) {
	for _, strict := range []bool{true, false} {
		for _, reuse := range []string{"all", "every other", "copy", "cache"} {
			t.Run(fmt.Sprint(reuse, ", strict ", strict), func(t *testing.T) {
				bubble(t, func(t *testing.T) { ledgers(t, reuse, strict) })
			})
		}
	}
}

func ledgers(t *testing.T, reuse string, strict bool) {
	c := newCluster(t)
	c.strict = strict
	var log logbook
	var regions []*Region[int, int]
	for i := range 3 {
		n := c.add(fmt.Sprint("n", i+1))
		n.log = log.logger()
		r, err := Register(n.reg, Type[int, int]{
			Name: "ledger", Shards: 8, State: Replicated{Replicas: 3},
			New: func(string) Entity[int, int] { return &ledger{reuse: reuse} },
		})
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
		n.start()
	}
	c.install(c.nodes...)
	ask := func(r *Region[int, int], add, want int) {
		t.Helper()
		if got, err := r.Ask(within(t, 30*time.Second), "a", add, Retry()); got != want || err != nil {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
	}
	for i := range 10 {
		ask(regions[0], 1, i+1)
	}
	lived := func() int {
		for i, n := range c.nodes {
			if !n.dead.Load() && n.s.endpoints.Find([]byte("ledger")).Lives(regions[0].ShardOf("a"), "a") {
				return i
			}
		}
		t.Fatal("a lives nowhere")
		return 0
	}
	first := lived()
	c.crash(c.nodes[first])
	for i := range 4 { // the state that Restore took is changed as well
		ask(regions[(first+1)%3], 1, 11+i)
	}
	second := lived()
	ask(regions[(first+1)%3], 0, 14)
	ask(regions[(first+1)%3], 0, 14)
	wrong := reuse == "all" || reuse == "every other"
	said := log.count("goes on changing the slice that its Snapshot returned")
	counted := regions[first].Stats().StatesReused + regions[second].Stats().StatesReused
	switch {
	case wrong && (said < 1 || said > 2 || counted == 0 || log.count("type=ledger") == 0 || log.count("entity=a") == 0):
		if strict || raceEnabled || reuse == "all" { // the sample may miss it
			t.Errorf("said %d times, counted %d", said, counted)
		}
	case !wrong && (said != 0 || counted != 0):
		t.Errorf("said %d times, counted %d, and nothing is wrong", said, counted)
	}
}
