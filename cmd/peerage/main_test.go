package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// TestMain lets the test binary stand in for the command: demo, chaos and bench start
// their own executable again, with a command and its arguments. Whatever is no flag of
// the test binary is such a command: a child that ran the tests would start children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestDemoOnRealProcesses is not parallel: the last of three processes takes over only if it
// detects the crash of the second one within a fraction of its lease.
func TestDemoOnRealProcesses(t *testing.T) {
	for name, args := range map[string][]string{
		"one after another": {"--nodes", "3", "--between", "700ms"},
		"at once":           {"--nodes", "3", "--at-once"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"demo", "--warm-up", "700ms", "--counters", "16", "--shards", "16", "--every", "50ms"}, args...)
			code := run(args, &out, &errs)
			if code != exitOK {
				t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
			}
			for _, want := range []string{"PASS", "no counter ever lived twice", "Counters living twice  0, in ", "16 of 16 counters", "counters answered again", "Akka and Pekko", "demo", "watch it in a browser: http://127.0.0.1:"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the verdict does not say %q:\n%s", want, out.String())
				}
			}
		})
	}
}

// With --open, the last process serves its dashboard until Ctrl-C; then the records are judged. The test
// is not parallel, for the same reason as TestDemoOnRealProcesses.
func TestAnOpenDemoServesItsDashboard(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo", "--open", "--nodes", "3", "--at-once", "--warm-up", "300ms", "--between", "400ms", "--counters", "16", "--shards", "16", "--every", "50ms")
	var out bytes.Buffer
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(io.TeeReader(pipe, &out))
	opened := false
	for lines.Scan() {
		if opened || !strings.Contains(lines.Text(), "Ctrl-C ends the demo") {
			continue
		}
		opened = true
		page := regexp.MustCompile(`http://[^;]+`).FindString(lines.Text())
		got, err := http.Get(page)
		if err != nil || got.StatusCode != http.StatusOK {
			t.Errorf("%s: %v, %v", page, got, err)
		}
		if err == nil {
			got.Body.Close()
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil || !opened || !strings.Contains(out.String(), "PASS in ") {
		t.Errorf("opened %v, ended with %v:\n%s", opened, err, out.String())
	}
}

func TestWrongFlagsGetOneClearAnswer(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"Usage: peerage"}},
		{[]string{"dance"}, []string{`no command "dance"`}},
		{[]string{"demo", "--nodes", "1", "--every", "0s"}, []string{"--nodes is 1", "--every is 0s"}},
		{[]string{"node", "extra"}, []string{`unexpected argument "extra"`}},
		{[]string{"node", "--name", "a b"}, []string{"--name", `"a b"`}},
		{[]string{"node", "--listen", "nowhere"}, []string{`--listen = "nowhere"`}},
		{[]string{"node", "--listen", "127.0.0.1:99999"}, []string{"--listen", "99999"}},
		{[]string{"node", "--listen", "0.0.0.0:7101", "--advertise", "10.1.2.3:7101"}, []string{"--listen", "neither --tls-cert", "or --insecure-transport"}},
		{[]string{"node", "--listen", "127.0.0.1:7101", "--join", "127.0.0.1:7101"}, []string{"--bootstrap-expect = 0: the list has one address"}},
		{[]string{"node", "--role", "back end"}, []string{"--role", "back end"}},
		{[]string{"node", "--join", "10.0.0.1"}, []string{"--join", "10.0.0.1"}},
		{[]string{"node", "--http", "nowhere"}, []string{"--http nowhere"}},
		{[]string{"node", "--log", "loud"}, []string{"--log", "loud"}},
		{[]string{"node", "--load-counters", "3"}, []string{"--history"}},
		{[]string{"status", "--node", "127.0.0.1:1"}, []string{"refused", "peerage node", "--node"}},
		{[]string{"chaos", "--rounds", "0", "--faults", "flood"}, []string{"--rounds is 0", `"flood"`}},
		{[]string{"bench", "--only", "luck"}, []string{"luck", "remote-tell"}},
		{[]string{"drain"}, []string{"drain NODE"}},
		{[]string{"drain", "a", "--node", "127.0.0.1:1"}, []string{"refused"}},
		{[]string{"drain", "a", "--node", "nowhere"}, []string{"--node nowhere"}},
		{[]string{"status", "--tls-cert", "a.pem"}, []string{"--tls-ca"}},
		{[]string{"status", "--tls-ca", "none.pem"}, []string{"--tls-ca", "none.pem"}},
		{[]string{"where", "counter"}, []string{"where TYPE ID"}},
		{[]string{"explain", "counter"}, []string{"--id"}},
		{[]string{"place", "counter", "x", "b"}, []string{`SHARD is "x"`}},
		{[]string{"place", "counter", "1"}, []string{"--clear"}},
		{[]string{"top", "--every", "1ms"}, []string{"--every"}},
		{[]string{"certs"}, []string{"--dir"}},
		{[]string{"certs", "--dir", "d", "--nodes", "a,a"}, []string{"--nodes", `"a"`}},
		{[]string{"certs", "--dir", "d", "--days", "0"}, []string{"--days"}},
		{[]string{"node", "--config", "none.yaml"}, []string{"--config", "none.yaml"}},
		{[]string{"node", "--http-tls"}, []string{"--http-tls", "--tls-cert"}},
		{[]string{"chaos", "--rounds", "x"}, []string{`"x" for "--rounds" flag: invalid syntax; see`}},
		{[]string{"node", "--strategy", "luck"}, []string{"--strategy", "luck"}},
		{[]string{"demo", "--color"}, []string{"--color", "peerage demo --help"}},
		{[]string{"statsu"}, []string{"did you mean status?"}},
		{[]string{"sim", "--seeds", "0"}, []string{"--seeds"}},
		{[]string{"report"}, []string{"report FILE"}},
	} {
		t.Run(fmt.Sprint(tc.args), func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(tc.args, &out, &errs); code == exitOK {
				t.Fatalf("exit code 0:\n%s", out.String())
			}
			for _, want := range tc.want {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("does not say %q:\n%s", want, errs.String())
				}
			}
			if n := strings.Count(strings.TrimSpace(errs.String()), "\n"); tc.args != nil && n > 0 {
				t.Errorf("one error takes %d lines:\n%s", n+1, errs.String())
			}
		})
	}
}

