package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// pictureProbe runs in the frame of the picture: it reports what is drawn there, again and again.
const pictureProbe = `<script>
setInterval(() => {
  const boxes = [...document.querySelectorAll(".history-rect")].map((r) => r.getBoundingClientRect());
  if (!boxes.length) return;
  const texts = [...document.querySelectorAll(".history-text")].map((r) => r.getBoundingClientRect());
  parent.postMessage({
    boxes: boxes.length, fit: texts.filter((t, i) => t.width > 1 && t.width <= boxes[i].width).length,
    seen: boxes.filter((b) => b.width > 1 && b.height > 1 && b.left < innerWidth && b.top < innerHeight).length,
    paints: performance.getEntriesByName("first-contentful-paint").length,
  }, "*");
}, 50);
</script></body>`

// pageProbe opens the picture as a person does, and passes its report on.
const pageProbe = `<script>
const errors = [];
addEventListener("error", (e) => errors.push(e.message));
addEventListener("message", (e) => {
  if (!e.data.paints) return;
  const foreign = performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith(location.origin));
  fetch("report", { method: "POST", body: JSON.stringify({ ...e.data, errors, foreign, wide: document.documentElement.scrollWidth - innerWidth, background: getComputedStyle(document.body).backgroundColor }) });
});
addEventListener("load", () => setTimeout(() => { document.querySelector("details summary").click(); document.querySelector("iframe").scrollIntoView(); }, 200));
</script></body>`

// drawn is the report of the probes.
type drawn struct {
	Boxes, Fit, Seen int
	Wide             float64
	Errors, Foreign  []string
	Background       string
}

// picture is one that porcupine draws, of n requests of which one is illegal.
func picture(t *testing.T, n int) string {
	t.Helper()
	model := porcupine.Model{
		Init:              func() any { return 0 },
		Step:              func(state, _, output any) (bool, any) { return output.(int) == state.(int)+1, output },
		DescribeOperation: func(_, output any) string { return fmt.Sprintf("add 1: %d", output) },
	}
	var ops []porcupine.Operation
	for i := range n {
		count := i + 1
		if i == n/2 {
			count = 1000
		}
		ops = append(ops, porcupine.Operation{ClientId: i % 3, Output: count, Call: int64(10 * i), Return: int64(10*i + 15)})
	}
	_, info := porcupine.CheckOperationsVerbose(model, ops, time.Minute)
	var b bytes.Buffer
	if err := porcupine.Visualize(model, info, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// In a browser, at two widths and in both colour schemes: the picture is drawn, and each
// of its boxes has room for its text. A frame that is hidden while it loads measures no text. The page has no error, needs no horizontal scroll, and loads nothing.
func TestThePictureIsDrawnInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no browser is started")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is not installed (Debian: apt-get install chromium)")
	}
	const requests = 12
	r := sample()
	r.Linear.Picture = strings.Replace(picture(t, requests), "</body>", pictureProbe, 1)
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	html := strings.Replace(b.String(), "</body></html>", pageProbe+"</html>", 1)
	for name, c := range map[string]struct {
		flags []string
		dark  bool
	}{
		"1200 light": {[]string{"--window-size=1200,900"}, false},
		"600 dark":   {[]string{"--window-size=600,900", "--blink-settings=preferredColorScheme=0"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := browsePage(t, path, html, c.flags)
			if got.Boxes != requests || got.Fit != requests || got.Seen == 0 {
				t.Errorf("of %d requests %d boxes are drawn, %d in sight, %d as wide as their text", requests, got.Boxes, got.Seen, got.Fit)
			}
			if got.Wide > 0 || len(got.Errors) > 0 || len(got.Foreign) > 0 {
				t.Errorf("%.0f px too wide, errors %q, requests to other hosts %q", got.Wide, got.Errors, got.Foreign)
			}
			if is := strings.Contains(got.Background, "20, 22, 24"); is != c.dark {
				t.Errorf("dark is %v, want %v: background %s", is, c.dark, got.Background)
			}
		})
	}
}

// browsePage opens a page in the browser, and returns the first report of its probes.
func browsePage(t *testing.T, browser, html string, flags []string) (got drawn) {
	t.Helper()
	reports := make(chan drawn, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, html) })
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var d drawn
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			t.Error(err)
		}
		select {
		case reports <- d:
		default: // one is enough
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	profile, err := os.MkdirTemp("", "peerage-browser-")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-port=0", "--user-data-dir=" + profile,
	}, flags...)
	cmd := exec.CommandContext(t.Context(), browser, append(args, s.URL+"/")...)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		s.CloseClientConnections()
		for deadline := time.After(time.Minute); os.RemoveAll(profile) != nil; { // its processes write until they have ended
			select {
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Errorf("%s cannot be removed", profile)
				return
			}
		}
	}()
	select {
	case got = <-reports:
	case <-time.After(time.Minute):
		t.Fatal("no report after a minute")
	}
	return got
}
