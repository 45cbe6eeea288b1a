package spacetime

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/record"
)

// small is a recording with one of each.
func small() *record.Recording {
	return &record.Recording{
		Hosts: 2, End: 100 * time.Millisecond,
		Bars: []record.Bar{
			{Kind: record.Life, Host: 0, From: 0, To: 100e6, Name: "a"},
			{Kind: record.View, Host: 0, From: 10e6, To: 100e6, Name: "a b*", Group: "1"},
			{Kind: record.View, Host: 1, From: 20e6, To: 90e6, Name: "a b*", Group: "1"},
			{Kind: record.Lease, Host: 1, From: 20e6, To: 60e6, End: "expired"},
			{Kind: record.Shard, Host: 0, From: 10e6, To: 50e6, Name: "t0", Group: "t0"},
			{Kind: record.Shard, Host: 0, From: 30e6, To: 40e6, Name: "t1", Group: "t1"},
			{Kind: record.Shard, Host: 0, From: 50e6, To: 60e6, Name: "t2", Group: "t2", Text: `"<t2>"`},
			{Kind: record.Cut, Host: 1, Peer: 0, From: 40e6, To: 70e6, Group: "0"},
		},
		Marks: []record.Mark{
			{Host: 1, At: 90e6, Weight: record.Fault, Kind: "crashed", Text: "the process is killed"},
			{Host: 0, At: 30e6, Weight: record.Step, Kind: "commits", Text: "commits a view"},
			{Host: -1, At: 95e6, Weight: record.Failure, Kind: "failure", Text: "S1: <two> homes"},
		},
		Messages: []record.Message{
			{Class: record.Order, From: 0, To: 1, Sent: 1e6, Handled: 2500e3, Text: "first"},
			{Class: record.Order, From: 1, To: 0, Sent: 3e6, Handled: -1, Text: "never"},
			{Class: record.Heartbeat, From: 1, To: 0, Sent: 5e6, Handled: 6e6, Text: "ping </script>"},
		},
		Handlers: []record.Handler{{Host: 0, At: 15e6, Bar: 4, Entity: 7, Text: "tell 1 of b to entity 7"}},
	}
}

func render(t *testing.T, p *Page) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The structure of the diagram: the numbers of its elements, and places that follow from times.
func TestStructureOfTheDiagram(t *testing.T) {
	l := newLayout(small())
	svg := string(drawRun(l))
	for want, n := range map[string]int{
		`class="host"`: 2, `<rect class="lane"`: 2, `data-g="1"`: 2, `data-g="t0"`: 1, `class="fault crash"`: 1, `class="step"`: 1, `class="failure"`: 1,
		`<rect x="20" y="`: 2, `<path class="lost"`: int(record.Classes), `style="display:none"`: 3, `<text class="in"`: 5,
		`&#34;&lt;t2&gt;&#34;`: 1, `1: a b*</text>`: 2,
	} {
		if got := strings.Count(svg, want); got != n {
			t.Errorf("%d of %s, want %d", got, want, n)
		}
	}
	a, b := formatNumber(l.lanes[0].line), formatNumber(l.lanes[1].line)
	for _, want := range []string{
		fmt.Sprintf(`<g class="m m2" id="m2"><path d="M1 %sL2.5 %s"/><path class="lost" d="M3 %sV`, a, b, b),
		fmt.Sprintf(`<g class="m m0" id="m0" style="display:none"><path d="M5 %sL6 %s"/>`, b, a),
		fmt.Sprintf(`transform="scale(%s 1)"`, formatNumber((width-gutter)/100)),
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the diagram has no %s", want)
		}
	}
	if l.row[4] != 0 || l.row[5] != 1 || l.row[6] != 0 {
		t.Errorf("rows %v: the second shard lives beside the first, the third after it", l.row)
	}
	isWellFormed(t, svg)
}

