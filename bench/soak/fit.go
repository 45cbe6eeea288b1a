package main

import (
	"math"
	"slices"
)

// Verdict is what a run shows of a figure.
type Verdict string

// The verdicts. Unknown is that of a run that is too short, or too noisy, to tell.
const (
	Pass    Verdict = "PASS"
	Fail    Verdict = "FAIL"
	Unknown Verdict = "UNKNOWN"
)

// trend is a straight line through a figure, by least squares.
type trend struct {
	// slope is per hour, err its standard error; mean is that of the points, and hours the
	// time that the samples span.
	slope, err, mean, hours float64
	points                  int
	// late is the line through the second half of the points, nil if these are too few.
	late *trend
}

const (
	// blocksMax is how many points a line is fitted to, each the lowest or the mean of at
	// least blockMin neighbours. Samples that lie close together depend on each other; the
	// points do so less.
	blocksMax, blockMin = 30, 3
	// pointsMin is the least number of points with a verdict.
	pointsMin = 8
	// errorsFail and errorsPass are quantiles of the normal distribution, one in 1,000 and one in
	// 40, for the slope of a figure that does not grow, and of one that grows by the allowance.
	errorsFail, errorsPass = 3.09, 1.96
)

// fitTrend fits a line to samples at instants, in hours. Each point is one value for a block of
// neighbours, as reduce returns it.
func fitTrend(hours, values []float64, reduce func([]float64) float64) trend {
	t, v := inBlocks(hours, meanOf), inBlocks(values, reduce)
	l := fitPoints(t, v)
	if l.points >= pointsMin {
		l.hours = hours[len(hours)-1] - hours[0]
	}
	if half := len(t) / 2; len(t)-half >= pointsMin {
		late := fitPoints(t[half:], v[half:])
		l.late = &late
	}
	return l
}

// fitPoints fits a line to points.
func fitPoints(t, v []float64) trend {
	l := trend{points: len(t)}
	if len(t) < pointsMin {
		return l
	}
	l.mean = meanOf(v)
	meanT := meanOf(t)
	var tt, tv, rest, next float64
	for i := range t {
		tt += (t[i] - meanT) * (t[i] - meanT)
		tv += (t[i] - meanT) * (v[i] - l.mean)
	}
	l.slope = tv / tt
	last := 0.0
	for i := range t {
		d := v[i] - l.mean - l.slope*(t[i]-meanT)
		rest += d * d
		next += d * last
		last = d
	}
	l.err = math.Sqrt(rest / float64(len(t)-2) / tt)
	if rest > 0 {
		// Neighbours that deviate alike are worth fewer points than there are: the error of a line
		// through deviations of which each has a part of the one before.
		alike := min(max(next/rest, 0), 0.9)
		l.err *= math.Sqrt((1 + alike) / (1 - alike))
	}
	return l
}

// errors returns the quantile of Student's distribution for the slope, from that of the normal
// distribution: few points bound their own noise badly.
func (l trend) errors(z float64) float64 {
	n := float64(l.points - 2)
	z2 := z * z
	return z + z*(z2+1)/(4*n) + z*(5*z2*z2+16*z2+3)/(96*n*n) + z*(3*z2*z2*z2+19*z2*z2+17*z2-15)/(384*n*n*n)
}

// inBlocks reduces runs of neighbours to one value each.
func inBlocks(all []float64, reduce func([]float64) float64) (out []float64) {
	n := len(all)
	blocks := min(n/blockMin, blocksMax)
	for b := range blocks {
		out = append(out, reduce(all[b*n/blocks:(b+1)*n/blocks]))
	}
	return out
}

// lowest reduces a block to its lowest value. Requests in flight, and peers that come and go,
// raise a figure for moments only; a leak raises its lowest values, too.
func lowest(block []float64) float64 { return slices.Min(block) }

func meanOf(block []float64) float64 {
	sum := 0.0
	for _, v := range block {
		sum += v
	}
	return sum / float64(len(block))
}

// growth is by how much the line rises over the samples.
func (l trend) growth() float64 { return l.slope * l.hours }

// startLevel is where the line begins, the mean if it falls.
func (l trend) startLevel() float64 { return l.mean - max(l.growth(), 0)/2 }

// unseen is the largest rise over the samples that the line does not rule out; 0 of too few points.
func (l trend) unseen() float64 {
	if l.points < pointsMin {
		return 0
	}
	return l.growth() + l.errors(errorsPass)*l.err*l.hours
}

// verdictWithin returns the verdict on a figure that may grow by an allowance over the samples. The
// figure fails if it rises beyond its noise and by more than the allowance, and goes on to do so. It
// passes if a rise by more than the allowance is ruled out.
func (l trend) verdictWithin(allowance float64) Verdict {
	switch {
	case l.points < pointsMin:
		return Unknown
	case l.slope > l.errors(errorsFail)*l.err && l.growth() > allowance && !l.settles():
		return Fail
	case l.unseen() <= allowance:
		return Pass
	}
	return Unknown
}

// settles reports whether the second half of the samples rules out half the slope: what fills up at
// first, such as a ring of past events, grows no longer once it is full, and a leak goes on.
func (l trend) settles() bool {
	return l.late != nil && l.late.slope+l.late.errors(errorsPass)*l.late.err < l.slope/2
}
