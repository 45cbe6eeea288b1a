//go:build unix

package faults

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// TestMain lets the test binary stand in for a node: a fleet starts its own executable again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		if err := runStandIn(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// standIn is a process that reports, listens and ends like a node, without a cluster: its
// members are the processes that have a file in the directory of the run and are alive. Files
// with the names below change what it does.
type standIn struct {
	dir, data  string
	self       string
	generation uint32
	ahead      atomic.Int64
}

const (
	// generationFile has the newest generation; stuck keeps it from rising.
	generationFile, stuckFile = "generation", "stuck"
	// readyFile makes a process ready although its disk is full.
	readyFile = "ready"
	// newcomersFile gets a line for each entity that was asked.
	newcomersFile = "newcomers"
	// drainMS is what a process reports of its drain, in milliseconds.
	drainMS = 7
)

func runStandIn(args []string) error {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	values := map[string]*string{}
	for _, name := range []string{"name", "listen", "http", "print-stats", "history", "log", "load-counters", "shards", "load-every",
		"min-members", "load-registers", "wall-offset", "data-dir", "join"} {
		values[name] = flags.String(name, "", "")
	}
	for _, name := range []string{"print-addresses", "until-stdin-closes"} {
		flags.Bool(name, false, "")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *values["listen"])
	if err != nil {
		return err
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &standIn{dir: filepath.Dir(*values["history"]), data: *values["data-dir"]}
	if ahead, err := time.ParseDuration(*values["wall-offset"]); err == nil {
		s.ahead.Store(int64(ahead))
	}
	if err := s.join(); err != nil {
		return err
	}
	go http.Serve(web, s)
	ctx := harness.UntilClosed(context.Background(), os.Stdin, s.obey)
	rep := harness.Report{Kind: "ready", Name: *values["name"], Node: strconv.FormatInt(int64(os.Getpid()), 16), Listen: listener.Addr().String(), HTTP: web.Addr().String()}
	tries := uint64(0)
	for {
		if err := harness.WriteReport(os.Stdout, rep); err != nil {
			return err
		}
		if harness.Pause(ctx, 5*time.Millisecond) != nil {
			return os.RemoveAll(s.self) // a drain has removed it before
		}
		if s.diskIsFull() {
			tries++
		}
		rep.At = clock.Boot().Now()
		living := s.living()
		rep.Kind, rep.Members, rep.Lease, rep.Generation = "stats", len(living), true, s.generation
		rep.Leader = len(living) > 0 && living[0] == s.self
		rep.WallMillis = time.Now().Add(time.Duration(s.ahead.Load())).UnixMilli()
		rep.Load.Tries = map[string]uint64{diskReason: tries}
	}
}

// join makes the file of the process, and forms a generation if it is alone.
func (s *standIn) join() error {
	b, _ := os.ReadFile(filepath.Join(s.dir, generationFile))
	last, _ := strconv.Atoi(string(b))
	if len(s.living()) == 0 && !s.has(stuckFile) {
		last++
	}
	s.generation = uint32(last)
	s.self = filepath.Join(s.dir, fmt.Sprintf("alive.%d.%d", time.Now().UnixNano(), os.Getpid()))
	if err := os.WriteFile(filepath.Join(s.dir, generationFile), []byte(strconv.Itoa(last)), 0o666); err != nil {
		return err
	}
	return os.WriteFile(s.self, nil, 0o666)
}

// living returns the files of the processes that are alive, the oldest first.
func (s *standIn) living() []string {
	files, _ := filepath.Glob(filepath.Join(s.dir, "alive.*"))
	return slices.DeleteFunc(files, func(file string) bool {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(file), "."))
		return err != nil || syscall.Kill(pid, 0) != nil
	})
}

func (s *standIn) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// diskIsFull reports whether fleet.FillDisk, or a test, has put its file there.
func (s *standIn) diskIsFull() bool {
	files, _ := os.ReadDir(s.data)
	return len(files) > 0
}

// obey reads a line of standard input.
func (s *standIn) obey(line string) {
	if ahead, err := time.ParseDuration(strings.TrimPrefix(line, harness.WallOffset)); err == nil {
		s.ahead.Store(int64(ahead))
	}
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/drain":
		os.Remove(s.self)
		fmt.Fprintf(w, `{"name":"x","took_ms":%d}`, drainMS)
	case r.URL.Path == "/readyz" && s.diskIsFull() && !s.has(readyFile):
		http.Error(w, "the disk of the durable keys is full", http.StatusServiceUnavailable)
	case r.URL.Path == "/metrics" && s.diskIsFull():
		io.WriteString(w, diskGauge+"\n")
	case strings.HasPrefix(r.URL.Path, "/v1/counters/newcomer-"):
		f, err := os.OpenFile(filepath.Join(s.dir, newcomersFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err == nil {
			fmt.Fprintln(f, r.URL.Path)
			f.Close()
		}
	}
}

// newInjector returns an injector whose fleet stands, of stand-ins.
func newInjector(t *testing.T, places int, seed uint64, change func(*fleet.Fleet)) *Injector {
	t.Helper()
	f := &fleet.Fleet{Dir: t.TempDir(), Counters: 1, Shards: 1, Every: time.Second}
	if change != nil {
		change(f)
	}
	t.Cleanup(f.End)
	if err := f.Up(t.Context(), places); err != nil {
		t.Fatal(err)
	}
	return &Injector{Fleet: f, Rng: rand.New(rand.NewPCG(seed, seed))}
}

func isGone(p *fleet.Process) bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}

// reports is what a process reported last.
func reports(p *fleet.Process) harness.Report {
	r, _ := p.Snapshot()
	return r
}
