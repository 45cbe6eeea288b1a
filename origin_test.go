package peerage_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
)

// logBook is a log that tests read.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBook) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(strings.Split(l.buf.String(), "\n"), func(line string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) })
	})
}

// forms is a first contact point that stands for Bootstrap.
const forms = "forms"

// onDisk starts a node with durable keys on a directory: it forms a cluster without
// contact points, and joins with them.
func (c *cluster) onDisk(t *testing.T, name, addr, dir string, log *logBook, contacts ...string) *member {
	t.Helper()
	cfg := durableConfig(name, dir)
	cfg.Network, cfg.Listen, cfg.Logger = c.net, addr, slog.New(slog.NewTextHandler(log, nil))
	cfg.WallClock = c.wall
	if len(contacts) == 0 || contacts[0] == forms {
		cfg.Bootstrap, cfg.Join = true, contacts[min(1, len(contacts)):]
	} else {
		if cfg.Join = contacts; len(contacts) == 1 {
			cfg.BootstrapExpect = 1
		}
	}
	return c.startDB(t, cfg)
}

func (c *cluster) wantUsers(t *testing.T, m *member, want ...string) {
	t.Helper()
	if got, err := users(t.Context(), m.Node, "", keptUsers); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s has %q, %v, want %q", m.addr, got, err, want)
	}
}

func copies(t *testing.T, dir string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, "*.aside-*"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFilesOfAnotherClusterAreSetAside: a laptop that was a cluster of its own, under the
// same name, is started with the addresses of production. Nothing that its file holds
// reaches production; the file is kept as a copy, and the laptop becomes a member. A
// member of production that was away brings its file back as before.
func TestFilesOfAnotherClusterAreSetAside(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
		var log logBook

		laptop := c.onDisk(t, "laptop", "10.0.0.9:7101", dirs[2], &log)
		c.ready(laptop)
		if err := addUser(t.Context(), laptop.Node, "", keptUsers, "eve"); err != nil {
			t.Fatal(err)
		}
		if err := laptop.Close(); err != nil {
			t.Fatal(err)
		}
		a := c.onDisk(t, "a", "10.0.0.1:7101", dirs[0], &log)
		c.ready(a)
		b := c.onDisk(t, "b", "10.0.0.2:7101", dirs[1], &log, a.addr)
		c.ready(a, b)
		if err := addUser(t.Context(), a.Node, "", keptUsers, "ada"); err != nil {
			t.Fatal(err)
		}

		laptop = c.onDisk(t, "laptop", "10.0.0.9:7101", dirs[2], &log, a.addr, b.addr)
		c.until(30*time.Second, "the laptop is a member", func() bool {
			if slices.Contains(usersHere(t, a), "eve") || slices.Contains(usersHere(t, b), "eve") {
				t.Fatal("a key of another cluster has reached production")
			}
			return laptop.Ready()
		})
		for _, m := range []*member{a, b, laptop} {
			c.wantUsers(t, m, "ada")
		}
		if got := copies(t, dirs[2]); len(got) != 2 {
			t.Errorf("copies %q, want one of each role", got)
		}
		if !log.has("level=ERROR", "another cluster", "set aside") {
			t.Error("no line of the log says so")
		}

		// The same cluster's file comes back, from the laptop too by now.
		for i, m := range []*member{b, laptop} {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			c.until(30*time.Second, "it is gone", func() bool { return len(a.View().Members) == 2-i })
		}
		b = c.onDisk(t, "b", "10.0.0.2:7101", dirs[1], &log, a.addr)
		laptop = c.onDisk(t, "laptop", "10.0.0.9:7101", dirs[2], &log, a.addr)
		c.ready(a, b, laptop)
		if n := len(copies(t, dirs[1])) + len(copies(t, dirs[2])); n != 2 {
			t.Errorf("%d copies after a return to the same cluster, want the 2 of before", n)
		}
	})
}

// usersHere reads without asking others.
func usersHere(t *testing.T, m *member) []string {
	t.Helper()
	s, err := localUsers(t, m)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", m.addr, err))
	}
	return s
}

