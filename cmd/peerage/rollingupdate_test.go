package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/internal/wire"
)

// nextVersion makes a release of the next wire version: each message, each body and each frame
// has one more field, which that release reads if it is there, and one kind of frame is new.
// For each file: the lines that it has, and those of the next release.
var nextVersion = map[string][]string{
	"internal/wire/version.go": {"\tNewest = " + strconv.Itoa(wire.Newest) + "\n", "\tNewest = " + strconv.Itoa(wire.Newest+1) + "\n"},
	"internal/wire/messages.go": {
		"\ts.Code(m, c)\n\tb = c.out\n", "\ts.Code(m, c)\n\tc.codeLater()\n\tb = c.out\n",
		"\tif s.Code(m, c); c.in.err", "\ts.Code(m, c)\n\tif c.codeLater(); c.in.err",
	},
	"internal/wire/coder.go": {
		"\t\tfields(c)\n\t\tc.insertLength(at)\n", "\t\tfields(c)\n\t\tc.codeLater()\n\t\tc.insertLength(at)\n",
		"\tif fields(c); c.in.err", "\tfields(c)\n\tif c.codeLater(); c.in.err",
		"// insertLength sets", `// codeLater codes the field that the next version has added.
func (c *Coder) codeLater() {
	if later := "later"; c.Added(Newest) {
		if c.String("later", &later, 5); later != "later" {
			c.Fail(ErrTruncated)
		}
	}
}

// insertLength sets`,
	},
	"internal/transport/hello.go": {
		"\twire.U64(c, &h.want)\n", "\twire.U64(c, &h.want)\n\tif later := \"later\"; c.Added(wire.Newest) {\n\t\tc.String(\"later\", &later, 5)\n\t}\n",
	},
	"internal/core/replication/codec.go": {
		"func Append(b []byte, m Message) []byte {\n", "func Append(b []byte, m Message) []byte { return append(appendThis(b, m), \"later\"...) }\n\nfunc appendThis(b []byte, m Message) []byte {\n",
	},
	"internal/core/standby/wire.go": {
		"func Append(b []byte, m Message) []byte {\n", "func Append(b []byte, m Message) []byte { return append(appendThis(b, m), \"later\"...) }\n\nfunc appendThis(b []byte, m Message) []byte {\n",
	},
	"internal/core/mover/wire.go": {
		"\treturn wire.AppendBool(b, a.Restart)\n", "\treturn append(wire.AppendBool(b, a.Restart), \"later\"...)\n",
		"\t\tb = wire.AppendBytes(b, st.Data)\n\t}\n\treturn b\n", "\t\tb = wire.AppendBytes(b, st.Data)\n\t}\n\treturn append(b, \"later\"...)\n",
	},
	"internal/delivery/frames/request.go": {
		"\tif chain.Len() == 0 {\n\t\treturn appendHeaders(appendFlagged(b, typ, shard, id, call, from, flags), h)\n\t}\n",
		"\tflags |= flagLater\n\tif chain.Len() == 0 {\n\t\treturn wire.AppendString(appendHeaders(appendFlagged(b, typ, shard, id, call, from, flags), h), \"later\")\n\t}\n",
		"\treturn appendHeaders(chain.Append(append(b, byte(chain.Len()))), h)\n",
		"\treturn wire.AppendString(appendHeaders(chain.Append(append(b, byte(chain.Len()))), h), \"later\")\n",
	},
	"internal/delivery/frames/reply.go": {
		"\treturn append(b, byte(c))\n", "\treturn wire.AppendString(append(b, byte(c)|codeLater), \"later\")\n",
	},
	"internal/delivery/endpoint/inbound.go": {
		"\t\ts.Out.Send(from, []byte{byte(frames.KindHelloAck)})\n", "\t\ts.Out.Send(from, []byte{200, 1, 2, 3})\n\t\ts.Out.Send(from, []byte{byte(frames.KindHelloAck)})\n",
	},
}

