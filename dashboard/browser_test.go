package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding"
)

var images = flag.Bool("images", false, "take the screenshots in docs/images")

// chromium returns the path of the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no browser is started")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is not installed (Debian: apt-get install chromium)")
	}
	return path
}

// browse starts the browser with a page. It ends with the test.
func browse(t *testing.T, url string, flags ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir=" + profile(t),
	}, flags...)
	cmd := exec.CommandContext(t.Context(), chromium(t), append(args, url)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// profile returns a directory for one browser. The browser's helper processes end some time after
// it was killed, and write there until then, so the directory is removed until nothing is left.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "peerage-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		deadline := time.After(time.Minute)
		for os.RemoveAll(dir) != nil {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Errorf("%s cannot be removed", dir)
				return
			}
		}
	})
	return dir
}

// probe is a script that a test adds to the page. It plays a person at the keyboard and
// reports what is to be seen.
const probe = `
const errors = [];
addEventListener("error", (e) => errors.push(e.message));
addEventListener("unhandledrejection", (e) => errors.push(String(e.reason)));
const until = (ok) => new Promise((done) => { const look = () => ok() ? done() : setTimeout(look, 10); look(); });
await until(() => document.body.dataset.updates);
document.addEventListener("securitypolicyviolation", (e) => errors.push("policy: " + e.blockedURI));
const report = { title: document.querySelector("h1").textContent, cells: document.querySelectorAll(".cell").length };
press("/");
function press(k) { document.body.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true })); }
report.focus = document.activeElement.id;
document.activeElement.value = "type-00 / ada";
document.getElementById("search").requestSubmit();
await until(() => document.getElementById("detail").textContent.includes("mailbox"));
report.found = document.getElementById("detail").textContent;
document.getElementById("passivate").click();
await until(() => document.getElementById("detail").textContent.includes("ends on n0"));
report.wide = document.documentElement.scrollWidth - innerWidth;
const tabbed = [...document.querySelectorAll(".cell")].filter((c) => c.tabIndex === 0);
report.stops = tabbed.length;
tabbed[0].focus();
for (const key of ["ArrowRight", "ArrowDown"]) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
report.arrows = [document.activeElement.dataset.shard, document.activeElement.closest(".maprow").querySelector("b").textContent].join(" of ");
document.activeElement.click();
await until(() => document.getElementById("detail").textContent.includes("shard 1 of type-00"));
report.handoffs = document.getElementById("kpis").textContent.includes("handoffs /s");
press("Escape");
report.closed = document.getElementById("detail").hidden;
report.background = getComputedStyle(document.body).backgroundColor;
const began = performance.now();
await fetch("kill");
await until(() => document.getElementById("events").textContent.includes("n2 crashed"));
await until(() => document.getElementById("members").textContent.includes("gone"));
report.killMillis = performance.now() - began;
report.foreign = performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith(location.origin));
report.errors = errors;
await fetch("report", { method: "POST", body: JSON.stringify(report) });
`

type report struct {
	Title, Focus, Found, Background string
	Arrows                          string
	Cells, Stops                    int
	Handoffs                        bool
	Wide, KillMillis                float64
	Closed                          bool
	Foreign, Errors                 []string
}

// crashStates counts the states that a page is sent from a crash on, up to the one that shows it. The
// count is taken where the states are sent: a browser that waits for a processor draws them late.
type crashStates struct {
	mu      sync.Mutex
	crashed bool
	sent    int
	// shown is the number of the state that shows the crash, 0 before it is sent.
	shown int
}

// kill begins to count, and removes the third member.
func (c *crashStates) kill(f *invented, h *hub) {
	c.mu.Lock()
	c.crashed = true
	c.mu.Unlock()
	f.kill(h)
}

// count counts a state.
func (c *crashStates) count(state []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.crashed || c.shown > 0 {
		return
	}
	if c.sent++; bytes.Contains(state, []byte(`"gone":"crashed"`)) {
		c.shown = c.sent
	}
}

// number returns the number of the state that shows the crash.
func (c *crashStates) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}

// countedStream counts the states that are written to a page, each in one Write.
type countedStream struct {
	http.ResponseWriter
	states *crashStates
}

// Write implements io.Writer.
func (s *countedStream) Write(state []byte) (int, error) {
	s.states.count(state)
	return s.ResponseWriter.Write(state)
}

