package gossip

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// bridgeLog makes a logger for memberlist whose lines go to l. What memberlist
// calls an error is at most information to an operator of ours: nothing depends
// on it. Its suspicions are counted on the way; it tells them nowhere else.
func bridgeLog(l *slog.Logger, st *counters) *log.Logger {
	return log.New(&logBridge{l, st}, "", 0)
}

type logBridge struct {
	l  *slog.Logger
	st *counters
}

// Write takes one line. It never fails.
func (b *logBridge) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	level := slog.LevelDebug
	switch {
	case bytes.HasPrefix(text, []byte("[WARN]")), bytes.HasPrefix(text, []byte("[ERR]")):
		level = slog.LevelInfo
	}
	switch {
	case bytes.Contains(text, []byte("Suspect ")):
		b.st.suspicions.Add(1)
	case bytes.Contains(text, []byte("Refuting")):
		b.st.refutations.Add(1)
	case bytes.Contains(text, []byte("keys could decrypt")):
		b.st.undecryptable.Add(1)
	}
	if b.l.Enabled(context.Background(), level) {
		if i := bytes.Index(text, []byte("memberlist: ")); i >= 0 {
			text = text[i+len("memberlist: "):]
		}
		b.l.Log(context.Background(), level, "memberlist: "+string(text))
	}
	return len(line), nil
}
