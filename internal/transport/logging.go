package transport

import (
	"context"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// limitedLogger is a slog.Logger with a budget, for lines about strangers and refusals:
// a refused node tries again every second.
type limitedLogger struct {
	log    *slog.Logger
	budget loglimit.Budget
}

func newLimitedLogger(l *slog.Logger) *limitedLogger { return &limitedLogger{log: l} }

// line writes a line if the level is enabled and the budget allows.
func (l *limitedLogger) line(level slog.Level, msg string, attrs ...slog.Attr) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	suppressed, ok := l.budget.Take(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("lines_suppressed", suppressed))
	}
	l.log.LogAttrs(context.Background(), level, msg, attrs...)
}

// refusal writes a line about a handshake that this node or its peer refused.
func (l *limitedLogger) refusal(msg, addr string, r *refusal) {
	level := slog.LevelWarn
	if r.code == FailSuperseded || r.code == FailForgotten || r.code == FailDropped {
		level = slog.LevelInfo // part of ordinary life
	}
	l.line(level, msg, slog.String("addr", addr), slog.String("failure", r.code.String()), slog.String("reason", r.reason))
}
