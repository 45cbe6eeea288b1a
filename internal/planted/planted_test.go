package planted

import (
	"fmt"
	"testing"
)

// recorder is a testing.TB that keeps what a test reports.
type recorder struct {
	testing.TB
	failed, logged string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.failed = fmt.Sprintf(f, a...) }
func (r *recorder) Logf(f string, a ...any)   { r.logged = fmt.Sprintf(f, a...) }
func (r *recorder) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func TestABugCountsAsCaughtIfItWasReachedAndDetected(t *testing.T) {
	for _, c := range []struct {
		name           string
		play           func() string
		failed, logged string
	}{
		{"caught", func() string { On("bug"); return "two homes" }, "", `planted: caught "bug": two homes`},
		{"not detected", func() string { On("bug"); return "" }, `planted: "bug" was not caught`, ""},
		{"not reached", func() string { On("another"); return "two homes" }, `planted: no switch of "bug" was reached`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			MustCatch(r, "bug", c.play)
			if r.failed != c.failed || r.logged != c.logged {
				t.Errorf("failed with %q, logged %q", r.failed, r.logged)
			}
		})
	}
}

func TestOnlyThePlantedBugIsOnAndOnlyWhileItIsPlayed(t *testing.T) {
	MustCatch(&recorder{TB: t}, "bug", func() string {
		if !On("bug") || On("another") {
			t.Error("the wrong bug is on")
		}
		Without(func() {
			if On("bug") {
				t.Error("the bug is on without it")
			}
		})
		if !On("bug") {
			t.Error("the bug did not come back")
		}
		return "found"
	})
	if On("bug") {
		t.Error("the bug is on after the play")
	}
}

func TestTwoBugsAreNeverOnTogether(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second bug was planted")
		}
		if current.Load() != nil {
			t.Error("a bug is left")
		}
	}()
	MustCatch(&recorder{TB: t}, "one", func() string {
		MustCatch(&recorder{TB: t}, "two", func() string { return "found" })
		return "found"
	})
}