// TestSettingsThatCannotWorkAreAWrongCommandLine checks that a node whose settings are refused ends with
// the exit code that the help gives them.
func TestSettingsThatCannotWorkAreAWrongCommandLine(t *testing.T) {
	if got := refused(t, exitUsage, "node", "--name", "a", "--listen", "0.0.0.0:7199"); !strings.Contains(got, "set Advertise") {
		t.Error(got)
	}
}

// Flags that exclude each other are a wrong command line, and no broken promise.
func TestFlagsThatExcludeEachOther(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--preset", "n-1", "--faults", "kill"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "[faults preset]") {
		t.Errorf("exit code %d, want %d: %s", code, exitUsage, errs.String())
	}
}

// Each command describes itself, its flags and its exit codes, on standard output.
func TestHelpExitsWithZero(t *testing.T) {
	for _, name := range []string{"", "demo", "node", "chaos", "bench", "sim", "certs", "status", "members", "types", "shards", "where", "explain",
		"top", "drain", "place", "report", "version", "completion"} {
		var out, errs bytes.Buffer
		if code := run(append(strings.Fields(name), "--help"), &out, &errs); code != exitOK || errs.Len() > 0 {
			t.Errorf("%s --help: exit code %d, %s", name, code, errs.String())
		}
		for _, want := range []string{"Usage: peerage " + name, "Exit codes:", "--json"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s --help does not say %q:\n%s", name, want, out.String())
			}
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if len(line) > helpWidth && !strings.Contains(line, "peerage node --name") {
				t.Errorf("%s --help has a line of %d columns: %s", name, len(line), line)
			}
		}
		for _, hidden := range hiddenFlags {
			if strings.Contains(out.String(), "--"+hidden+" ") {
				t.Errorf("%s --help shows --%s, which is for processes that the program starts", name, hidden)
			}
		}
	}
}

// TestCommandLinesRunSideBySide checks that command lines in one process share no memory: the race
// detector sees it if they write settings of the command line library at the same time.
func TestCommandLinesRunSideBySide(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var out, errs bytes.Buffer
			if code := run([]string{"node", "--help"}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "Usage: peerage node") {
				t.Errorf("exit code %d, %s%s", code, out.String(), errs.String())
			}
		})
	}
	all.Wait()
}

// The page and the help list the same commands and exit codes.
func TestCommandsAndExitCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/COMMANDS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range (&program{configurable: map[string]bool{}}).rootCommand().Commands() {
		if c.Name() != "help" && !strings.Contains(string(page), "`"+c.Name()+"`") {
			t.Errorf("docs/COMMANDS.md does not list %s", c.Name())
		}
	}
	lines := strings.Split(strings.TrimSpace(exitTable), "\n")[1:]
	for _, line := range lines {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if row := "| " + code + " | " + meaning + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/COMMANDS.md has no row %s", row)
		}
	}
}

// Seeds with settings that void some guarantees are counted apart, in text and JSON.
func TestSimCountsWhatItJudged(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"sim", "--seeds", "12", "--json"}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var r simReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	weakened := uint64(0)
	for setting, seeds := range r.Weakened {
		weakened += seeds
		if !strings.Contains(errs.String(), setting) {
			t.Errorf("the text does not name %q:\n%s", setting, errs.String())
		}
	}
	if r.Strict == 0 || weakened == 0 || r.Strict+weakened < r.Seeds {
		t.Errorf("of %d seeds %d are strict, and weakened %v", r.Seeds, r.Strict, r.Weakened)
	}
}
