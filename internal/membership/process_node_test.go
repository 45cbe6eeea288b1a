package membership

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/leakcheck"
)

// The process tier: the test binary starts itself as node processes, in network
// namespaces of its own (process_lab_linux_test.go) or on the loopback interface
// (figures_linux_test.go). Every process records its leases and views as they change, on
// the clock that all processes of the machine share; process_check_test.go compares the
// records.

// nodeEnv carries a nodeSpec: a process that finds it set is a node process, not a test.
const nodeEnv = "PEERAGE_TEST_NODE"

// TestMain looks for goroutines that a closed node left behind.
func TestMain(m *testing.M) {
	if spec := os.Getenv(nodeEnv); spec != "" {
		runNode(spec)
		return
	}
	os.Exit(leakcheck.Run(m))
}

// nodeSpec describes a node process.
type nodeSpec struct {
	Addr     string
	Contacts []string
	Evidence gossip.CrashEvidence
}

// config returns the settings of its next incarnation.
func (s *nodeSpec) config() Config {
	cfg := localConfig()
	cfg.Listen, cfg.Join, cfg.CrashEvidence = s.Addr, s.Contacts, s.Evidence
	cfg.SecretKeys, cfg.InsecureTransport = [][]byte{[]byte("0123456789abcdef")}, true
	cfg.Clock = clock.Boot()
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return cfg
}

// rejoinAfter is the pause between incarnations: what package peerage does.
const rejoinAfter = 500 * time.Millisecond

// Events of a record.
const (
	recordStart = "start"
	recordLease = "lease"
	recordView  = "view"
	recordOver  = "over"
)

// record is a line in the log of a node process.
type record struct {
	// At is when the line was written: after the change, before anything followed from
	// it. From is when the change was decided.
	At, From clock.Instant
	Node     gossip.NodeID
	Event    string
	Lease    view.Lease `json:",omitzero"`
	// Held reports whether the lease may be used.
	Held bool         `json:",omitempty"`
	View *gossip.View `json:",omitempty"`
	Why  string       `json:",omitempty"`
}

// recorder writes records, each with one system call: a killed process loses none.
type recorder struct {
	clock clock.Clock
	mu    sync.Mutex
	out   *json.Encoder
}

func (r *recorder) put(x record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.At = r.clock.Now()
	if x.From == 0 {
		x.From = x.At
	}
	if r.out.Encode(x) != nil {
		os.Exit(1) // the test has gone
	}
}

// runNode is a node process: one incarnation after another, until its standard
// input ends or it is killed.
func runNode(text string) {
	var spec nodeSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGUSR1) // then it comes back, as a new incarnation
	log := &recorder{clock: clock.Boot(), out: json.NewEncoder(os.Stdout)}
	cfg := spec.config()
	cfg.trace = tracer{
		lease: func(self gossip.NodeID, l view.Lease, held bool, from clock.Instant) {
			log.put(record{From: from, Node: self, Event: recordLease, Lease: l, Held: held})
		},
		view: func(self gossip.NodeID, v *gossip.View) {
			log.put(record{Node: self, Event: recordView, View: v})
		},
	}
	for {
		n, err := Start(context.Background(), cfg)
		if err != nil {
			log.put(record{Event: recordOver, Why: err.Error()})
			<-time.After(rejoinAfter)
			continue
		}
		log.put(record{Node: n.self.ID, Event: recordStart})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			select {
			case <-leave:
				_ = n.Leave(ctx)
			case <-ctx.Done():
			}
		}()
		<-n.over
		cancel()
		if v := n.View(); v != nil {
			cfg.MinGeneration = max(cfg.MinGeneration, v.Epoch.Generation())
		}
		log.put(record{Node: n.self.ID, Event: recordOver, Why: n.Status().Over})
		_ = n.Close()
		<-time.After(rejoinAfter)
	}
}
