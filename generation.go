package peerage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage/replicator"
)

// generationFile stores an upper bound of the generations that this node has seen. A
// cluster that is formed after all nodes have stopped opens a higher generation, whatever
// the wall clock shows. Tokens rise with generations.
//
// The file is written ahead: it names a generation that is generationsAhead above the one
// seen, and is written again once that is passed. So takeovers seldom wait for the disk,
// and a newly formed cluster may skip that many generations.
//
// Invariant: while no write fails, bound is in the file, and is not below any generation
// that the layers above have received.
type generationFile struct {
	path  string
	log   *slog.Logger
	bound uint32
	// failed is set after a failed write, so that the failure is logged once.
	failed bool
}

const (
	generationName   = "generation"
	generationsAhead = 64
	// generationBytesMax bounds the read: the word, a space, ten digits, a newline.
	generationBytesMax = 22
)

// open reads the file and returns the lowest generation with which a cluster may be formed,
// 0 if there is no file yet. The error names the file.
func (g *generationFile) open(dir string, log *slog.Logger) (floor uint32, err error) {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return 0, fmt.Errorf("%w: DataDir %q is not a directory: create it, or mount its disk (the node does not create it, so that a missing mount is noticed)",
			replicator.ErrDurable, dir)
	}
	g.path, g.log = filepath.Join(dir, generationName), log
	st, err := os.Stat(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil && st.Size() > generationBytesMax {
		err = fmt.Errorf("%d bytes long", st.Size())
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(g.path)
	}
	if err == nil {
		g.bound, err = parseGeneration(string(text))
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %s cannot be used: %w; remove it if another node of the cluster runs, or has its file", replicator.ErrDurable, g.path, err)
	}
	return g.bound + 1, nil
}

// certain returns a generation that this node has seen for certain: the bound without the
// generationsAhead by which it is written ahead.
func (g *generationFile) certain() uint32 { return max(g.bound, generationsAhead) - generationsAhead }

// parseGeneration parses "generation N" and a newline.
func parseGeneration(text string) (uint32, error) {
	digits, ok := strings.CutPrefix(text, generationName+" ")
	digits, whole := strings.CutSuffix(digits, "\n")
	if !ok || !whole {
		return 0, fmt.Errorf("it does not hold one line like %q", generationName+" 7")
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(min(n, 1<<32-2)), err
}

// met makes sure that the file names at least this generation. It blocks for the disk once
// in generationsAhead generations.
func (g *generationFile) met(generation uint32) {
	if g.path == "" || generation <= g.bound {
		return
	}
	bound := max(generation, generation+generationsAhead) // it may overflow
	if err := replaceFile(g.path, fmt.Sprintf("%s %d\n", generationName, bound)); err != nil {
		if !g.failed {
			g.log.Error("cannot write the generation file: tokens may repeat after a stop of all nodes, if the clock is set back; check the disk",
				"file", g.path, "err", err)
		}
		g.failed = true
		return
	}
	g.bound, g.failed = bound, false
}

// replaceFile replaces a file atomically: after a loss of power, it is the old or the new
// one.
func replaceFile(path, text string) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
