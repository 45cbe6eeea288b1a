package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/peerage-go/peerage/internal/clock"
)

// Report is one line that a node process writes for the process that started it.
type Report struct {
	// Kind is "ready" once, then "stats" again and again.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Node is the current incarnation, in hexadecimal.
	Node   string `json:"node"`
	Listen string `json:"listen,omitempty"`
	HTTP   string `json:"http,omitempty"`
	// At is when the report was made, on the boot clock, which all processes of a machine share.
	At clock.Instant `json:"at,omitempty"`

	Members int    `json:"members,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
	// Generation is that of the epoch, WallMillis the node's wall clock, in milliseconds of
	// Unix time.
	Generation uint32 `json:"generation,omitempty"`
	WallMillis int64  `json:"wall_millis,omitempty"`

	Leader   bool `json:"leader,omitempty"`
	Lease    bool `json:"lease,omitempty"`
	Shards   int  `json:"shards,omitempty"`
	Entities int  `json:"entities,omitempty"`

	Load Totals `json:"load"`
	// Cost is what the process has taken since its start; some reports have it.
	Cost *Cost `json:"cost,omitempty"`
}

// Cost is what a process has taken.
type Cost struct {
	// CPUMS is processor time in milliseconds, MemoryBytes what the runtime holds now.
	CPUMS       float64 `json:"cpu_ms"`
	MemoryBytes uint64  `json:"memory_bytes"`
	Goroutines  int     `json:"goroutines,omitempty"`
	// SentBytes and ReceivedBytes are those of the transport and of memberlist.
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
}

// Totals counts what the callers of one process saw since its start.
type Totals struct {
	// Asked counts requests begun, Answered those with an answer, Gave up those
	// whose caller stopped trying.
	Asked    uint64 `json:"asked"`
	Answered uint64 `json:"answered"`
	GaveUp   uint64 `json:"gave_up"`
	// NotSent counts requests that were due while the process had too many in flight,
	// InFlightMost how many it had at the worst moment.
	NotSent      uint64 `json:"not_sent,omitempty"`
	InFlightMost int64  `json:"in_flight_most,omitempty"`
	// Tries counts failed attempts by reason; a caller that retries may still have
	// had its answer.
	Tries map[string]uint64 `json:"tries,omitempty"`
}

// Add adds the counts of o; of the moments with most in flight it keeps the worse one.
func (t *Totals) Add(o Totals) {
	t.Asked += o.Asked
	t.Answered += o.Answered
	t.GaveUp += o.GaveUp
	t.NotSent += o.NotSent
	t.InFlightMost = max(t.InFlightMost, o.InFlightMost)
	for reason, n := range o.Tries {
		if t.Tries == nil {
			t.Tries = map[string]uint64{}
		}
		t.Tries[reason] += n
	}
}

// WriteReport writes one line.
func WriteReport(w io.Writer, r Report) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// ReadReports hands every report of r to got until r ends. A last line that was
// cut off by a kill is left out.
func ReadReports(r io.Reader, got func(Report)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var rep Report
		if err := json.Unmarshal(line, &rep); err != nil {
			return fmt.Errorf("a node wrote %q: %w", line, err)
		}
		got(rep)
	}
}

// HTTPMetadata is the key under which `peerage node` publishes the address of its HTTP API in
// the metadata of its member.
const HTTPMetadata = "http"
