package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// block is a block of code of the guide: its language and its text.
type block struct{ lang, text string }

// readGuide returns the blocks of docs/GUIDE.md, in order.
func readGuide(t *testing.T) (blocks []block) {
	t.Helper()
	page, err := os.ReadFile("../../docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	return blocks
}

// TestTheGuideShowsThisService compares the Go blocks of the guide with the files of this
// directory: each is a part of one.
func TestTheGuideShowsThisService(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	shown := 0
	for _, b := range readGuide(t) {
		if b.lang != "go" {
			continue
		}
		if shown++; !strings.Contains(source.String(), b.text) {
			t.Errorf("examples/seats does not contain:\n%s", b.text)
		}
	}
	if shown < 7 {
		t.Errorf("only %d blocks were found", shown)
	}
}

// step is a block of commands of the guide, and the output that the guide shows below it.
type step struct{ commands, output string }

// steps returns the commands of the guide. A block of text belongs to the commands above it.
func steps(blocks []block) (all []step) {
	for i, b := range blocks {
		if b.lang != "sh" {
			continue
		}
		s := step{commands: b.text}
		if i+1 < len(blocks) && blocks[i+1].lang == "text" {
			s.output = blocks[i+1].text
		}
		all = append(all, s)
	}
	return all
}

// newStep separates the output of two steps.
const newStep = "\x00\n"

// TestTheGuideRuns runs all commands of the guide, in one shell and in their order, and
// compares what they print with what the guide shows. Three things differ from what a reader
// does: the repository is there, so that git does not fetch it, the processes listen on a
// loopback address of this test's own, and the programs have no tables for debuggers, which are
// a third of the linker's work.
func TestTheGuideRuns(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 100+pid%100, pid/100%250, 1+pid/25000%250)
	const clone = "git clone https://github.com/peerage-go/peerage\n"
	all := steps(readGuide(t))
	if len(all) < 8 || !strings.Contains(all[0].commands, clone) {
		t.Fatalf("the guide has %d steps; the first is\n%s", len(all), all[0].commands)
	}
	script := "set -m\ntrap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n"
	for _, s := range all {
		script += s.commands + "printf '" + `\0\n` + "'\n"
	}
	script = strings.NewReplacer(clone, "", "../peerage", root, "127.0.0.1", host, "go build -v", "go build -v -ldflags=-w").Replace(script)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "GOWORK=", "PEERAGE_NODE="+host+":8101")
	shell.Cancel = func() error { return shell.Process.Signal(os.Interrupt) } // runs the trap
	shell.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	err = shell.Run()
	printed := strings.Split(stdout.String(), newStep)
	for i, s := range all {
		if i >= len(printed) {
			break
		}
		if got := strings.ReplaceAll(printed[i], host, "127.0.0.1"); s.output != "" && !outputMatches(s.output, got) {
			t.Errorf("the guide shows\n%s\nas the output of\n%s\nwhich prints\n%s", s.output, s.commands, got)
		}
	}
	var exit *exec.ExitError
	if len(printed) != len(all)+1 || err != nil && !errors.As(err, &exit) {
		t.Errorf("%d of %d steps ended: %v", len(printed)-1, len(all), err)
	}
	if t.Failed() {
		t.Logf("standard error:\n%s", stderr.String())
		logs, _ := filepath.Glob(filepath.Join(shell.Dir, "seats", "*.log"))
		for _, name := range logs {
			text, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", filepath.Base(name), text)
		}
	}
}

// outputMatches reports whether commands printed what the guide shows. Three dots stand for
// anything within a line, and columns may be wider.
func outputMatches(shown, printed string) bool {
	pattern := regexp.QuoteMeta(shown)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `[^\n]*`)
	pattern = regexp.MustCompile(` {2,}`).ReplaceAllString(pattern, ` +`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(printed)
}

// TestOutputIsCompared shows that the comparison of outputs can fail.
func TestOutputIsCompared(t *testing.T) {
	for _, tc := range []struct {
		shown, printed string
		want           bool
	}{
		{"ready\n", "ready\n", true},
		{"ready\n", "ready\nready\n", false},
		{"{\"12\":\"ada\"}\n", "{\"12\":\"bob\"}\n", false},
		{"shard 196 on ... it lives\n", "shard 196 on a (5b2d), it lives\n", true},
		{"shard 196 on ... it lives\n", "shard 197 on a (5b2d), it lives\n", false},
		{"NAME  NODE\n", "NAME     NODE\n", true},
	} {
		if got := outputMatches(tc.shown, tc.printed); got != tc.want {
			t.Errorf("%q for %q: %v", tc.printed, tc.shown, got)
		}
	}
}
