package spacetime

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/sim/record"
)

// kind is a kind of message or of bar, for the legend.
type kind struct {
	// Class is its class in the style sheet, Text its words in the legend.
	Class, Text string
	// Shown is set if the diagram shows the kind until the reader switches it off. Count is how
	// many there are.
	Shown bool
	Count int
}

// messageKinds are the kinds of messages, by class.
var messageKinds = [record.Classes]kind{
	record.Heartbeat:   {"m0", "heartbeats", false, 0},
	record.Membership:  {"m1", "views: joins, proposals, votes, commits", true, 0},
	record.Order:       {"m2", "placement: where shards live", true, 0},
	record.Replication: {"m3", "replicated data", false, 0},
	record.Entity:      {"m4", "messages to entities, and answers", true, 0},
	record.Flow:        {"m5", "flow control and order on routes", false, 0},
	record.State:       {"m6", "states that move with their entities", true, 0},
}

// barClasses are the classes of bars in the style sheet.
var barClasses = map[record.BarKind]string{
	record.Life: "life", record.Lease: "lease", record.LeaderLease: "leader", record.View: "view", record.Shard: "shard",
	record.Pause: "pause", record.Slow: "slow", record.Cut: "cut",
}

// barOrder is the order in which kinds of bars are painted.
var barOrder = []record.BarKind{record.Pause, record.Slow, record.Cut, record.View, record.Life, record.Lease, record.LeaderLease, record.Shard}

