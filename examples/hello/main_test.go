package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/peeragetest"
)

// runsMain makes the test binary stand in for the program.
const runsMain = "PEERAGE_TEST_RUN_HELLO"

func TestMain(m *testing.M) {
	if os.Getenv(runsMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// readReadme returns the README of the repository.
func readReadme(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(readme)
}

// TestReadmeShowsThisProgram compares the Go block of the README with the program, so that
// the one that is shown is the one that runs.
func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(readReadme(t), "```go\n")
	block, _, closed := strings.Cut(block, "```\n")
	if !found || !closed || len(block) < 500 || !strings.Contains(string(program), block) {
		t.Errorf("examples/hello/main.go does not contain this block of README.md:\n%s", block)
	}
}

// process is a node that runs as a command of the README says.
type process struct {
	args   []string
	cmd    *exec.Cmd
	output *bufio.Scanner
}

// startProcess runs the program with these arguments until it is killed.
func startProcess(t *testing.T, args []string) *process {
	t.Helper()
	p := &process{args: args, cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), runsMain+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // SIGKILL
	_ = p.cmd.Wait()
}

// guestNumber waits for the greeting that the process prints, and returns its number.
func (p *process) guestNumber(t *testing.T) (number int) {
	t.Helper()
	alarm := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer alarm.Stop()
	if !p.output.Scan() {
		t.Fatalf("%v printed nothing", p.args)
	}
	want := "the butler greets " + p.args[0] + ", guest number "
	text, found := strings.CutPrefix(p.output.Text(), want)
	number, err := strconv.Atoi(text)
	if !found || err != nil {
		t.Fatalf("%v printed %q, want %q and a number", p.args, p.output.Text(), want)
	}
	return number
}

// The README's commands start three processes. Each is killed and started again, and the
// butler goes on counting: none of the processes that it began on is left.
func TestReadmeCommandsCountOnAfterEachCrash(t *testing.T) {
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 100+pid%100, pid/100%250, 1+pid/25000%250)
	var nodes []*process
	for line := range strings.Lines(strings.ReplaceAll(readReadme(t), "127.0.0.1", host)) {
		if args, is := strings.CutPrefix(line, "go run ./examples/hello "); is {
			nodes = append(nodes, startProcess(t, strings.Fields(args)))
		}
	}
	if len(nodes) != 3 {
		t.Fatalf("the README starts %d nodes", len(nodes))
	}
	sum := 0
	for _, p := range nodes {
		sum += p.guestNumber(t)
	}
	if sum != 1+2+3 {
		t.Errorf("the numbers of the first three guests add up to %d", sum)
	}
	for i, p := range nodes {
		p.kill()
		if n := startProcess(t, p.args).guestNumber(t); n != 4+i {
			t.Errorf("after the crash of process %d, the butler counts %d, want %d", i+1, n, 4+i)
		}
	}
}

// Three nodes share one greeter: it counts the guests of all of them, and goes on after
// crashes.
func TestTheButlerGreetsTheGuestsOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := peeragetest.Start(t, 3, startGreeters)
		number := 0
		greetAll := func() {
			t.Helper()
			for _, n := range c.Nodes() {
				number++
				got, err := n.Service.Ask(t.Context(), "the butler", "Ada")
				if want := fmt.Sprint("the butler greets Ada, guest number ", number); err != nil || got != want {
					t.Errorf("node %s: %q, %v, want %q", n.Name, got, err, want)
				}
			}
		}
		greetAll()
		for _, n := range c.Nodes() {
			n.Crash()
			n.Restart()
			c.WaitReady()
			greetAll()
		}
		c.AssertSingleInstance()
	})
}