func localUsers(t *testing.T, m *member) ([]string, error) {
	s, err := ddata.Get(t.Context(), m.Data(""), keptUsers, ddata.Local)
	return slices.Sorted(s.All()), err
}

// TestALaptopsClusterMeetsProduction (EDGES F4): the laptop runs a cluster of its own, its
// clock is set to 1990, and it finds production. Its cluster yields, nothing that its file
// holds is merged, and production is not ready for less than a second.
func TestALaptopsClusterMeetsProduction(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		var log logBook
		dir := t.TempDir()
		a := c.onDisk(t, "a", "10.0.0.1:7101", t.TempDir(), &log)
		c.ready(a)
		b := c.onDisk(t, "b", "10.0.0.2:7101", t.TempDir(), &log, a.addr)
		c.ready(a, b)
		if err := addUser(t.Context(), a.Node, "", keptUsers, "ada"); err != nil {
			t.Fatal(err)
		}
		was, began := a.View().Cluster, time.Now()
		c.net.Split(peerage.CutDropped, []string{a.addr, b.addr}, []string{"10.0.0.9:7101"})
		c.wall = func() time.Time { return time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Since(began)) }
		laptop := c.onDisk(t, "laptop", "10.0.0.9:7101", dir, &log, forms, a.addr, b.addr)
		c.ready(laptop)
		if err := addUser(t.Context(), laptop.Node, "", keptUsers, "eve"); err != nil {
			t.Fatal(err)
		}
		c.net.Heal()
		var unready time.Duration
		c.until(time.Minute, "one cluster of three", func() bool {
			if slices.Contains(usersHere(t, a), "eve") || slices.Contains(usersHere(t, b), "eve") {
				t.Fatal("a key of another cluster has reached production")
			}
			if !a.Ready() || !b.Ready() {
				unready += time.Millisecond
			}
			return fmt.Sprint(len(a.View().Members)) == "3" && laptop.Ready() && a.Ready() && b.Ready()
		})
		t.Logf("production was not ready for %v", unready)
		if unready >= time.Second || a.View().Cluster != was || len(copies(t, dir)) != 2 {
			t.Errorf("unready %v, cluster %x, was %x, copies %q", unready, a.View().Cluster, was, copies(t, dir))
		}
		for _, m := range []*member{a, b, laptop} {
			c.wantUsers(t, m, "ada")
		}
	})
}

// TestAFileOfAHigherGenerationRaisesTheCluster: a cluster that was formed without this
// node, under a clock that was set back, opens a generation above that of the node's file,
// so that tokens do not go back.
func TestAFileOfAHigherGenerationRaisesTheCluster(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		dirs := []string{t.TempDir(), t.TempDir()}
		known := uint32(time.Now().Unix()) + 1_000_000
		if err := os.WriteFile(filepath.Join(dirs[1], "generation"), fmt.Appendf(nil, "generation %d\n", known), 0o600); err != nil {
			t.Fatal(err)
		}
		var log logBook
		a := c.onDisk(t, "a", "10.0.0.1:7101", dirs[0], &log)
		c.ready(a)
		if _, err := a.ask("x", 1); err != nil {
			t.Fatal(err)
		}
		b := c.onDisk(t, "b", "10.0.0.2:7101", dirs[1], &log, a.addr)
		c.ready(a, b)
		v := a.View()
		if v.Epoch.Generation() <= known || v.TokensFrom <= known {
			t.Errorf("the view is %v with tokens from %d, and %d was known", v.Epoch, v.TokensFrom, known)
		}
		if !log.has("level=WARN", "is ahead of the cluster") {
			t.Error("no line of the log says so")
		}
		// A file that is written ahead of the same cluster raises nothing.
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		c.until(30*time.Second, "it is gone", func() bool { return len(a.View().Members) == 1 })
		was := a.View().Epoch.Generation()
		b = c.onDisk(t, "b", "10.0.0.2:7101", dirs[1], &log, a.addr)
		if c.ready(a, b); a.View().Epoch.Generation() != was {
			t.Errorf("generation %d, then %d", was, a.View().Epoch.Generation())
		}
	})
}
