package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/terminal"
)

const (
	pictureEvery = 100 * time.Millisecond
	plainEvery   = 2 * time.Second
	// rateOver is the least time over which rates are taken.
	rateOver = 500 * time.Millisecond
	// barCells is the width of a bar that stands for all shards.
	barCells = 15
	// eventIndent is where the text of an event begins.
	eventIndent = 10
)

// show tells a running demo: lines that stay, and below them a table that is redrawn in place
// on a terminal. Into a pipe it writes the table as a line, now and then.
type show struct {
	screen  *terminal.Screen
	cluster *cluster
	// shards is the number of shards that the counters live in.
	shards int
	began  time.Time

	mu sync.Mutex
	// next is what happens next, and when, zero if that is not fixed.
	next   string
	nextAt time.Time
	rates  map[string]rate

	once sync.Once
	quit chan struct{}
	done chan struct{}
}

// rate is how many answers a second a process has lately.
type rate struct {
	answered  uint64
	at        time.Time
	perSecond float64
}

func newShow(out io.Writer, c *cluster, shards int) *show {
	s := &show{
		screen: terminal.New(out), cluster: c, shards: shards, began: time.Now(), rates: map[string]rate{},
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go s.loop()
	return s
}

func (s *show) loop() {
	defer close(s.done)
	every := plainEvery
	if s.screen.Live() {
		every = pictureEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.draw()
		case <-s.quit:
			return
		}
	}
}

// close stops drawing and leaves the last picture.
func (s *show) close() {
	s.once.Do(func() {
		close(s.quit)
		<-s.done
		s.expect("")
		if s.screen.Live() {
			s.draw()
		}
		s.screen.Keep()
	})
}

// introduce says what is going to happen, for people who have never seen it.
func (s *show) introduce() {
	cfg := &s.cluster.cfg
	asks := float64(cfg.Counters) / cfg.Every.Seconds()
	s.screen.Print(0, s.screen.Fold(s.screen.Paint(terminal.Bold, "Peerage demo")+fmt.Sprintf(": %s processes ask %s counters %s times a second. A counter lives in one process, and moves when that dies. Kill -9 will end %s of the %s.",
		inWords(cfg.Nodes), humanize.Comma(int64(cfg.Counters)), humanize.Comma(int64(asks)), inWords(cfg.Nodes-1), inWords(cfg.Nodes)))+"\n\n")
}

// event writes a line that stays.
func (s *show) event(format string, args ...any) {
	s.screen.Print(eventIndent, fmt.Sprintf("%6.1f s  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...)))
}

// expect sets what stands below the table.
func (s *show) expect(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.nextAt = what, time.Time{}
}

// waitFor lets the processes work until what comes next is due.
func (s *show) waitFor(ctx context.Context, what string, d time.Duration) error {
	s.mu.Lock()
	s.next, s.nextAt = what, time.Now().Add(d)
	s.mu.Unlock()
	return harness.Pause(ctx, d)
}

func (s *show) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.rows()
	if len(rows) == 0 {
		return
	}
	if !s.screen.Live() {
		s.event("%s", plain(rows))
		return
	}
	s.screen.Draw(append(s.table(rows, s.screen.Width()), s.outlook()...))
}

// outlook returns the lines below the table.
func (s *show) outlook() []string {
	switch {
	case s.next == "":
		return nil
	case s.nextAt.IsZero():
		return []string{"", "     now  " + s.next}
	}
	return []string{"", fmt.Sprintf("    next  %s in %.1f s", s.next, max(0, time.Until(s.nextAt).Seconds()))}
}

// narrowWidth is the width below which the table leaves out the entities.
const narrowWidth = 44

// table returns the header and a line for each row, of at most 58 columns. On a narrow terminal
// these are 48, of which all but the bar are in the first 32.
func (s *show) table(rows []row, width int) []string {
	narrow := width < narrowWidth
	line := func(name, state, shards, entities, rate string) string {
		if narrow {
			return fmt.Sprintf("  %-4s  %s  %6s  %6s", name, state, shards, rate)
		}
		return fmt.Sprintf("  %-4s  %s  %6s  %8s  %6s", name, state, shards, entities, rate)
	}
	lines := []string{"", s.screen.Paint(terminal.Dim, line("node", "state  ", "shards", "entities", "asks/s"))}
	for _, r := range rows {
		colour := terminal.Green
		switch r.state {
		case stateKilled:
			lines = append(lines, line(r.name, s.screen.Paint(terminal.Red, fmt.Sprintf("%-7s", r.state)), "-", "-", "-"))
			continue
		case stateJoining, statePaused:
			colour = terminal.Yellow
		}
		state := s.screen.Paint(colour, fmt.Sprintf("%-7s", r.state))
		lines = append(lines, line(r.name, state, humanize.Comma(int64(r.shards)), humanize.Comma(int64(r.entities)), humanize.Comma(int64(r.rate)))+
			"  "+s.screen.Paint(terminal.Cyan, bar(r.shards, s.shards)))
	}
	return lines
}

// bar returns a bar of shards of all, rounded up.
func bar(shards, all int) string {
	return strings.Repeat("█", min((shards*barCells+all-1)/max(all, 1), barCells))
}

// The states of a process.
const (
	stateKilled  = "killed"
	stateJoining = "joining"
	statePaused  = "paused"
	stateLeader  = "leader"
	stateUp      = "up"
)

// row is a node's line.
type row struct {
	name, state      string
	shards, entities int
	rate             float64
}

func (s *show) rows() []row {
	var rows []row
	for _, p := range s.cluster.started() {
		r, alive := p.Snapshot()
		if !alive {
			rows = append(rows, row{name: p.Name, state: stateKilled})
			continue
		}
		rows = append(rows, row{name: p.Name, state: stateOf(r), shards: r.Shards, entities: r.Entities, rate: s.rateOf(p.Name, r.Load.Answered)})
	}
	return rows
}

// stateOf returns the state of a process that has last reported r. Before its first answer it has had
// no lease to lose, so it is joining, and not paused.
func stateOf(r harness.Report) string {
	switch {
	case r.Members == 0 || !r.Lease && r.Load.Answered == 0:
		return stateJoining
	case !r.Lease:
		return statePaused
	case r.Leader:
		return stateLeader
	}
	return stateUp
}

// rateOf returns how many answers a second a process has had since a moment ago.
func (s *show) rateOf(name string, answered uint64) float64 {
	now := time.Now()
	last, known := s.rates[name]
	if !known {
		last = rate{answered: answered, at: now}
	}
	if over := now.Sub(last.at); over >= rateOver {
		last = rate{answered: answered, at: now, perSecond: float64(answered-last.answered) / over.Seconds()}
	}
	s.rates[name] = last
	return last.perSecond
}

func plain(rows []row) string {
	var parts []string
	for _, r := range rows {
		if r.state == stateKilled {
			parts = append(parts, r.name+" killed")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s: %d shards, %.0f asks/s", r.name, r.state, r.shards, r.rate))
	}
	return strings.Join(parts, " | ")
}
