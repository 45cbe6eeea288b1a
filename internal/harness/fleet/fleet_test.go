//go:build unix

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/history"
)

// Names of places at which the stand-in does something else than reporting.
const (
	diesAt     = "dies"     // it ends by itself, with an error
	stubbornAt = "stubborn" // it ignores that its input closes
)

// TestMain lets the test binary stand in for a node: Start starts its own executable again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		os.Exit(standIn(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// standIn reports what a node would. Its members are the processes of its directory that have
// not ended: each has a file there.
func standIn(args []string) int {
	at := func(flag string) string { return args[slices.Index(args, flag)+1] }
	name, listen, file := at("--name"), at("--listen"), at("--history")
	if name == diesAt {
		fmt.Fprintln(os.Stderr, "no cluster today")
		return 3
	}
	h, err := history.Create(file)
	if err != nil {
		return 1
	}
	h.Write(history.Record{Op: history.Asked, Entity: uint32(name[0])})
	alive := strings.TrimSuffix(file, ".history") + "." + strconv.Itoa(os.Getpid()) + ".alive"
	if err := os.WriteFile(alive, []byte(at("--join")), 0o600); err != nil {
		return 1
	}
	ctx := context.Background()
	wall := make(chan time.Duration, 8)
	if name != stubbornAt {
		ctx = harness.UntilClosed(ctx, os.Stdin, func(line string) {
			if d, err := time.ParseDuration(strings.TrimPrefix(line, harness.WallOffset)); err == nil {
				wall <- d
			}
		})
	}
	rep := harness.Report{Kind: "ready", Name: name, Node: fmt.Sprintf("%x", os.Getpid()), Listen: listen, HTTP: "127.0.0.1:1", At: clock.Boot().Now()}
	var ahead time.Duration
	for {
		if harness.WriteReport(os.Stdout, rep) != nil {
			return 1
		}
		if harness.Pause(ctx, time.Millisecond) != nil {
			_ = h.Close()
			_ = os.Remove(alive)
			return 0
		}
		select {
		case ahead = <-wall:
		default:
		}
		now := clock.Boot().Now()
		members, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.alive"))
		rep = harness.Report{Kind: "stats", Name: name, Node: rep.Node, Members: len(members), Lease: true, Shards: int(name[0] - 'a'), At: now,
			WallMillis: time.Now().Add(ahead).UnixMilli(), Load: harness.Totals{Asked: 2, Tries: map[string]uint64{"timeout": 1}}}
	}
}

// fleetOf returns a fleet that runs at so many places until the test ends.
func fleetOf(t *testing.T, places int) *Fleet {
	t.Helper()
	f := &Fleet{Dir: t.TempDir(), Counters: 4, Shards: 8, Every: time.Second}
	t.Cleanup(f.End)
	if err := f.Up(t.Context(), places); err != nil {
		t.Fatal(err)
	}
	return f
}

