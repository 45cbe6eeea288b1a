package transport

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Lines about strangers and refusals are written at most logBurst times per
// logPeriod: whoever can reach the port could fill the disk otherwise, and a
// refused node tries again every second. What was left out is counted on the next
// line that is written.
const (
	logBurst  = 20
	logPeriod = 10 * time.Second
)

// limitedLogger is a slog.Logger with a budget.
type limitedLogger struct {
	log *slog.Logger

	mu         sync.Mutex
	since      time.Time
	lines      int
	suppressed int
}

func newLimitedLogger(l *slog.Logger) *limitedLogger { return &limitedLogger{log: l} }

// line writes a line if the level is enabled and the budget allows.
func (l *limitedLogger) line(level slog.Level, msg string, attrs ...slog.Attr) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	suppressed, ok := l.take(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("lines_suppressed", suppressed))
	}
	l.log.LogAttrs(context.Background(), level, msg, attrs...)
}

// take spends one line of the budget, and returns how many were refused before.
func (l *limitedLogger) take(now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= logPeriod {
		l.since, l.lines = now, 0
	}
	if l.lines >= logBurst {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

// refusal writes a line about a handshake that was refused, by us or by them.
func (l *limitedLogger) refusal(msg, addr string, r *refusal) {
	level := slog.LevelWarn
	if r.code == FailSuperseded || r.code == FailForgotten {
		level = slog.LevelInfo // part of ordinary life
	}
	l.line(level, msg, slog.String("addr", addr), slog.String("failure", r.code.String()), slog.String("reason", r.reason))
}
