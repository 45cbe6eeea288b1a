package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/benchmark/parse"
)

// A measure is a benchmark of package sharding, and how many messages of it make about a second.
type measure struct {
	name, bench string
	messages    int
}

func measures() []measure {
	return []measure{
		{"local tell, 1 entity", "LocalTell/entities=1", 6_000_000},
		{"local tell, 1,000 entities", "LocalTell/entities=1000", 4_000_000},
		{"local ask", "LocalAsk/deadline=false", 800_000},
		{"remote tell, 64 senders", "TCPTell/senders=64", 1_500_000},
		{"remote ask, 1 caller", "TCPAsk/callers=1", 12_000},
		{"remote ask, 256 callers", "TCPAsk/callers=256", 200_000},
	}
}

// crowds are the measures with many senders, which could use any number of processors.
func crowds() []measure {
	return []measure{
		{"local tell, 1,000 entities", "LocalParallel/tell", 4_000_000},
		{"local ask, 1,000 entities", "LocalParallel/ask", 1_000_000},
		{"remote tell, 64 senders", "TCPTell/senders=64", 1_500_000},
		{"remote ask, 256 callers", "TCPAsk/callers=256", 400_000},
	}
}

// A cost is what a message took.
type cost struct {
	wall, processor time.Duration
}

// errUnknown says that a build has no such benchmark.
var errUnknown = errors.New("has no such benchmark")

// A runner plays a measure once.
type runner func(ctx context.Context, m measure, scale float64) (cost, error)

// A build is the compiled tests of package sharding of one tree.
type build struct {
	name, binary string
	processors   int // GOMAXPROCS, or 0 for all
}

// compile compiles the tests of package sharding of the module in dir.
func (b *build) compile(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.binary, "./sharding")
	cmd.Dir = dir
	_, err := output(cmd)
	return err
}

// rootOf returns the root of the clone in which this command runs.
func rootOf(ctx context.Context) (string, error) {
	root, err := output(exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel"))
	return strings.TrimSpace(string(root)), err
}

// export writes the files of a commit into a new directory.
func export(ctx context.Context, root, commit, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	archive, err := output(exec.CommandContext(ctx, "git", "-C", root, "archive", "--format=tar", commit))
	if err != nil {
		return err
	}
	untar := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	untar.Stdin = bytes.NewReader(archive)
	_, err = output(untar)
	return err
}

// output runs a command. Its error has what the command said, and the command.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
}

// playOnce plays a measure once. The processor time is that of the whole process, with the start of its
// nodes: some milliseconds of about a second.
func (b *build) playOnce(ctx context.Context, m measure, scale float64) (cost, error) {
	n := max(1, int(float64(m.messages)*scale))
	cmd := exec.CommandContext(ctx, b.binary, "-test.run", "^$", "-test.bench", pattern(m.bench), "-test.benchtime", strconv.Itoa(n)+"x")
	if b.processors > 0 {
		cmd.Args = append(cmd.Args, "-test.cpu", strconv.Itoa(b.processors))
	}
	out, err := cmd.Output() // a benchmark that fails says so there
	if err != nil {
		return cost{}, fmt.Errorf("%s: %s: %w\n%s", b.name, m.bench, err, out)
	}
	set, err := parse.ParseSet(bytes.NewReader(out))
	if err != nil {
		return cost{}, fmt.Errorf("%s: %s: %w", b.name, m.bench, err)
	}
	for _, found := range set {
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return cost{time.Duration(found[0].NsPerOp), used / time.Duration(n)}, nil
	}
	return cost{}, fmt.Errorf("%s %w: %s", b.name, errUnknown, m.bench)
}

// pattern returns the expression that names just this benchmark.
func pattern(bench string) string {
	parts := strings.Split("Benchmark"+bench, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}