func start(t *testing.T, name string) *Process {
	t.Helper()
	p, err := Start(name, filepath.Join(t.TempDir(), name+".history"), "127.0.0.1:0", func(*exec.Cmd) {}, "--join", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

// end kills the process at a place, as a round of chaos does, and takes its members' file away.
func end(t *testing.T, f *Fleet, i int) {
	t.Helper()
	p := f.Now[i]
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Gone
	files, _ := filepath.Glob(strings.TrimSuffix(p.History, ".history") + ".*.alive")
	if len(files) != 1 || os.Remove(files[0]) != nil {
		t.Fatalf("%s has left %v", p.Name, files)
	}
	f.Now[i] = nil
}

func TestAFleetSettlesOnItsLivingProcesses(t *testing.T) {
	f := fleetOf(t, 3)
	if got := f.Living(); !slices.Equal(got, []int{0, 1, 2}) || f.Size() != 3 {
		t.Errorf("%v of %d places live", got, f.Size())
	}
	former := f.Now[1]
	end(t, f, 1)
	if _, lives := former.Snapshot(); lives {
		t.Error("a killed process counts as living")
	}
	if err := f.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.Living(); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("%v live after the second was killed", got)
	}
	p, err := f.Start(1, "127.0.0.1:0")
	if err == nil {
		err = p.WaitReady(t.Context())
	}
	if err == nil {
		err = f.Grow(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.History == former.History {
		t.Error("two processes of a place write one history")
	}
	if r, _ := f.Now[3].Snapshot(); r.Members != 4 || f.Now[3].Name != "d" {
		t.Errorf("%s, the fourth, reports %d members", f.Now[3].Name, r.Members)
	}
	f.End()
	for _, p := range f.all {
		if !p.waitedFor() {
			t.Errorf("%s runs after the end of its fleet", p.Name)
		}
	}
}

// A process finds the others by the first addresses of all places, and by those at which the
// running ones listen now.
func TestAProcessIsGivenAllContactPoints(t *testing.T) {
	f := fleetOf(t, 2)
	end(t, f, 0)
	for range 2 {
		p, err := f.Start(0, "127.0.0.1:0")
		if err == nil {
			err = p.WaitReady(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(f.Dir, "a.3.*.alive"))
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	joined, err := os.ReadFile(files[0])
	want := strings.Join(append(slices.Clone(f.List), "127.0.0.1:0"), ",") // the stand-in reports its port as given
	if err != nil || string(joined) != want {
		t.Errorf("--join %s, %v; want %s", joined, err, want)
	}
}

func TestFiguresOfAFleetAreOfAllItsProcesses(t *testing.T) {
	f := fleetOf(t, 3)
	if least, most, all := Spread(f, func(r harness.Report) int { return r.Shards }); least != 0 || most != 2 || all != 3 {
		t.Errorf("shards %d to %d, %d in all; want 0 to 2, 3 in all", least, most, all)
	}
	end(t, f, 2)
	if got := f.Totals(); got.Asked != 6 || got.Tries["timeout"] != 3 {
		t.Errorf("%+v, without what the killed one had asked", got)
	}
	f.End()
	records, err := f.Records()
	if err != nil || len(records) < 2 { // that of the killed process was not flushed
		t.Errorf("%d records, %v", len(records), err)
	}
}

// TestAFleetSettlesOnReportsThatAreMadeSince checks that a report from before a fault, which is read late,
// does not end the wait after the fault.
func TestAFleetSettlesOnReportsThatAreMadeSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Process{Name: "a", Ids: map[uint64]bool{}, Gone: make(chan struct{})}
		f := &Fleet{Now: []*Process{p}}
		r := harness.Report{Kind: "stats", Name: "a", Node: "1", Members: 1, Lease: true, At: clock.Boot().Now()}
		read := func() { p.got(r) }
		defer time.AfterFunc(time.Second, read).Stop()
		if err := f.Settle(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a report from before the wait ends it: %v", err)
		}
		r.At = clock.Boot().Now().Add(time.Second)
		defer time.AfterFunc(time.Second, read).Stop()
		if err := f.Settle(t.Context()); err != nil {
			t.Errorf("a report that was made during the wait does not end it: %v", err)
		}
	})
}

func TestAProcessThatEndsByItselfIsReported(t *testing.T) {
	p := start(t, diesAt)
	err := p.WaitReady(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no cluster today") {
		t.Errorf("%v, want the status and the log", err)
	}
	f := &Fleet{Now: []*Process{p}}
	if err := f.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "no cluster today") {
		t.Errorf("the fleet waits for it: %v", err)
	}
	if err := p.Finish(); err == nil || !strings.Contains(err.Error(), "did not end in order") {
		t.Errorf("%v", err)
	}
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	p := start(t, stubbornAt)
	if err := p.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Stop(10 * time.Millisecond)
	if !p.waitedFor() {
		t.Error("it still runs")
	}
	if err := p.Finish(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v, want that it was killed", err)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := &Process{Name: "a", ready: make(chan struct{}), Gone: make(chan struct{})}
	f := &Fleet{Now: []*Process{p}, Ahead: []time.Duration{time.Hour}}
	cancel()
	for what, err := range map[string]error{
		"WaitReady": p.WaitReady(ctx), "Settle": f.Settle(ctx), "SeesWall": f.SeesWall(ctx, 0), "WaitForReadiness": p.WaitForReadiness(ctx),
	} {
		if err == nil {
			t.Errorf("%s returns without an error", what)
		}
	}
}

func TestWallClocksAreSetAndSetRight(t *testing.T) {
	f := fleetOf(t, 2)
	if err := f.SetWall(t.Context(), 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	if r, _ := f.Now[1].Snapshot(); time.Until(time.UnixMilli(r.WallMillis)) < 30*time.Minute {
		t.Errorf("the clock shows %v", time.UnixMilli(r.WallMillis))
	}
	if err := f.RightWalls(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, _ := f.Now[1].Snapshot(); time.Until(time.UnixMilli(r.WallMillis)).Abs() > 30*time.Minute {
		t.Errorf("the clock shows %v after it was set right", time.UnixMilli(r.WallMillis))
	}
}

func TestFreeAddrsDiffer(t *testing.T) {
	addrs, release, err := FreeAddrs("127.0.0.1", "127.0.0.1", "127.0.0.1")
	if err != nil || len(addrs) != 3 || len(slices.Compact(slices.Sorted(slices.Values(addrs)))) != 3 {
		t.Fatalf("%v, %v", addrs, err)
	}
	defer release()
	for _, a := range addrs {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatalf("%s is not free: %v", a, err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; port >= 32768 {
			t.Errorf("%s may be taken by an outgoing connection", a)
		}
	}
	if _, _, err := FreeAddrs("192.0.2.1"); err == nil {
		t.Error("an address of another host is free")
	}
}

func TestTheTailOfALogIsKept(t *testing.T) {
	var log tail
	for i := range 2000 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	if got := log.String(); len(got) != tailBytes || !strings.HasSuffix(got, "line 1999\n") {
		t.Errorf("%d bytes, which end with %q", len(got), got[max(0, len(got)-20):])
	}
}

// To fill a disk that others use would stop them.
func TestADiskThatIsNotOfItsOwnIsNotFilled(t *testing.T) {
	dir := t.TempDir()
	if err := FillDisk(dir); err == nil || !strings.Contains(err.Error(), "not a disk of its own") {
		t.Errorf("%v", err)
	}
	if err := FreeDisk(dir); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// The places of the largest fleet have different names: letters, also after z.
func TestPlacesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]int{}
	for i := range PlacesMax {
		name := PlaceName(i)
		if other, twice := seen[name]; twice || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("place %d is %q, like place %d", i, name, other)
		}
		seen[name] = i
	}
	if seen["a"] != 0 || seen["z"] != 25 || seen["aa"] != 26 || seen["bb"] != 53 {
		t.Errorf("the names are %v", seen)
	}
}

func TestPlacesWithFilesHaveADirectoryEach(t *testing.T) {
	f := &Fleet{Dir: t.TempDir(), Files: true}
	if err := f.makeDirs(2); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"data-a", "data-b"} {
		if info, err := os.Stat(f.DataDir(i)); err != nil || !info.IsDir() || info.Name() != name {
			t.Errorf("place %d has %v, %v", i, info, err)
		}
	}
}
