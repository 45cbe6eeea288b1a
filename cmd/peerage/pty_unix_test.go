//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/peerage-go/peerage/internal/harness/chaos"
)

// emulator is as much of a terminal as the demo uses: lines, and a cursor that moves up.
type emulator struct {
	columns int
	lines   []string
	row     int
	wrapped []string
}

var escape = regexp.MustCompile("^\x1b\\[([?0-9;]*)([A-Za-z])")

func (e *emulator) write(text string) {
	for len(text) > 0 {
		if code := escape.FindStringSubmatch(text); code != nil {
			text = text[len(code[0]):]
			switch n, _ := strconv.Atoi(code[1]); code[2] {
			case "A":
				e.row = max(0, e.row-n)
			case "J":
				e.lines = e.lines[:min(e.row, len(e.lines))]
			case "K":
				if e.row < len(e.lines) {
					e.lines[e.row] = ""
				}
			}
			continue
		}
		line, rest, found := strings.Cut(text, "\n")
		if at := strings.IndexByte(line, 0x1b); at == 0 {
			at = 1 // an escape of another kind
			text = text[at:]
			continue
		} else if at > 0 {
			line, rest, found = text[:at], text[at:], false
		}
		e.put(strings.ReplaceAll(line, "\r", ""))
		if found {
			e.row++
		}
		text = rest
	}
}

func (e *emulator) put(text string) {
	for len(e.lines) <= e.row {
		e.lines = append(e.lines, "")
	}
	e.lines[e.row] += text
	if len([]rune(e.lines[e.row])) > e.columns {
		e.wrapped = append(e.wrapped, e.lines[e.row])
	}
}

// The demo fits its terminal, in every picture: no line is wider, the table stands there once,
// and the story and the verdict can be read at the end. NO_COLOR takes the colours away.
func TestTheDemoFitsTheTerminal(t *testing.T) {
	for _, size := range []pty.Winsize{{Cols: 80, Rows: 24}, {Cols: 60, Rows: 20}} {
		t.Run(strconv.Itoa(int(size.Cols))+" columns", func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "demo", "--nodes", "3", "--warm-up", "300ms", "--between", "400ms", "--counters", "16", "--shards", "16", "--every", "50ms", "--at-once")
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1")
			if size.Cols == 80 {
				cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
			}
			terminal, err := pty.StartWithSize(cmd, &size)
			if err != nil {
				t.Skipf("there is no terminal to be had: %v", err)
			}
			defer terminal.Close()
			text, _ := io.ReadAll(terminal) // ends with an error when the program closes its side
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if coloured := strings.Contains(string(text), "\x1b[32m"); coloured != (size.Cols == 80) {
				t.Errorf("colours: %v", coloured)
			}
			e := &emulator{columns: int(size.Cols)}
			e.write(string(text))
			if len(e.wrapped) > 0 {
				t.Errorf("these lines are too wide: %q", e.wrapped)
			}
			shown := strings.Join(e.lines, "\n")
			if n := strings.Count(shown, "  node  state "); n != 1 {
				t.Errorf("the table stands there %d times:\n%s", n, shown)
			}
			_, verdict, _ := strings.Cut(shown, "PASS in ")
			if n := strings.Count(verdict, "\n") + 1; n >= int(size.Rows) { // the prompt has the last line
				t.Errorf("the verdict has %d lines: its begin is no longer to be seen\n%s", n, shown)
			}
			for _, want := range []string{"ask 16 counters", "are one cluster", "killed processes", "PASS in ", "Akka and Pekko", "Next\n", "--report out.html"} {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not to be read:\n%s", want, shown)
				}
			}
		})
	}
}

// A report fits its terminal too: promises and figures wrap between words.
func TestAReportFitsTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	name := "every request was answered, unless its caller's process ended first, and so on and on"
	r := chaos.Report{Schema: chaos.SchemaVersion, Verdict: chaos.Unknown, Invariants: []chaos.Invariant{{
		Name: name, Verdict: chaos.Unknown, Checked: 12345678, Violations: []string{strings.Repeat("the machine was overloaded ", 9)},
	}}}
	if err := r.Save(file); err != nil {
		t.Fatal(err)
	}
	for _, columns := range []uint16{80, 60} {
		cmd := exec.Command(os.Args[0], "report", file, "--html", filepath.Join(t.TempDir(), "r.html"))
		cmd.Env = append(os.Environ(), "TERM=xterm")
		terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: 24})
		if err != nil {
			t.Skipf("there is no terminal to be had: %v", err)
		}
		text, _ := io.ReadAll(terminal) // ends with an error when the program closes its side
		_ = terminal.Close()
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitUsage {
			t.Fatalf("%v\n%s", err, text)
		}
		e := &emulator{columns: int(columns)}
		e.write(string(text))
		shown := strings.Join(strings.Fields(strings.Join(e.lines, "\n")), " ")
		for _, line := range e.wrapped {
			if !strings.Contains(line, "/") { // a path has no place to wrap
				t.Errorf("this line is too wide for %d columns: %q", columns, line)
			}
		}
		if !strings.Contains(shown, "UNKNOWN "+name+" (12,345,678 checked)") {
			t.Errorf("the promise is not to be read:\n%s", strings.Join(e.lines, "\n"))
		}
	}
}
