//go:build unix

package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness/service"
)

// serveNumbersArg is the first of three arguments that make the test binary stand in for a
// service. The others are the address, and the directory in which all processes keep the
// numbers, or "memory" for a service whose processes do not share them.
const serveNumbersArg = "serve-numbers"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == serveNumbersArg {
		if err := serveNumbers(os.Args[3], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// numbers keeps a number for each key, in a locked file or in memory.
type numbers struct {
	dir string
	mu  sync.Mutex
	own map[string]uint64
}

// change sets a number to what next returns of it.
func (n *numbers) change(key string, next func(uint64) uint64) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dir == "memory" {
		n.own[key] = next(n.own[key])
		return n.own[key], nil
	}
	f, err := os.OpenFile(filepath.Join(n.dir, key), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	was, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64) // an empty file is 0
	now := next(was)
	if now == was {
		return now, nil
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%020d", now), 0)
	return now, err
}

func serveNumbers(dir, addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n := &numbers{dir: dir, own: map[string]uint64{}}
	answer := func(next func(r *http.Request) func(uint64) uint64) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			value, err := n.change(r.PathValue("key"), next(r))
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, `{"is": {"now": %d}}`, value)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /add/{key}", answer(func(*http.Request) func(uint64) uint64 { return func(v uint64) uint64 { return v + 1 } }))
	mux.HandleFunc("GET /at/{key}", answer(func(*http.Request) func(uint64) uint64 { return func(v uint64) uint64 { return v } }))
	mux.HandleFunc("PUT /at/{key}", answer(func(r *http.Request) func(uint64) uint64 {
		b, _ := io.ReadAll(r.Body) // a body that is cut off is no number
		to, err := strconv.ParseUint(string(b), 10, 64)
		return func(v uint64) uint64 {
			if err != nil {
				return v
			}
			return to
		}
	}))
	s := &http.Server{Addr: addr, Handler: mux}
	go func() {
		<-ctx.Done()
		s.Close()
	}()
	if err := s.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// A service that keeps its word passes, and one whose processes count on their own does not:
// the report names what its callers saw.
func TestAServiceIsJudgedByItsCallers(t *testing.T) {
	counter := &service.Counter{Keys: 4, Add: "POST /add/{key}", Value: "is.now"}
	register := &service.Register{Keys: 4, Write: "PUT /at/{key}", Body: "{value}", Read: "GET /at/{key}", Value: "is.now"}
	for name, tc := range map[string]struct {
		shared   bool
		kinds    string
		counter  *service.Counter
		register *service.Register
		verdict  string
		broken   []string
	}{
		"a counter that all processes share":  {true, "kill,stop,restart", counter, nil, Passed, nil},
		"a counter of each process":           {false, "kill,restart", counter, nil, Failed, []string{AnsweredTwice, NothingLost + "as its callers saw it", "each counter is linearizable"}},
		"a register that all processes share": {true, "kill,restart", nil, register, Passed, nil},
		"a register of each process":          {false, "kill,restart", nil, register, Failed, []string{"each register is linearizable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := "memory"
			if tc.shared {
				dir = t.TempDir()
			}
			cfg := Config{
				Rounds: 3, Seed: 11, Nodes: 3, Shards: 1, Every: 20 * time.Millisecond, Calm: 10 * time.Millisecond, Kinds: tc.kinds, Counters: 4,
				Service: &service.Spec{Name: "numbers", Command: []string{os.Args[0], serveNumbersArg, "{http}", dir}, Ready: "/ready", Keeps: service.KeepsDisk, Counter: tc.counter, Register: tc.register, File: "numbers.yaml"},
			}
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), &cfg, t.TempDir(), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			var broken []string
			for _, i := range r.Invariants {
				if i.Verdict == Failed && !i.Availability {
					broken = append(broken, i.Name)
				}
				// On a slow machine the availability may not be shown, or broken.
				if i.Verdict == Unknown && !i.Availability && i.Name != "the load stood before the first fault" {
					t.Errorf("%+v", i)
				}
			}
			if !slices.Equal(broken, tc.broken) || tc.verdict == Failed && r.Verdict != Failed {
				t.Errorf("%s, broken %q, want %q", r.Verdict, broken, tc.broken)
			}
			if len(r.Rounds) != 3 || r.Linear.Requests == 0 || r.Availability.Answered == 0 || !strings.HasPrefix(r.Command, "peerage chaos --service numbers.yaml --seed 11") {
				t.Errorf("%d rounds, %d requests checked, %+v, %s", len(r.Rounds), r.Linear.Requests, r.Availability, r.Command)
			}
			for _, ro := range r.Rounds {
				if !ro.TookEffect {
					t.Errorf("%s of %s had no effect", ro.Kind, ro.PlaceNames())
				}
			}
		})
	}
}

func TestAServiceHasNoFaultsOfNodes(t *testing.T) {
	c := Config{
		Rounds: 1, Nodes: 3, Counters: 4, Shards: 1, Every: time.Second, Kinds: "drain,clock", Replicas: 3,
		Service: &service.Spec{Counter: &service.Counter{Keys: 4}},
	}
	err := c.Validate()
	for _, want := range []string{"--faults drain: not with --service", "--faults clock: not with --service", "--replicas"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
