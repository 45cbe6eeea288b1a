// Package loglimit bounds the log lines that repeat, and those that remote hosts can cause: otherwise
// any host that reaches a port could fill the disk.
package loglimit

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// FoldPeriod is how often a Folder lets one kind of line pass.
const FoldPeriod = time.Minute

// foldKinds bounds the kinds that a Folder distinguishes within a FoldPeriod; all further ones
// count as one kind.
const foldKinds = 64

// Folder folds lines that repeat: of each kind, it lets one line per FoldPeriod pass. Its zero
// value is ready. It is safe for concurrent use.
type Folder struct {
	mu    sync.Mutex
	kinds map[string]*fold
}

type fold struct {
	since  time.Time
	folded int
}

// Take reports whether a line of a kind may be written now. It returns how many of the kind were
// folded since the last one, to be logged with this one.
func (f *Folder) Take(kind string, now time.Time) (folded int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = map[string]*fold{}
	}
	k := f.kinds[kind]
	if k == nil && len(f.kinds) >= foldKinds {
		maps.DeleteFunc(f.kinds, func(_ string, k *fold) bool { return now.Sub(k.since) >= FoldPeriod })
	}
	if k == nil && len(f.kinds) >= foldKinds {
		kind = ""
		k = f.kinds[kind]
	}
	if k == nil {
		f.kinds[kind] = &fold{since: now}
		return 0, true
	}
	if now.Sub(k.since) < FoldPeriod {
		k.folded++
		return 0, false
	}
	folded, k.folded, k.since = k.folded, 0, now
	return folded, true
}

// Log writes a line with l, unless lines of its kind are folded now.
func (f *Folder) Log(l *slog.Logger, level slog.Level, kind, line string, args ...any) {
	folded, ok := f.Take(kind, time.Now())
	if !ok {
		return
	}
	if folded > 0 {
		args = append(args, slog.Int(Folded, folded))
	}
	l.Log(context.Background(), level, line, args...)
}

// Folded is the attribute of a line that counts those of its kind that were folded before it.
const Folded = "lines_folded"
