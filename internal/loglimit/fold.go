package loglimit

import (
	"sync"
	"time"
)

// FoldPeriod is how often a Folder lets one kind of line pass.
const FoldPeriod = time.Minute

// foldKinds bounds the kinds that a Folder distinguishes; all further ones count as one kind.
const foldKinds = 64

// Folder folds lines that repeat: of each kind, it lets one line per FoldPeriod pass. Its zero value
// is ready. It is safe for concurrent use.
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