// buildNextVersion builds this command as the release of the next wire version, from copies of
// the sources.
func buildNextVersion(t *testing.T) (binary string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for file, changes := range nextVersion {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(source)
		for i := 0; i < len(changes); i += 2 {
			if strings.Count(text, changes[i]) != 1 {
				t.Fatalf("%s has no longer once: %q", file, changes[i])
			}
			text = strings.Replace(text, changes[i], changes[i+1], 1)
		}
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "peerage")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// updateProcess replaces the process at a place by one of another version, as a rolling update does.
func updateProcess(ctx context.Context, t *testing.T, f *fleet.Fleet, i int, binary string) {
	t.Helper()
	last, _ := f.Now[i].Snapshot()
	if err := f.Now[i].Finish(); err != nil {
		t.Fatal(err)
	}
	f.Now[i], f.Binary = nil, binary
	p, err := f.Start(i, last.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitForReadiness(ctx); err != nil {
		t.Fatal(err)
	}
}

// awaitAnswers waits until the callers of all processes have had so many more answers.
func awaitAnswers(ctx context.Context, t *testing.T, f *fleet.Fleet, answers uint64) {
	t.Helper()
	until := f.Totals().Answered + answers
	for f.Totals().Answered < until {
		if err := harness.Pause(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("%d answers, waiting for %d: %v", f.Totals().Answered, until, err)
		}
	}
}

// checkVersions checks the highest wire version that all members speak, as the node at a place has it
// in its view.
func checkVersions(ctx context.Context, t *testing.T, f *fleet.Fleet, i int, newest uint16) {
	t.Helper()
	r, _ := f.Now[i].Snapshot()
	c, err := client.New(client.Config{Nodes: []string{r.HTTP}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if oldest, got := s.View.WireVersions(); oldest != wire.Oldest || got != newest {
		t.Errorf("the members speak versions %d to %d, want %d to %d", oldest, got, wire.Oldest, newest)
	}
}

// TestRollingUpdateBetweenVersions rolls a loaded cluster to the next wire version and back, with
// both versions mixed for a while. No ask fails, no counter lives twice, no reliable message runs
// twice, and no read of replicated data is stale.
func TestRollingUpdateBetweenVersions(t *testing.T) {
	testsize.OnlyFull(t) // it compiles most of the module once more
	t.Parallel()
	const places, counters, answers = 3, 32, 500
	next := buildNextVersion(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	f := &fleet.Fleet{Dir: t.TempDir(), Counters: counters, Shards: counters, Every: 20 * time.Millisecond, Replicas: 2, Registers: 4, Set: true, Reliable: true}
	defer f.End()
	if err := f.Up(ctx, places); err != nil {
		t.Fatal(err)
	}
	awaitAnswers(ctx, t, f, answers)
	checkVersions(ctx, t, f, 0, wire.Newest)
	for _, binary := range []string{next, ""} {
		for i := range places {
			updateProcess(ctx, t, f, i, binary)
			awaitAnswers(ctx, t, f, answers)
			switch {
			case i < places-1:
				checkVersions(ctx, t, f, i, wire.Newest) // mixed
			case binary == next:
				checkVersions(ctx, t, f, i, wire.Newest+1)
			default:
				checkVersions(ctx, t, f, i, wire.Newest)
			}
		}
	}
	totals := f.Totals()
	for reason := range totals.Tries { // order-free: each is reported
		// A majority write waits for the end of a restart, and an overloaded machine misses deadlines.
		if reason != "deadline" && !strings.HasPrefix(reason, "data: ") {
			t.Errorf("asks failed: %s", reason)
		}
	}
	if totals.GaveUp != 0 {
		t.Errorf("asks failed: %+v", totals)
	}
	f.End()
	records, err := f.Records()
	if err != nil {
		t.Fatal(err)
	}
	doubles := history.Doubles(records)
	stale, reads := history.StaleReads(records, nil, nil, nil)
	reruns, ran := history.Reruns(records, nil)
	if len(doubles)+len(stale)+len(reruns) != 0 || reads == 0 || ran == 0 {
		t.Errorf("doubles %v, %d stale reads of %d: %v, %d reruns of %d: %v", doubles, len(stale), reads, stale, len(reruns), ran, reruns)
	}
}
