package peeragetest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// ringLines is how many log lines of a node the report of a failure has.
const ringLines = 20

// ring keeps the last log lines of one node. All methods are safe for concurrent use.
type ring struct {
	began time.Time

	mu    sync.Mutex
	lines []string
}

func newRing() *ring { return &ring{began: time.Now()} }

// logger returns a logger that writes into the ring, with times since its start.
func (r *ring) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Duration(slog.TimeKey, a.Value.Time().Sub(r.began).Round(time.Microsecond))
		}
		return a
	}}))
}

// Write adds one line; slog writes each with one call.
func (r *ring) Write(b []byte) (int, error) {
	r.addLine(string(bytes.TrimRight(b, "\n")))
	return len(b), nil
}

// addLine adds a line, and drops the oldest of too many.
func (r *ring) addLine(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == ringLines {
		r.lines = append(r.lines[:0], r.lines[1:]...)
	}
	r.lines = append(r.lines, line)
}

// logStep adds a line about a step of the test.
func (r *ring) logStep(what string) {
	r.logger().Info("peeragetest: " + what)
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return "    (none)"
	}
	return "    " + strings.Join(r.lines, "\n    ")
}