// Unwrap serves http.ResponseController.
func (s *countedStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// probed serves the page with the probe, and returns its reports and the states that show a crash.
func probed(t *testing.T, f *invented) (*httptest.Server, <-chan report, *crashStates) {
	h := newHub(f, Options{Streams: 2, AllowPassivate: true, Logger: discarded()})
	page, reports, states := h.routes(), make(chan report, 1), &crashStates{}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		page.ServeHTTP(rec, r)
		w.Header().Set("Content-Security-Policy", policy)
		fmt.Fprint(w, strings.Replace(rec.Body.String(), "</head>", `<script type="module" src="probe.js"></script></head>`, 1))
	})
	mux.HandleFunc("/probe.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, probe)
	})
	mux.HandleFunc("/kill", func(http.ResponseWriter, *http.Request) { states.kill(f, h) })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(&countedStream{w, states}, r) })
	mux.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		var got report
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		reports <- got
	})
	mux.Handle("/", page)
	s := httptest.NewServer(mux)
	t.Cleanup(s.CloseClientConnections)
	return s, reports, states
}

// kill removes the third member, as a crash does.
func (f *invented) kill(h *hub) {
	f.mu.Lock()
	gone := f.cluster.View.Members[2]
	next := *f.cluster.View
	next.Epoch++
	next.Members = append(append([]gossip.Member(nil), next.Members[:2]...), next.Members[3:]...)
	f.cluster.View = &next
	f.cluster.Nodes = append(append([]figures.Node(nil), f.cluster.Nodes[:2]...), f.cluster.Nodes[3:]...)
	f.mu.Unlock()
	h.onEvent(gossip.MemberRemoved{Member: gone, Cause: gossip.CauseDead, Evidence: "refused"})
}

// In a browser, at two widths and in both colour schemes: the page loads, answers the
// keyboard, shows a crash within 2 s, has no error, needs no horizontal scroll, and requests
// nothing from other hosts.
func TestThePageInABrowser(t *testing.T) {
	chromium(t)
	for _, c := range []struct {
		name  string
		flags []string
		dark  bool
	}{
		{"1280 light", []string{"--window-size=1280,900"}, false},
		{"640 dark", []string{"--window-size=640,900", "--blink-settings=preferredColorScheme=0"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, reports, states := probed(t, invent(4, 40, 1000))
			cmd := browse(t, s.URL+"/", append(c.flags, "--remote-debugging-port=0", "--enable-logging=stderr", "--log-level=0")...)
			var log bytes.Buffer
			cmd.Stderr = &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var got report
			select {
			case got = <-reports:
			case <-time.After(time.Minute):
				t.Error("no report after a minute")
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			checkReport(t, &got, c.dark)
			// Each state takes a poll, and polls after an event are pollApart apart: on a machine
			// that keeps up, three of them take less than the 2 s that are promised.
			t.Logf("a crash is shown after %.0f ms, by state %d", got.KillMillis, states.number())
			if n := states.number(); n < 1 || n > 3 {
				t.Errorf("a crash is shown by state %d after it, want 3 at most", n)
			}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, ":CONSOLE") {
					t.Errorf("on the console: %s", line)
				}
			}
		})
	}
}

func checkReport(t *testing.T, got *report, dark bool) {
	t.Helper()
	if !strings.Contains(got.Title, "all leases valid") || got.Cells != 1000 {
		t.Errorf("the page shows %q and %d shards", got.Title, got.Cells)
	}
	if got.Focus != "query" || !strings.Contains(got.Found, "3 messages waiting") || !got.Closed {
		t.Errorf("the keyboard: focus on %q, found %q, closed %v", got.Focus, got.Found, got.Closed)
	}
	if got.Stops != 1 || got.Arrows != "1 of n1" || !got.Handoffs {
		t.Errorf("the shards: %d stops of the Tab key, right and down from shard 0 is shard %s; handoffs: %v", got.Stops, got.Arrows, got.Handoffs)
	}
	if got.Wide > 0 || len(got.Errors) > 0 || len(got.Foreign) > 0 {
		t.Errorf("%.0f px too wide, errors %q, requests to other hosts %q", got.Wide, got.Errors, got.Foreign)
	}
	if is := strings.Contains(got.Background, "20, 22, 24"); is != dark {
		t.Errorf("dark is %v, want %v: background %s", is, dark, got.Background)
	}
}

