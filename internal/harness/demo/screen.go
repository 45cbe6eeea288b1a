package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	screenEvery = 100 * time.Millisecond
	plainEvery  = time.Second
)

// screen shows a running demo: a table that is redrawn in place on a terminal,
// and a plain line a second when the output is piped.
type screen struct {
	out     io.Writer
	cluster *cluster
	live    bool
	began   time.Time

	mu       sync.Mutex
	drawn    int // lines of the table that stand on the terminal
	before   map[string]uint64
	beforeAt time.Time

	once sync.Once
	quit chan struct{}
	done chan struct{}
}

func newScreen(out io.Writer, c *cluster) *screen {
	f, ok := out.(*os.File)
	s := &screen{
		out: out, cluster: c, began: time.Now(),
		live:   ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb",
		before: map[string]uint64{}, beforeAt: time.Now(),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go s.loop()
	return s
}

func (s *screen) loop() {
	defer close(s.done)
	every := plainEvery
	if s.live {
		every = screenEvery
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

// close stops drawing and leaves the last picture on the screen.
func (s *screen) close() {
	s.once.Do(func() { close(s.quit) })
	<-s.done
}

// event shows a line that stays.
func (s *screen) event(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%6.2fs  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
	s.erase()
	fmt.Fprintln(s.out, s.paint("\x1b[1m", line))
}

func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *screen) paint(colour, text string) string {
	if !s.live {
		return text
	}
	return colour + text + "\x1b[0m"
}

func (s *screen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.rows()
	if len(rows) == 0 {
		return
	}
	if !s.live {
		fmt.Fprintf(s.out, "%6.2fs  %s\n", time.Since(s.began).Seconds(), plain(rows))
		return
	}
	s.erase()
	s.drawn = len(rows) + 1
	fmt.Fprint(s.out, s.table(rows))
}

// barCells is the width of the widest bar of shards, each cell of which stands for
// shardsPerCell. The lines then have at most 80 columns: a line that wraps would not be erased.
const (
	barCells      = 8
	shardsPerCell = 8
)

// table returns the header and a line for each row.
func (s *screen) table(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-5s %-9s %-7s %6s %9s %8s %8s %9s\n",
		"node", "state", "members", "shards", "entities", "asks/s", "retries", "given up")
	for _, r := range rows {
		colour := "\x1b[32m"
		switch {
		case r.state == "killed":
			colour = "\x1b[31m"
		case r.state != "leader" && r.state != "up":
			colour = "\x1b[33m"
		}
		fmt.Fprintf(&b, "  %-5s %s %7d %6d %9d %8.0f %8d %9d  %s\n", r.name, s.paint(colour, fmt.Sprintf("%-9s", r.state)),
			r.members, r.shards, r.entities, r.rate, r.tries, r.gaveUp, s.paint("\x1b[36m", bar(r.shards)))
	}
	return b.String()
}

// bar returns a cell for every shardsPerCell shards, rounded up.
func bar(shards int) string {
	return strings.Repeat("▇", min((shards+shardsPerCell-1)/shardsPerCell, barCells))
}

// row is a node's line.
type row struct {
	name, state               string
	members, shards, entities int
	rate                      float64
	tries, gaveUp             uint64
}

func (s *screen) rows() []row {
	now := time.Now()
	seconds := now.Sub(s.beforeAt).Seconds()
	s.beforeAt = now
	var rows []row
	for _, p := range s.cluster.started() {
		r, alive := p.Snapshot()
		if !alive {
			rows = append(rows, row{name: p.Name, state: "killed"})
			continue
		}
		out := row{name: p.Name, state: "up", members: r.Members, shards: r.Shards, entities: r.Entities}
		switch {
		case r.Members == 0:
			out.state = "joining"
		case !r.Lease:
			out.state = "paused"
		case r.Leader:
			out.state = "leader"
		}
		out.rate = float64(r.Load.Answered-s.before[p.Name]) / seconds
		s.before[p.Name] = r.Load.Answered
		for _, n := range r.Load.Tries {
			out.tries += n
		}
		out.gaveUp = r.Load.GaveUp
		rows = append(rows, out)
	}
	return rows
}

func plain(rows []row) string {
	var parts []string
	for _, r := range rows {
		if r.state == "killed" {
			parts = append(parts, r.name+" killed")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s shards=%d entities=%d asks/s=%.0f retries=%d given-up=%d",
			r.name, r.state, r.shards, r.entities, r.rate, r.tries, r.gaveUp))
	}
	return strings.Join(parts, " | ")
}
