package peerage_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
)

// statusPage returns the node's answer to GET /status.
func statusPage(t *testing.T, m *member) peerage.Status {
	t.Helper()
	_, body := page(m.Node, "/status")
	var st peerage.Status
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// TestReadinessNamesFilesThatWereSetAside: while a node changes its incarnation since its
// files are another cluster's, /readyz and /status name that reason. Once it is ready,
// /status still names the copies.
func TestReadinessNamesFilesThatWereSetAside(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		const reason = "files of durable keys are of another cluster of this name"
		var log logBook
		dir := t.TempDir()
		laptop := c.onDisk(t, "laptop", "10.0.0.9:7101", dir, &log)
		c.ready(laptop)
		if err := laptop.Close(); err != nil {
			t.Fatal(err)
		}
		a := c.onDisk(t, "a", "10.0.0.1:7101", t.TempDir(), &log)
		c.ready(a)
		laptop = c.onDisk(t, "laptop", "10.0.0.9:7101", dir, &log, a.addr)
		var named, shown bool
		c.until(30*time.Second, "the laptop is a member", func() bool {
			_, body := page(laptop.Node, "/readyz")
			named = named || strings.Contains(body, reason) && strings.Contains(body, "set aside")
			shown = shown || strings.Contains(statusPage(t, laptop).NotReady, reason)
			return laptop.Ready()
		})
		if !named || !shown {
			t.Errorf("the reason was named by /readyz: %t, by /status: %t", named, shown)
		}
		if st := statusPage(t, laptop); st.NotReady != "" || len(st.FilesSetAside) != 2 || !strings.HasPrefix(st.FilesSetAside[0], dir) {
			t.Errorf("ready, but NotReady is %q; set aside %q", st.NotReady, st.FilesSetAside)
		}
	})
}

// TestReadinessNamesTheEndOfTheLastIncarnation: a node with RejoinAfter negative stays out,
// and one that has lost its cluster is about to join again. /readyz and /status distinguish
// the two and name the reason of the end.
func TestReadinessNamesTheEndOfTheLastIncarnation(t *testing.T) {
	for name, tc := range map[string]struct {
		rejoin time.Duration
		want   string
		logged string
	}{
		"stays out":   {-1, "RejoinAfter is negative", "start the process again"},
		"joins again": {10 * time.Second, "joins again", "joins again as a new one"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(c *cluster) {
				var log logBook
				out := c.addWith(3, func(c *peerage.Config) {
					c.RejoinAfter, c.Logger = tc.rejoin, slog.New(slog.NewTextHandler(&log, nil))
				}, nil)
				c.ready(c.nodes...)
				c.net.Split(peerage.CutDropped, []string{c.nodes[0].addr, c.nodes[1].addr, c.nodes[2].addr}, []string{out.addr})
				c.until(20*time.Second, "the other nodes have removed it", func() bool { return len(c.nodes[0].View().Members) == 3 })
				c.net.Heal()
				c.until(20*time.Second, "it has ended its incarnation", func() bool { return out.View() == nil })
				code, body := page(out.Node, "/readyz")
				st := statusPage(t, out)
				for _, want := range []string{tc.want, "left out of the view: silent"} {
					if code != 503 || !strings.Contains(body, want) || !strings.Contains(st.NotReady, want) {
						t.Errorf("/readyz: %d %s; /status: %q; want %q", code, body, st.NotReady, want)
					}
				}
				if !log.has("level=WARN", "this incarnation has ended", tc.logged) {
					t.Errorf("no warning of the log says %q", tc.logged)
				}
			})
		})
	}
}