// The screenshots in docs, with invented data: a cluster some seconds after a crash.
func TestScreenshots(t *testing.T) {
	if !*images {
		t.Skip("-images takes the screenshots in docs/images")
	}
	for name, flags := range map[string][]string{
		"dashboard": {"--window-size=1280,1000"}, "dashboard-dark": {"--window-size=1280,1000", "--blink-settings=preferredColorScheme=0"},
	} {
		page := afterACrash().routes()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				rec := httptest.NewRecorder()
				page.ServeHTTP(rec, r)
				fmt.Fprint(w, strings.Replace(rec.Body.String(), "</head>", `<script type="module" src="late.js"></script></head>`, 1))
			case "/late.js": // holds the screenshot up until a few states are drawn
				<-time.After(4 * time.Second)
				w.Header().Set("Content-Type", "text/javascript")
			default:
				page.ServeHTTP(w, r)
			}
		}))
		file := "../docs/images/" + name + ".png"
		if out, err := browse(t, s.URL+"/", append(flags, "--timeout=20000", "--screenshot="+file)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		if st, err := os.Stat(file); err != nil || st.Size() > 300<<10 {
			t.Errorf("%v, %v", st, err)
		}
		s.CloseClientConnections()
	}
}

// moving is an invented cluster whose counters and clock go on with each poll.
type moving struct {
	*invented
	polls int
}

func (f *moving) Collect(ctx context.Context) figures.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polls++
	f.cluster.At = time.Now()
	c := f.cluster
	c.Nodes = nil
	for i, n := range f.cluster.Nodes {
		n.Types = slices.Clone(n.Types)
		for j := range n.Types {
			t := &n.Types[j]
			t.Handled = uint64(f.polls * (4000 - 1500*j + 100*i + 50*(f.polls%3)))
			t.AskBuckets = make([]uint64, len(figures.LatencyBounds())+1)
			for k := range t.AskBuckets {
				t.AskBuckets[k] = t.Handled * uint64(min(1000, 200+300*k)) / 1000
			}
		}
		n.Data = slices.Clone(n.Data)
		for j := range n.Data {
			n.Data[j].WriteBuckets, n.Data[j].ReadBuckets = n.Types[0].AskBuckets, n.Types[1].AskBuckets
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

func afterACrash() *hub {
	f := &moving{invented: invent(5, 3, 256)}
	for i := range f.cluster.Nodes {
		n, m := &f.cluster.Nodes[i], &f.cluster.View.Members[i]
		n.Name, n.UpSeconds, n.MemoryBytes = string(rune('a'+i)), 6*24*3600, 81<<20
		m.Name, m.Addr, m.AppVersion, m.Zone = n.Name, fmt.Sprintf("10.0.0.%d:7101", 7+i), "1.8.2", string("xyz"[i%3])
		n.Lease.LeftSeconds = 2.9 - 0.1*float64(i)
		for _, to := range []gossip.NodeID{1, 2, 4, 5} {
			if to != n.ID {
				n.Links = append(n.Links, figures.Link{Node: to, Out: true, In: true})
			}
		}
		n.Data = []figures.DataSet{{Keys: 2318, Bytes: 1 << 18, Tombstones: 41, Settled: true}}
		for j, name := range []string{"cart", "session", "lobby"} {
			n.Types[j].Name, n.Types[j].Entities, n.Types[j].Shards = name, 8000-3000*j, 64
		}
	}
	h := newHub(f, Options{Streams: 2, Logger: discarded()})
	for _, m := range f.cluster.View.Members {
		h.onEvent(gossip.MemberJoined{Member: m})
	}
	h.lost = map[gossip.NodeID]time.Duration{3: 21 * time.Millisecond}
	f.kill(h)
	f.shards.Nodes = nil
	for _, id := range []gossip.NodeID{1, 2, 4, 5} {
		f.shards.Nodes = append(f.shards.Nodes, sharding.NodeStats{Node: id})
	}
	for i := range 256 {
		n := &f.shards.Nodes[i%4]
		n.Shards = append(n.Shards, sharding.ShardStats{Shard: sharding.ShardID(i), Entities: 100 + i%51})
	}
	for j := range f.cluster.Nodes[0].Types {
		t := &f.cluster.Nodes[0].Types[j]
		t.Moves = []figures.Moves{{From: 3, Why: "its home left the view", Shards: 51, Hosted: 51, Began: time.Now(), ChosenMillis: 1.1, WrittenMillis: 4.2, DoneMillis: 6.9}}
	}
	return h
}
