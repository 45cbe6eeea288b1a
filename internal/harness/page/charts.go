package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
)

// width is that of a chart in units of its own; the browser stretches it.
const width = 1000.0

// family groups the kinds of faults by colour.
func family(k faults.Kind) string {
	switch {
	case k.Kills():
		return "kill"
	case k.BreaksNetwork():
		return "net"
	case k.NeedsFiles():
		return "machine"
	case k == faults.Stop, k == faults.Freeze, k == faults.Slow:
		return "held"
	case k == faults.Drain, k == faults.Restart, k == faults.RestartMany:
		return "orderly"
	}
	return "other"
}

// families are the words for the groups, in the order of the legend.
var families = []struct{ class, text string }{
	{"kill", "killed"}, {"net", "network broken"}, {"held", "paused or slowed"}, {"orderly", "drained or restarted"}, {"machine", "clock or disk"}, {"other", "other"},
}

// timeline is the chart of what users saw.
type timeline struct {
	Faults                  []shade
	Numbers, Labels, Times  []label
	Legend                  []shade
	Area, Share, Rate, Slow string
	Events                  []tick
}

// tick is the mark of an event.
type tick struct {
	X, From, To float64
	Text        string
}

// shade is a fault in a chart, or in its legend.
type shade struct {
	X, Width    float64
	Class, Text string
}

// The lanes of the timeline, from their tops to their bottoms.
const (
	shareTop, shareEnd = 24.0, 92.0
	rateTop, rateEnd   = 124.0, 192.0
	slowTop, slowEnd   = 222.0, 298.0
	// eventsTop is the top of the first row of events, eventRow the height of each.
	eventsTop, eventRow = 308.0, 13.0
	// burstsShown is how many times the load the rate may be that still fits its lane: after
	// a pause, a process catches up with requests that were due.
	burstsShown = 2
	// slowDecades is how many powers of ten the lane of the slowest answer has, from 1 ms.
	slowDecades = 4.0
)

func newTimeline(r *chaos.Report) *timeline {
	bins := r.Timeline
	if len(bins) < 2 {
		return nil
	}
	total := float64(len(bins)) * 100
	t := &timeline{}
	most := 1
	for _, b := range bins {
		most = max(most, b.Answered)
	}
	if r.Load.Target > 0 {
		most = min(most, int(burstsShown*r.Load.Target/10))
	}
	share, rate, slow := &polyline{}, &polyline{}, &polyline{}
	for i, b := range bins[:len(bins)-1] { // the last one is cut short
		x := (float64(i) + 0.5) / float64(len(bins)) * width
		if wanted := b.Wanted(); wanted > 0 {
			share.to(x, shareEnd-(shareEnd-shareTop)*float64(b.Prompt)/float64(wanted))
		}
		rate.to(x, rateEnd-(rateEnd-rateTop)*min(1, float64(b.Answered)/float64(most)))
		slow.bar(x, slowEnd, slowEnd-(slowEnd-slowTop)*decades(b.SlowestMS))
	}
	t.Share, t.Rate, t.Slow = share.String(), rate.String(), slow.String()
	t.Area = share.closed(shareEnd)
	t.Labels = []label{{shareTop, "100 %"}, {shareEnd, "0 %"}, {rateTop, grouped(most * 10)}, {rateEnd, "0"},
		{slowEnd - (slowEnd-slowTop)/slowDecades, "10 ms"}, {slowEnd - 3*(slowEnd-slowTop)/slowDecades, "1 s"}}
	t.addFaults(r, total)
	t.addEvents(r, total)
	return t
}

// decades is the height of a latency in its lane, 0 to 1.
func decades(ms float64) float64 {
	return min(1, max(0.01, math.Log10(max(ms, 1))/slowDecades))
}

// addFaults adds the faults, their numbers and the times.
func (t *timeline) addFaults(r *chaos.Report, total float64) {
	used := map[string]bool{}
	free := 0.0
	for _, f := range r.Faults {
		s := shade{X: f.FromMS / total * width, Width: max(1.5, (f.ToMS-f.FromMS)/total*width), Class: family(f.Kind)}
		s.Text = fmt.Sprintf("round %d: %s, %s until all agreed again", f.Round, f.Detail, harness.FormatMillis(f.ToMS-f.FromMS))
		t.Faults, used[s.Class] = append(t.Faults, s), true
		if at := s.X / width * 100; at >= free {
			t.Numbers, free = append(t.Numbers, label{at, fmt.Sprint(f.Round)}), at+2.6
		}
	}
	for _, f := range families {
		if used[f.class] {
			t.Legend = append(t.Legend, shade{Class: f.class, Text: f.text})
		}
	}
	step := 1000.0
	for _, s := range []float64{2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000} {
		if total/step > 8 {
			step = s
		}
	}
	for at := 0.0; at < total; at += step {
		t.Times = append(t.Times, label{at / total * 100, fmt.Sprintf("%.0f s", at/1000)})
	}
}