// drawing is an SVG under construction.
type drawing struct {
	*layout
	b strings.Builder
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// formatNumber renders a coordinate in few characters.
func formatNumber(x float64) string {
	return strconv.FormatFloat(float64(int64(x*1000+0.5))/1000, 'f', -1, 64)
}

// drawRun returns the diagram of a whole run. Times are x coordinates in milliseconds; the group
// "time" scales them, and the script changes that scale. Marks and texts keep their size: each has
// its time in data-x.
func drawRun(l *layout) template.HTML {
	d := &drawing{layout: l}
	k := formatNumber(l.initialScale())
	d.printf(`<svg id="diagram" viewBox="0 0 %g %s" data-end="%s" data-width="%g" data-gutter="%g" role="img" aria-label="Space-time diagram: a lane for each node, time from left to right">`,
		width, formatNumber(l.height), formatNumber(toMillis(l.rec.End)), width-gutter, gutter)
	d.printf(`<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch" width="1.6" height="5"/></pattern></defs>`)
	for i := range l.lanes {
		at := &l.lanes[i]
		d.printf(`<rect class="lane" x="0" y="%s" width="%g" height="%s"/><text class="host" x="9" y="%s">%c</text>`,
			formatNumber(at.top-3), width, formatNumber(at.bottom-at.top+6), formatNumber(at.line+5), 'a'+at.host)
	}
	d.printf(`<svg x="%g" y="0" width="%g" height="%s" id="window"><g id="axis"></g><g id="time" transform="scale(%s 1)">`, gutter, width-gutter, formatNumber(l.height), k)
	d.drawBars()
	d.drawMessages()
	d.drawHandlers()
	d.printf(`</g><path id="heads"/><g id="labels">`)
	d.drawTexts()
	d.printf(`</g><g id="marks">`)
	d.drawMarks()
	d.printf(`</g></svg></svg>`)
	return template.HTML(d.b.String())
}

// drawBars draws all bars, those of one kind together.
func (d *drawing) drawBars() {
	for _, kind := range barOrder {
		d.printf(`<g class="%s">`, barClasses[kind])
		for i := range d.rec.Bars {
			if d.rec.Bars[i].Kind == kind {
				d.drawBar(i)
			}
		}
		d.printf("</g>\n")
	}
}

func (d *drawing) drawBar(i int) {
	b := &d.rec.Bars[i]
	y, height := d.boxOf(i)
	d.printf(`<rect x="%s" y="%s" width="%s" height="%s" data-t="%s"`, formatNumber(toMillis(b.From)), formatNumber(y), formatNumber(toMillis(b.To-b.From)), formatNumber(height), html.EscapeString(describeBar(b)))
	if b.Kind == record.View || b.Kind == record.Shard {
		d.printf(` data-g="%s"`, html.EscapeString(b.Group))
	}
	if b.Kind == record.View {
		d.printf(` class="v%d"`, d.number[b.Group]%shades)
	}
	d.printf("/>")
}

// describeBar describes a bar in words.
func describeBar(b *record.Bar) string {
	text := b.Text
	switch b.Kind {
	case record.Lease:
		text = "lease of a member: it may act"
	case record.LeaderLease:
		text = "lease of the leader"
	}
	text += fmt.Sprintf("\n%s to %s, %s", clockText(b.From), clockText(b.To), (b.To - b.From).Round(time.Millisecond/10))
	if b.End != "" {
		text += "\nends: " + b.End
	}
	return text
}

// clockText renders a time of the run.
func clockText(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// drawMessages draws a path for each class of messages, and one for those that never arrived. The
// numbers in the paths are also the data of the script, which lists the texts in the same order.
func (d *drawing) drawMessages() {
	for class := range record.Classes {
		hidden := ""
		if !messageKinds[class].Shown {
			hidden = ` style="display:none"`
		}
		var arrived, lost strings.Builder
		for i := range d.rec.Messages {
			m := &d.rec.Messages[i]
			from, to := d.lanes[m.From].line, d.lanes[m.To].line
			switch {
			case m.Class != class:
			case m.Handled >= 0:
				fmt.Fprintf(&arrived, "M%s %sL%s %s", formatNumber(toMillis(m.Sent)), formatNumber(from), formatNumber(toMillis(m.Handled)), formatNumber(to))
			default:
				fmt.Fprintf(&lost, "M%s %sV%s", formatNumber(toMillis(m.Sent)), formatNumber(from), formatNumber(from+(to-from)*lostLength))
			}
		}
		d.printf(`<g class="m m%d" id="m%d"%s><path d="%s"/><path class="lost" d="%s"/></g>`+"\n", class, class, hidden, arrived.String(), lost.String())
	}
}

// lostLength is how much of the way the line of a message has that never arrived.
const lostLength = 0.3

// drawHandlers draws a tick in the bar of its shard for each handler.
func (d *drawing) drawHandlers() {
	d.printf(`<path id="handlers" d="`)
	for i := range d.rec.Handlers {
		h := &d.rec.Handlers[i]
		y, height := d.boxOf(h.Bar)
		d.printf("M%s %sv%s", formatNumber(toMillis(h.At)), formatNumber(y+1), formatNumber(height-2))
	}
	d.printf(`"/>`)
}

// drawTexts writes the names of views and shards into their bars. The script shows those that
// have room.
func (d *drawing) drawTexts() {
	for i := range d.rec.Bars {
		b := &d.rec.Bars[i]
		if b.Name == "" || b.Kind == record.Life || b.Kind == record.Shard && d.rowHeight < 9 {
			continue
		}
		y, height := d.boxOf(i)
		name := b.Name
		if b.Kind == record.View {
			name = fmt.Sprintf("%d: %s", d.number[b.Group], b.Name)
		}
		d.printf(`<text class="in" data-x="%s" data-w="%s" y="%s" visibility="hidden">%s</text>`, formatNumber(toMillis(b.From)), formatNumber(toMillis(b.To-b.From)), formatNumber(y+height-2.5), html.EscapeString(name))
	}
}

// glyphs are the shapes of marks: a cross for the end of a process, a triangle for other faults,
// an arrow for a start, a dot for the rest.
func glyph(m *record.Mark) string {
	switch {
	case m.Kind == "crashed":
		return "M-5-5L5 5M5-5L-5 5"
	case m.Weight == record.Fault:
		return "M-5-9H5L0 0Z"
	case m.Kind == "started":
		return "M-3-5L5 0L-3 5Z"
	case m.Weight == record.Main:
		return "M0-4A4 4 0 1 1 0 4A4 4 0 1 1 0-4"
	}
	return "M0-2A2 2 0 1 1 0 2A2 2 0 1 1 0-2"
}

// weightClasses are the classes of marks in the style sheet.
var weightClasses = map[record.Weight]string{record.Step: "step", record.Main: "main", record.Fault: "fault", record.Failure: "failure"}

// drawMarks draws the marks, each at the line of its host or at the top.
func (d *drawing) drawMarks() {
	for i := range d.rec.Marks {
		m := &d.rec.Marks[i]
		y, x := 34.0, formatNumber(toMillis(m.At))
		if m.Host >= 0 {
			y = d.lanes[m.Host].line
		}
		if m.Weight == record.Failure {
			d.printf(`<g class="failure" data-x="%s" data-t="%s"><path d="M0 18V%s"/><path class="head" d="M-7 14H7L0 26Z"/></g>`, x, html.EscapeString(m.Text), formatNumber(d.height))
			continue
		}
		kind := weightClasses[m.Weight]
		if m.Kind == "crashed" {
			kind += " crash"
		}
		d.printf(`<g class="%s" data-x="%s" data-y="%s" data-t="%s" transform="translate(%s %s)"><path d="%s"/></g>`, kind, x, formatNumber(y),
			html.EscapeString(strings.TrimSpace(hostName(m.Host)+" "+m.Text)+"\n"+clockText(m.At)), formatNumber(toMillis(m.At)*d.initialScale()), formatNumber(y), glyph(m))
	}
}

// hostName returns the name of a host, "" for the whole run.
func hostName(host int) string {
	if host < 0 {
		return ""
	}
	return string(rune('a' + host))
}
