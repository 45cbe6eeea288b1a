package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/seed"
)

// keepsDeletions is a run whose deletions are kept for a short time, after which files that were
// away are set aside.
func keepsDeletions(c *seed.Config) {
	c.Disks, c.Requests, c.Retain, c.PruneEvery = true, true, 320*time.Millisecond, 10*time.Millisecond
}

// A word that only the file of a host has is lost if other hosts found the cluster anew and run
// for longer than Retain before the host is back: its file is set aside (seed 1116540). A word
// that a second file should have is not excused.
func TestWordsOfAFileThatWasSetAside(t *testing.T) {
	w := newWorld(t, keepsDeletions)
	w.kill(1)
	w.kill(2)
	w.install(0)
	if err := w.write(t, 0, "alone"); err != nil {
		t.Fatal(err)
	}
	last := w.nodes[0].p.ID()
	w.kill(0)
	w.start(1)
	w.start(2)
	w.install(1, 2)
	for _, remove := range []bool{false, true} {
		if err := w.writeLocal(t, 1, keyKept+"0", remove); err != nil {
			t.Fatal(err)
		}
	}
	w.play(2 * time.Second)
	w.start(0)
	w.install()
	w.storage.CheckLiveness(w.all())
	counts := w.run.Coverage.Counts()
	if counts[coverage.PutAside.String()] != 1 || counts[coverage.WordsKept.String()] == 0 {
		t.Fatalf("no file was set aside, or the words were not checked: %v", counts)
	}
	if held := w.nodes[1].node.Store(0).heldWords(); held("alone") {
		t.Fatal("the word is held: nothing was excused")
	}
	w.storage.words[0].Acked("alone", nil, []gossip.NodeID{last, w.nodes[1].p.ID(), w.nodes[2].p.ID()})
	if what := failure(func() { w.storage.CheckLiveness(w.all()) }); !strings.Contains(what, "alone") {
		t.Errorf("one of three voters has set a word aside, two have lost it, and the run stops with %q", what)
	}
}

// A word that comes back to the host that had set it aside is no longer excused there.
func TestAWordThatComesBackIsNoLongerSetAside(t *testing.T) {
	w := newWorld(t, keepsDeletions)
	if err := w.write(t, 0, "kept"); err != nil {
		t.Fatal(err)
	}
	w.play(2 * time.Second)
	d, id := w.nodes[0].node.Store(0), w.nodes[0].p.ID()
	aside := w.storage.Disks.wordsSetAside(0)
	d.disk.putAside()
	if !aside(id, "kept") || aside(id, "never written") || aside(w.nodes[1].p.ID(), "kept") || aside(99, "kept") {
		t.Error("a word of the file was not set aside, or another was")
	}
	d.disk.save() // the core holds it
	if aside(id, "kept") || !w.stored(0) {
		t.Errorf("the word is in the file %v, and set aside %v", w.stored(0), aside(id, "kept"))
	}
}

// A file that was not away for Retain must be merged.
func TestAFileThatIsSetAsideTooEarly(t *testing.T) {
	w := newWorld(t, keepsDeletions)
	if err := w.write(t, 0, "kept"); err != nil {
		t.Fatal(err)
	}
	if what := failure(func() { w.nodes[0].node.Store(0).disk.putAside() }); !strings.Contains(what, "Retain is 320ms") {
		t.Errorf("a file of a member is set aside, and the run stops with %q", what)
	}
}