// isWellFormed reports an error of the SVG as XML.
func isWellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestThePageHasTheListTheVerdictAndNothingFromElsewhere(t *testing.T) {
	got := render(t, &Page{Title: "Seed 7", Failure: "S1: <two> homes", Command: "peerage sim --seed 7", Recording: small(), Facts: []Fact{{"nodes", "2"}}})
	for _, want := range []string{
		"✗ FAIL", "S1: &lt;two&gt; homes", "peerage sim --seed 7", `id="failed"`, "<dt>nodes</dt><dd>2</dd>",
		`<button class="ends" data-at="60"><time>0.060</time><b>b</b><span>the lease ends: nothing acts here</span>`,
		`<button class="fault" data-at="90"><time>0.090</time><b>b</b><span>the process is killed</span>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if foreign := regexp.MustCompile(`(?i)(src|href|url)\s*[=(]|https?://|@import`).FindAllString(got, -1); len(foreign) > 0 {
		t.Errorf("the page refers to %q", foreign)
	}
	if n := strings.Count(got, "</script>"); n != 2 {
		t.Errorf("%d scripts end: a text of the run ends one", n)
	}
	if left := render(t, &Page{Recording: &record.Recording{Hosts: 1, MessagesLeftOut: 3}}); !strings.Contains(left, "the oldest 3 messages are missing") || !strings.Contains(left, "✓ PASS") {
		t.Error("the page does not report what is missing, or the verdict")
	}
}

// A recorded run has the hash of one that is not, and its page stays small.
func TestARecordedRunIsTheSameRun(t *testing.T) {
	for seed := range uint64(25) {
		plain, recorded := sim.Run(sim.Config{Seed: seed}), sim.Run(sim.Config{Seed: seed, Record: true})
		if plain.Hash != recorded.Hash || plain.Recording != nil {
			t.Errorf("seed %d: hashes %x and %x", seed, plain.Hash, recorded.Hash)
		}
		rec := recorded.Recording
		if n := len(render(t, &Page{Recording: rec})); n > 5<<20 {
			t.Errorf("seed %d: the page has %d bytes", seed, n)
		}
		handled := 0
		for i := range rec.Messages {
			if m := &rec.Messages[i]; m.Handled >= 0 {
				handled++
				if m.Handled < m.Sent {
					t.Fatalf("seed %d: %+v arrives before it is sent", seed, m)
				}
			}
		}
		if handled > recorded.Delivered || rec.MessagesLeftOut == 0 && recorded.Delivered > 0 && handled < recorded.Delivered*8/10 {
			t.Errorf("seed %d: %d messages arrive in the recording, %d in the run", seed, handled, recorded.Delivered)
		}
		isWellFormed(t, string(drawRun(newLayout(rec))))
	}
}

// pageProbe uses the page as a person does, and writes its findings into the page.
const pageProbe = `<script>
const found = { errors: [], steps: [] };
addEventListener("error", (e) => found.errors.push(e.message));
const seen = (name, what) => found.steps.push(name + "=" + what);
const wait = async () => { await new Promise((go) => setTimeout(go, 60)); draw(); }; // a page that is dumped has no frames
(async () => {
  await wait();
  seen("range", id("range").textContent);
  id("in").click(); await wait();
  seen("in", Math.round(shown));
  document.querySelector("#events button").click(); await wait();
  seen("event", Math.round(from) + "-" + Math.round(from + shown));
  const box = document.querySelector("input[value=m0]");
  seen("heartbeats", id("m0").style.display);
  box.click(); await wait();
  seen("heartbeats", id("m0").style.display || "shown");
  id("all").click(); await wait();
  svg.scrollIntoView();
  const at = svg.getBoundingClientRect(), mark = document.querySelector("#marks .crash").getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: mark.left + mark.width / 2, clientY: mark.top + mark.height / 2, bubbles: true }));
  seen("hover", tip.textContent.split("\n")[0]);
  const unit = at.width / (width + gutter), m = segments.find((s) => s.kind === "m2" && !s.lost);
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: at.left + (gutter + x((m.a + m.b) / 2)) * unit, clientY: at.top + (m.y + m.z) / 2 * unit, bubbles: true }));
  seen("message", tip.textContent.split("\n")[0]);
  const bar = document.querySelector("rect[data-g=t0]").getBoundingClientRect();
  follow({ clientX: bar.left + bar.width / 2, clientY: bar.top + bar.height / 2 });
  seen("follow", document.querySelectorAll("rect.on").length);
  seen("heads", id("heads").getAttribute("d").split("M").length - 1);
  seen("resources", performance.getEntriesByType("resource").length);
  seen("wide", document.documentElement.scrollWidth - innerWidth);
  seen("background", getComputedStyle(document.body).backgroundColor);
  document.title = JSON.stringify(found);
})();
</script></body>`

// In a browser, in both colour schemes: zooming, the list, the filter, the details and following a
// shard work, without an error, and the page loads nothing.
func TestThePageWorksInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no browser is started")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is not installed (Debian: apt-get install chromium)")
	}
	page := strings.Replace(render(t, &Page{Title: "Seed 7", Recording: small()}), "</body>", pageProbe, 1)
	for name, c := range map[string]struct{ flag, background string }{
		"light": {"--window-size=1400,900", "rgb(251, 251, 249)"},
		"dark":  {"--blink-settings=preferredColorScheme=0", "rgb(20, 22, 24)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := probePage(t, path, page, c.flag)
			want := `{"errors":[],"steps":["range=0.000 s to 0.100 s of 0.10 s","in=50","event=35-85","heartbeats=none","heartbeats=shown",` +
				`"hover=b the process is killed","message=first","follow=1","heads=2","resources=0","wide=0","background=` + c.background + `"]}`
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// probePage opens a page in the browser, and returns the title that its probe has set.
func probePage(t *testing.T, browser, page, flag string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--virtual-time-budget=5000", flag, "--dump-dom", "file://"+file)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, title, _ := strings.Cut(string(out), "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	return html.UnescapeString(title)
}
