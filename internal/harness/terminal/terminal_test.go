package terminal

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// screenOf returns a live screen whose size the test sets.
func screenOf(out *bytes.Buffer, width, height *int) *Screen {
	return &Screen{out: out, live: true, colour: true, size: func() (int, int) { return *width, *height }}
}

// A picture never has a line that wraps, nor more lines than the terminal.
func TestPicturesFitTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {60, 20}, {20, 5}} {
		var out bytes.Buffer
		width, height := size[0], size[1]
		s := screenOf(&out, &width, &height)
		lines := make([]string, 30)
		for i := range lines {
			lines[i] = s.Paint(Red, strings.Repeat("ü", 100))
		}
		s.Draw(lines)
		got := strings.Split(strings.TrimSuffix(visible(out.String()), "\n"), "\n")
		if len(got) != height-1 {
			t.Errorf("%v: %d lines", size, len(got))
		}
		for _, line := range got {
			if n := len([]rune(line)); n != width-1 {
				t.Errorf("%v: a line of %d columns", size, n)
			}
		}
	}
}

// Lines that stay push the picture down, and a narrower terminal, which has wrapped the
// picture, is cleared of all of it.
func TestThePictureIsErasedWhole(t *testing.T) {
	var out bytes.Buffer
	width, height := 80, 24
	s := screenOf(&out, &width, &height)
	s.Draw([]string{strings.Repeat("a", 70), "b"})
	out.Reset()
	s.Print(0, "killed a")
	if got := out.String(); !strings.Contains(got, "\x1b[2A\r\x1b[Kkilled a\n") || !strings.HasSuffix(got, "\x1b[J"+endFrame) || !strings.HasSuffix(visible(got), "killed a\n"+strings.Repeat("a", 70)+"\nb\n") {
		t.Errorf("%q", got)
	}
	width = 40
	out.Reset()
	s.Draw([]string{"c"})
	if got := out.String(); !strings.Contains(got, "\x1b[3A\r\x1b[Kc\n\x1b[J") {
		t.Errorf("at half the width, 2 lines are 3: %q", got)
	}
}

// A screen that is erased from its first line goes into the history of the terminal. So a picture
// is written over the former one, and only what is left below is erased.
func TestPicturesDoNotFillTheHistory(t *testing.T) {
	var out bytes.Buffer
	width, height := 40, 4
	s := screenOf(&out, &width, &height)
	for range 3 {
		s.Draw([]string{"one", "two", "three"})
	}
	s.Print(0, "killed a")
	for frame := range strings.SplitSeq(out.String(), beginFrame) {
		if i := strings.Index(frame, "\x1b[J"); i >= 0 && !strings.HasSuffix(frame[:i], "\n") {
			t.Errorf("the screen is erased where the picture begins: %q", frame)
		}
	}
}

func TestLongLinesWrapBetweenWords(t *testing.T) {
	var out bytes.Buffer
	width, height := 30, 10
	s := screenOf(&out, &width, &height)
	s.Print(4, "0.1 one two three four five six seven eight")
	want := "0.1 one two three four\n    five six seven eight\n"
	if got := visible(out.String()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFlagsAreNotBroken checks that a line is broken before a flag, not at its hyphens.
func TestFlagsAreNotBroken(t *testing.T) {
	var out bytes.Buffer
	width, height := 30, 10
	s := screenOf(&out, &width, &height)
	s.Print(4, "http://127.0.0.1:12345/ (--at-once)")
	if got, want := visible(out.String()), "http://127.0.0.1:12345/\n    (--at-once)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAPipeGetsNoEscapes(t *testing.T) {
	var out bytes.Buffer
	s := New(&out)
	s.Draw([]string{"picture"})
	s.Print(2, s.Paint(Red, strings.Repeat("long ", 40)))
	if want := strings.Repeat("long ", 40) + "\n"; s.Live() || out.String() != want || s.Width() != plainWidth {
		t.Errorf("live %v, %q", s.Live(), out.String())
	}
}

func TestSilenceIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewPulse(&out, 4*time.Second)
		<-time.After(3 * time.Second)
		_, _ = p.Write([]byte("a line\n"))
		<-time.After(9 * time.Second)
		synctest.Wait()
		p.Stop()
		<-time.After(time.Minute)
		if got := out.String(); got != "a line\n   7.00s  still running\n  11.00s  still running\n" {
			t.Errorf("%q", got)
		}
	})
}

// visible removes what moves the cursor and paints.
func visible(text string) string {
	for _, code := range []string{beginFrame, endFrame, "\r", "\x1b[J", "\x1b[K", string(Red), noColour} {
		text = strings.ReplaceAll(text, code, "")
	}
	for _, n := range []string{"1", "2", "3"} {
		text = strings.ReplaceAll(text, "\x1b["+n+"A", "")
	}
	return text
}
