// Package spacetime draws the recording of a run as a space-time diagram, in one page of HTML that
// loads nothing: a lane for each node with its views, leases and shards, time from left to right,
// and messages between the lanes. A script of the page zooms, filters and shows details.
package spacetime

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness/page"
	"github.com/peerage-go/peerage/internal/sim/record"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// Fact is a figure of the run, in the head of the page.
type Fact struct{ Name, Value string }

// Page is a run to draw.
type Page struct {
	Title string
	// Facts are figures of the run, About are sentences about it. Failure is why the run failed,
	// "" if it did not.
	Facts     []Fact
	About     []string
	Failure   string
	Command   string
	Recording *record.Recording
}

// view is what the template shows.
type view struct {
	*Page
	Verdict, Sign, LeftOut string
	CSS                    template.CSS
	JS                     template.JS
	Texts                  template.JS
	Diagram                template.HTML
	Messages, Bars         []kind
	Events                 []event
}

// event is a row of the list beside the diagram.
type event struct {
	// At is the time in milliseconds, Class the kind of event.
	At                      float64
	Time, Host, Text, Class string
}

// Write writes the page of a run.
func Write(w io.Writer, p *Page) error {
	l := newLayout(p.Recording)
	texts, err := json.Marshal(collectTexts(l))
	if err != nil {
		return err
	}
	v := &view{
		Page: p, Verdict: "PASS", Sign: "✓", CSS: template.CSS(page.Style() + pageCSS), JS: template.JS(pageJS), Texts: template.JS(texts),
		Diagram: drawRun(l), Messages: countMessages(p.Recording), Bars: barLegend, Events: listEvents(p.Recording), LeftOut: describeLeftOut(p.Recording),
	}
	if p.Failure != "" {
		v.Verdict, v.Sign = "FAIL", "✗"
	}
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, v)
}

// Save writes the page of a run to a file.
func Save(file string, p *Page) error {
	var b strings.Builder
	if err := Write(&b, p); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o666)
}

// texts are the texts of messages and handlers, in the order in which they are drawn.
type texts struct {
	// Arrived and Lost have a list for each class of message.
	Arrived, Lost [record.Classes][]string
	Handlers      []string
}

func collectTexts(l *layout) (t texts) {
	for i := range l.rec.Messages {
		m := &l.rec.Messages[i]
		if m.Handled < 0 {
			t.Lost[m.Class] = append(t.Lost[m.Class], m.Text)
			continue
		}
		t.Arrived[m.Class] = append(t.Arrived[m.Class], m.Text)
	}
	for i := range l.rec.Handlers {
		h := &l.rec.Handlers[i]
		t.Handlers = append(t.Handlers, fmt.Sprintf("entity %d of shard %s handles: %s", h.Entity, l.rec.Bars[h.Bar].Name, h.Text))
	}
	return t
}

// countMessages returns the kinds of messages with their counts.
func countMessages(rec *record.Recording) []kind {
	kinds := messageKinds
	for i := range rec.Messages {
		kinds[rec.Messages[i].Class].Count++
	}
	return kinds[:]
}

// barLegend explains what else is drawn.
var barLegend = []kind{
	{Class: "view", Text: "the view that a node holds: its number and members (* joins, - leaves)"},
	{Class: "life", Text: "a process runs"},
	{Class: "lease", Text: "its lease: it may act"},
	{Class: "leader", Text: "lease of the leader"},
	{Class: "shard", Text: "a shard lives here; a tick is a handler of one of its entities"},
	{Class: "pause", Text: "paused or slow"},
	{Class: "cut", Text: "paths from this node are cut"},
}

// listEvents lists the main events of a run: those that were marked, and leases that ended by
// themselves.
func listEvents(rec *record.Recording) (events []event) {
	add := func(at time.Duration, host int, class, text string) {
		events = append(events, event{toMillis(at), fmt.Sprintf("%.3f", at.Seconds()), hostName(host), text, class})
	}
	for i := range rec.Marks {
		if m := &rec.Marks[i]; m.Weight != record.Step {
			add(m.At, m.Host, weightClasses[m.Weight], m.Text)
		}
	}
	for i := range rec.Bars {
		switch b := &rec.Bars[i]; {
		case b.Kind == record.Lease && b.End == "expired":
			add(b.To, b.Host, "ends", "the lease ends: nothing acts here")
		case b.Kind == record.LeaderLease && b.End == "expired":
			add(b.To, b.Host, "ends", "the lease of the leader ends")
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// describeLeftOut describes what is missing, "" if nothing is.
func describeLeftOut(rec *record.Recording) string {
	var parts []string
	if n := rec.MessagesLeftOut; n > 0 {
		parts = append(parts, fmt.Sprintf("the oldest %d messages", n))
	}
	if n := rec.OthersLeftOut; n > 0 {
		parts = append(parts, fmt.Sprintf("the newest %d other events", n))
	}
	return strings.Join(parts, " and ")
}
