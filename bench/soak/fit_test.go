package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// planted returns n samples over some hours: a level with noise, and bursts that are over
// soon, as requests in flight make them, on which a leak adds so much an hour.
func planted(n int, over, level, noise, perHour float64) (hours, values []float64) {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range n {
		h := over * float64(i) / float64(n-1)
		v := level + noise*rng.Float64() + perHour*h
		if rng.IntN(5) == 0 {
			v += 20 * noise * rng.Float64()
		}
		hours, values = append(hours, h), append(values, v)
	}
	return hours, values
}

func TestALeakFailsAndNoiseDoesNot(t *testing.T) {
	const short, long = 0.025, 3.0 // hours that the samples span
	for name, c := range map[string]struct {
		n                    int
		over, noise, perHour float64
		allowance            float64
		want                 Verdict
	}{
		"flat, short":                      {24, short, 3, 0, 18, Pass},
		"flat, long":                       {2400, long, 3, 0, 9, Pass},
		"a goroutine for each of 30 ended": {24, short, 3, 1200, 18, Fail},
		"ten an hour, long":                {2400, long, 3, 10, 9, Fail},
		"a small leak, short":              {24, short, 3, 10, 18, Pass},
		"shrinks":                          {2400, long, 3, -10, 9, Pass},
		"more noise than it may grow":      {24, short, 200, 0, 18, Unknown},
		"too few samples":                  {21, short, 3, 0, 18, Unknown},
	} {
		hours, values := planted(c.n, c.over, 180, c.noise, c.perHour)
		l := fitTrend(hours, values, lowest)
		if got := l.verdictWithin(c.allowance); got != c.want {
			t.Errorf("%s: %s, want %s; %+v", name, got, c.want, l)
		}
	}
}

// What fills up and then stays is no leak. Whether it grows on cannot be seen while it does.
func TestAFigureThatSettlesDoesNotFail(t *testing.T) {
	for name, c := range map[string]struct {
		until float64 // hours in which it grows, of 3
		want  Verdict
	}{"settles": {1, Unknown}, "grows to the end": {3, Fail}, "grows nearly to the end": {2.5, Fail}} {
		hours, values := planted(600, 3, 1000, 20, 0)
		for i := range values {
			values[i] += 200 * min(hours[i], c.until)
		}
		l := fitTrend(hours, values, lowest)
		if got := l.verdictWithin(50); got != c.want {
			t.Errorf("%s: %s, want %s; %+v, late %+v", name, got, c.want, l, l.late)
		}
	}
}

// A figure that wanders without a trend seldom fails: its neighbours deviate alike, which the error of
// the slope shows.
func TestAFigureThatWandersSeldomFails(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const runs = 1000
	failed, steep := 0, 0
	for range runs {
		var hours, values []float64
		at := 0.0
		for i := range 300 {
			at = 0.95*at + rng.NormFloat64()
			hours, values = append(hours, float64(i)), append(values, at)
		}
		l := fitTrend(hours, values, lowest)
		if l.verdictWithin(0) == Fail {
			failed++
		}
		if l.slope > l.errors(errorsFail)*l.err {
			steep++
		}
	}
	if steep > runs/20 || failed > steep {
		t.Errorf("of %d figures without a trend, %d are steeper than their noise, and %d fail", runs, steep, failed)
	}
}

// The quantiles are those of Student's distribution.
func TestFewPointsNeedMoreErrors(t *testing.T) {
	for points, want := range map[int]float64{8: 5.21, 12: 4.14, 30: 3.41} {
		if got := (trend{points: points}).errors(errorsFail); got < want-0.06 || got > want+0.06 {
			t.Errorf("%d points: %.2f, want %.2f", points, got, want)
		}
	}
}

// A line without noise is found exactly, with no error.
func TestATrendIsTheLineOfItsPoints(t *testing.T) {
	var hours, values []float64
	for i := range 60 {
		hours, values = append(hours, float64(i)), append(values, 5+2*float64(i))
	}
	l := fitTrend(hours, values, meanOf)
	near := func(got, want float64) bool { return got-want < 1e-9 && want-got < 1e-9 }
	if !near(l.slope, 2) || !near(l.err, 0) || !near(l.mean, 64) || !near(l.growth(), 118) || l.points != 20 {
		t.Errorf("the line is %+v, and grows by %v", l, l.growth())
	}
}

// One figure of one node that grows fails the run, and the table shows which.
func TestOneFigureThatGrowsFailsTheRun(t *testing.T) {
	samplesOf := func(leaks int) (all []sample) {
		for i := range 40 {
			s := sample{Hours: float64(i) / 10, LogBytes: float64(i) * 600 * kib}
			for f := range figures {
				v := 1000.0
				if f == leaks {
					v += 50 * float64(i)
				}
				s.Values = append(s.Values, v)
			}
			all = append(all, s)
		}
		return all
	}
	for f := range figures {
		r := &Report{Seconds: (4 * time.Hour).Seconds()}
		r.judgeNode("a", samplesOf(-1))
		if r.Verdict != Pass {
			t.Fatalf("without a leak:\n%s", r)
		}
		leak := f
		if figures[f].atLeast > 1000 {
			continue // in KiB: 2000 of them are within the allowance of this figure
		}
		r.judgeNode("b", samplesOf(leak))
		if out := r.String(); r.Verdict != Fail || strings.Count(out, string(Fail)) != 2 || exitCodes[r.Verdict] != 1 {
			t.Errorf("a leak of %s: %s\n%s", figures[f].name, r.Verdict, out)
		}
	}
}

// The rate of a log that writes more and more grows.
func TestALogThatIsWrittenEverFasterFails(t *testing.T) {
	var all []sample
	for i := range 40 {
		all = append(all, sample{Hours: float64(i) / 10, LogBytes: kib * float64(i*i) * 100, Values: make([]float64, len(figures))})
	}
	r := &Report{Seconds: (4 * time.Hour).Seconds()}
	r.judgeNode("a", all)
	if row := r.Rows[len(r.Rows)-1]; row.Figure != logFigure.name || row.Verdict != Fail {
		t.Errorf("the last row is %+v", row)
	}
}

func TestSoakFlags(t *testing.T) {
	for name, o := range map[string]options{
		"too short":      {lasting: time.Second, nodes: 5, spared: 3},
		"all spared":     {lasting: time.Hour, nodes: 5, spared: 5},
		"all warm-up":    {lasting: time.Hour, warmUp: time.Hour, nodes: 5, spared: 3},
		"too many nodes": {lasting: time.Hour, nodes: 10, spared: 3},
	} {
		if o.complete() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	o := options{lasting: time.Hour, nodes: 5, spared: 3}
	if err := o.complete(); err != nil || o.warmUp != 15*time.Minute || o.seed == 0 {
		t.Errorf("%v, %+v", err, o)
	}
}
