package harness

import (
	"math/rand/v2"
	"testing"
	"time"
)

// roundsOf returns rounds of a few durations each. Those of one round lie close to each other,
// around a value that is uniform between 0 and 100 ms: the true median of all is 50 ms.
func roundsOf(rng *rand.Rand, n int) (rounds [][]time.Duration) {
	for range n {
		middle := rng.Float64() * 100
		var times []time.Duration
		for range 6 {
			times = append(times, time.Duration((middle+rng.Float64())*float64(time.Millisecond)))
		}
		rounds = append(rounds, times)
	}
	return rounds
}

// Of 200 samples of 30 rounds, about 95 % have the true median in their interval. An interval
// that took the durations of a round for independent ones would have it in about 60 %.
func TestIntervalsHaveTheTrueQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 200 {
		i := QuantileInterval(roundsOf(rng, 30), 50)
		if i == nil || i.Low > i.High {
			t.Fatalf("%+v", i)
		}
		if i.Low <= 50.5 && 50.5 <= i.High {
			covered++
		}
	}
	if covered < 178 || covered > 199 {
		t.Errorf("%d of 200 intervals have the true median, want about 190", covered)
	}
}

// More rounds have a narrower interval, equal rounds a width of zero, and few rounds none.
func TestIntervalsNarrowWithRounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	width := func(i *Interval) float64 { return i.High - i.Low }
	few, many := QuantileInterval(roundsOf(rng, 10), 50), QuantileInterval(roundsOf(rng, 400), 50)
	if width(many) <= 0 || 3*width(many) > width(few) {
		t.Errorf("10 rounds: %+v, 400 rounds: %+v", few, many)
	}
	same := [][]time.Duration{{time.Millisecond}, {time.Millisecond}, {}, {time.Millisecond}, {time.Millisecond}, {time.Millisecond}}
	if i := QuantileInterval(same, 99); i == nil || *i != (Interval{1, 1}) {
		t.Errorf("five equal rounds: %+v", i)
	}
	if i := QuantileInterval(same[:5], 50); i != nil {
		t.Errorf("four rounds: %+v, want none", i)
	}
}
