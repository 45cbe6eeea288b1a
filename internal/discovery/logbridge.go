package discovery

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// bridgeLog returns a logger for memberlist whose lines go to l. Its errors become
// information at most, since membership does not depend on memberlist; and since any
// datagram may cause one, it writes one line a minute of each kind. The bridge also counts memberlist's
// suspicions, which are only visible in its log.
func bridgeLog(l *slog.Logger, st *Counters) *log.Logger {
	return log.New(&logBridge{l: l, st: st}, "", 0)
}

type logBridge struct {
	l     *slog.Logger
	st    *Counters
	lines loglimit.Folder
}

// Write handles one line. It never fails.
func (b *logBridge) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	level := slog.LevelDebug
	switch {
	case bytes.HasPrefix(text, []byte("[WARN]")), bytes.HasPrefix(text, []byte("[ERR]")):
		level = slog.LevelInfo
	}
	switch {
	case bytes.Contains(text, []byte("Suspect ")):
		b.st.Suspicions.Add(1)
	case bytes.Contains(text, []byte("Refuting")):
		b.st.Refutations.Add(1)
	case bytes.Contains(text, []byte("keys could decrypt")):
		b.st.Undecryptable.Add(1)
	case level > slog.LevelDebug && bytes.Contains(text, []byte(" from=")) && !bytes.Contains(text, []byte("ailed to send")):
		b.st.PacketsNotOurs.Add(1)
	}
	if !b.l.Enabled(context.Background(), level) {
		return len(line), nil
	}
	var attrs []slog.Attr
	if level > slog.LevelDebug {
		folded, ok := b.lines.Take(lineKind(text), time.Now())
		if !ok {
			return len(line), nil
		}
		if folded > 0 {
			attrs = append(attrs, slog.Int(loglimit.Folded, folded))
		}
	}
	if i := bytes.Index(text, []byte("memberlist: ")); i >= 0 {
		text = text[i+len("memberlist: "):]
	}
	b.l.LogAttrs(context.Background(), level, "memberlist: "+string(text), attrs...)
	return len(line), nil
}

// lineKind returns the part of a line before its first name, number or cause: lines of memberlist
// differ after that.
func lineKind(text []byte) string {
	_, rest, _ := bytes.Cut(text, []byte("memberlist: "))
	if i := bytes.IndexAny(rest, `0123456789":=`); i >= 0 {
		rest = rest[:i]
	}
	return string(rest)
}
