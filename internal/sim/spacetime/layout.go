package spacetime

import (
	"cmp"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/sim/record"
)

// The measures of the diagram, in units of its view box.
const (
	// width is that of the diagram, gutter that of the names of the hosts on its left.
	width, gutter = 1200.0, 30.0
	// headHeight is the height of the axis and of the lane of the whole run.
	headHeight = 46.0
	// viewHeight and lineHeight are those of the views and of the line of a host; messages begin
	// and end in the middle of the line.
	viewHeight, lineHeight, laneGap = 13.0, 15.0, 15.0
	// cutHeight is that of the strip that shows broken paths.
	cutHeight = 4.0
)

// hostLane is one host in the diagram.
type hostLane struct {
	host int
	// top is its upper edge, line the middle of the line of its process, rows the upper edge of
	// the rows of its shards, and bottom its lower edge.
	top, line, rows, bottom float64
}

// layout has the place of everything in the diagram.
type layout struct {
	rec   *record.Recording
	lanes []hostLane
	// row is the row of each bar of a shard, by index of the bar.
	row       map[int]int
	rowHeight float64
	height    float64
	// number is the number of each view, in the order in which they came.
	number map[string]int
}

// shades is how many shades views have: views that follow each other differ.
const shades = 4

func newLayout(rec *record.Recording) *layout {
	l := &layout{rec: rec, row: map[int]int{}, number: map[string]int{}}
	for i := range rec.Bars {
		if b := &rec.Bars[i]; b.Kind == record.View {
			if _, seen := l.number[b.Group]; !seen {
				l.number[b.Group] = len(l.number) + 1
			}
		}
	}
	rows, all := make([]int, rec.Hosts), 0
	for host := range rows {
		rows[host] = l.packShards(host)
		all += rows[host]
	}
	switch {
	case all <= 24:
		l.rowHeight = 13
	case all <= 60:
		l.rowHeight = 9
	default:
		l.rowHeight = 5
	}
	y := headHeight
	for host, n := range rows {
		at := hostLane{host: host, top: y}
		at.line = y + cutHeight + viewHeight + lineHeight/2
		at.rows = y + cutHeight + viewHeight + lineHeight + 2
		at.bottom = at.rows + float64(n)*l.rowHeight
		l.lanes = append(l.lanes, at)
		y = at.bottom + laneGap
	}
	l.height = y
	return l
}

// packShards gives each shard of a host the first row that is free, and returns the number of
// rows.
func (l *layout) packShards(host int) int {
	var bars []int
	for i := range l.rec.Bars {
		if b := &l.rec.Bars[i]; b.Kind == record.Shard && b.Host == host {
			bars = append(bars, i)
		}
	}
	slices.SortStableFunc(bars, func(i, j int) int {
		a, b := &l.rec.Bars[i], &l.rec.Bars[j]
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Group, b.Group))
	})
	var ends []time.Duration
	for _, i := range bars {
		b := &l.rec.Bars[i]
		n := slices.IndexFunc(ends, func(end time.Duration) bool { return end <= b.From })
		if n < 0 {
			n, ends = len(ends), append(ends, 0)
		}
		l.row[i], ends[n] = n, b.To
	}
	return len(ends)
}

// boxOf returns the upper edge and the height of a bar.
func (l *layout) boxOf(i int) (y, height float64) {
	b := &l.rec.Bars[i]
	at := &l.lanes[b.Host]
	switch b.Kind {
	case record.Cut:
		return at.top, cutHeight - 1
	case record.View:
		return at.top + cutHeight, viewHeight - 1
	case record.Shard:
		return at.rows + float64(l.row[i])*l.rowHeight, l.rowHeight - 1
	case record.Pause, record.Slow:
		return at.top + cutHeight, at.bottom - at.top - cutHeight
	case record.Lease:
		return at.line - 4, 8
	case record.LeaderLease:
		return at.line - 6, 12
	}
	return at.line - 0.75, 1.5
}

// toMillis returns a time as the x coordinate of the diagram.
func toMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// initialScale returns how wide a millisecond is when the whole run is shown.
func (l *layout) initialScale() float64 { return (width - gutter) / max(toMillis(l.rec.End), 1) }