// addEvents adds a row of marks for each kind of event that the report has.
func (t *timeline) addEvents(r *chaos.Report, total float64) {
	top := eventsTop - eventRow
	for _, what := range chaos.EventNames() {
		if !slices.ContainsFunc(r.Events, func(e chaos.Event) bool { return e.What == what }) {
			continue
		}
		top += eventRow
		t.Labels = append(t.Labels, label{top + eventRow/2, what})
		for _, e := range r.Events {
			if e.What == what {
				t.Events = append(t.Events, tick{e.AtMS / total * width, top + 2, top + eventRow - 2, fmt.Sprintf("round %d: %s at %s", e.Round, what, harness.FormatMillis(e.AtMS))})
			}
		}
	}
}

// polyline is an SVG path.
type polyline struct {
	b           strings.Builder
	first, last float64
}

func (p *polyline) to(x, y float64) {
	op := "L"
	if p.b.Len() == 0 {
		op, p.first = "M", x
	}
	p.last = x
	fmt.Fprintf(&p.b, "%s%.1f %.1f", op, x, y)
}

func (p *polyline) bar(x, from, to float64) { fmt.Fprintf(&p.b, "M%.1f %.1fV%.1f", x, from, to) }

func (p *polyline) String() string { return p.b.String() }

// closed returns the path with the area down to y.
func (p *polyline) closed(y float64) string {
	if p.b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fZ", p.b.String(), p.last, y, p.first, y)
}

// bar is one kind of kill with the parts of its failover.
type bar struct {
	Kind, N, P50, P99 string
	Rounds            int
	Segments          []segment
	P50At, P99Width   float64
	Parts             []part
}

// segment is a part in a bar, part the same in the table.
type (
	segment struct {
		Index       int
		From, Width float64
		Text        string
	}
	part struct{ P50, P99 string }
)

func newBars(r *chaos.Report) (bars []bar, phases []string) {
	longest := 0.0
	for _, f := range r.Failovers {
		longest = max(longest, f.Total.P99)
		sum := 0.0
		for _, p := range f.Phases {
			sum += p.P50
		}
		longest = max(longest, sum)
	}
	for _, f := range r.Failovers {
		if f.Total.N == 0 {
			continue
		}
		b := bar{
			Kind: chaos.KindText(f.Kind), N: grouped(f.Total.N), Rounds: f.Rounds,
			P50: harness.FormatMillis(f.Total.P50) + harness.FormatInterval(f.P50Interval), P99: harness.FormatMillis(f.Total.P99) + harness.FormatInterval(f.P99Interval),
		}
		from := 0.0
		phases = nil
		for i, p := range f.Phases {
			w := p.P50 / longest * 100
			b.Segments = append(b.Segments, segment{i, from, w, fmt.Sprintf("%s: p50 %s, p99 %s", p.Name, harness.FormatMillis(p.P50), harness.FormatMillis(p.P99))})
			b.Parts = append(b.Parts, part{fmt.Sprintf("%.1f", p.P50), fmt.Sprintf("%.1f", p.P99)})
			from += w
			phases = append(phases, p.Name)
		}
		b.P50At, b.P99Width = from, max(0, f.Total.P99/longest*100-from)
		bars = append(bars, b)
	}
	return bars, phases
}

// curve is a distribution of latencies.
type curve struct{ Path, Class, Text string }

// nines is how many nines the axis of percentiles has.
const nines = 4.0

// newCurves returns the curves, the lines of milliseconds and the labels of percentiles.
func newCurves(r *chaos.Report) (curves []curve, grid, percents []label) {
	const top, bottom = 10.0, 250.0
	height := func(ms float64) float64 { // 0.1 ms to 10 s
		return bottom - (bottom-top)*min(1, max(0, (math.Log10(max(ms, 0.1))+1)/(slowDecades+1)))
	}
	at := func(percent float64) float64 { return min(1, -math.Log10(max(1-percent/100, 1e-9))/nines) }
	for i, l := range latencies(r) {
		p := &polyline{}
		for _, s := range l.of.Curve {
			if s.Percent <= 100-math.Pow(10, 2-nines) {
				p.to(at(s.Percent)*width, height(s.MS))
			}
		}
		if l.of.N > 0 {
			p.to(width, height(l.of.P9999))
			curves = append(curves, curve{p.String(), fmt.Sprintf("curve%d", i), l.name})
		}
	}
	for _, ms := range []float64{0.1, 1, 10, 100, 1000, 10_000} {
		grid = append(grid, label{height(ms), harness.FormatMillis(ms)})
	}
	for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99} {
		percents = append(percents, label{math.Round(1000*at(p)) / 10, fmt.Sprintf("%v %%", p)})
	}
	return curves, grid, percents
}
