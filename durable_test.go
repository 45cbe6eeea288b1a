package peerage_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

type userKey = ddata.Key[ddata.ORSet[string], *ddata.ORSetTx[string]]

var (
	keptUsers = ddata.ORSetKey[string]("keep/users")
	lostUsers = ddata.ORSetKey[string]("users")
)

// durableConfig is a node whose data of all members and of role "db" is durable.
func durableConfig(name, dir string) peerage.Config {
	cfg := peerage.TestConfig()
	cfg.DataDir, cfg.Data = dir, map[string]peerage.DataConfig{
		peerage.AnyRole: {Durable: []string{"keep/"}},
		"db":            {Durable: []string{""}, Expire: []replicator.Expiry{{Prefix: "", After: time.Minute}}},
	}
	cfg.Name, cfg.Roles = name, []string{"db"}
	return cfg
}

func addUser(ctx context.Context, n *peerage.Node, role string, key userKey, user string) error {
	return ddata.Update(ctx, n.Data(role), key, ddata.Majority, func(s *ddata.ORSetTx[string]) error { s.Add(user); return nil })
}

func users(ctx context.Context, n *peerage.Node, role string, key userKey) ([]string, error) {
	s, err := ddata.Get(ctx, n.Data(role), key, ddata.Majority)
	return slices.Sorted(s.All()), err
}

// durables starts three nodes on the directories.
func (c *cluster) durables(t *testing.T, dirs []string) {
	for i, dir := range dirs {
		cfg := durableConfig(fmt.Sprint("n", i), dir)
		cfg.Network, cfg.Listen = c.net, fmt.Sprintf("10.0.0.%d:7101", i+1)
		cfg.Join, cfg.BootstrapExpect = []string{"10.0.0.1:7101"}, 1
		c.startDB(t, cfg)
	}
	c.ready(c.nodes...)
}

// startDB starts a node whose role "db" has counters.
func (c *cluster) startDB(t *testing.T, cfg peerage.Config) *member {
	t.Helper()
	n, err := peerage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{Node: n, addr: cfg.Listen}
	m.counters, err = sharding.Register(n.Registry(), sharding.Type[add, tally]{
		Name: "counter", Shards: 4, Role: "db", New: func(string) sharding.Entity[add, tally] { return &counter{node: n} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.nodes = append(c.nodes, m)
	return m
}

// playLives plays f in several lives, each on a network of its own.
func playLives(t *testing.T, lives int, f func(t *testing.T, life int, c *cluster)) {
	for life := range lives {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{t: t, net: peerage.NewNetwork(uint64(life) + 1)}
			c.net.SetUsual(peerage.NetworkPath{Latency: 100 * time.Microsecond})
			defer pass(time.Minute)
			defer c.close()
			f(t, life, c)
		})
	}
}

// threeLives plays f three times. Afterwards the nodes that f has started stop: in order
// after the first life, immediately after the others.
func threeLives(t *testing.T, f func(t *testing.T, life int, c *cluster)) {
	playLives(t, 3, func(t *testing.T, life int, c *cluster) {
		f(t, life, c)
		for _, m := range c.nodes {
			stop := m.Close
			if life == 0 {
				stop = func() error { return m.Shutdown(context.Background()) }
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// All nodes stop and start again, in order and then all at the same time: the configured
// keys of each role are at all nodes, other keys are not, and the coordinators start empty.
func TestRestartOfTheClusterBringsDurableKeysBack(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	threeLives(t, func(t *testing.T, life int, c *cluster) {
		c.durables(t, dirs)
		var want []string
		for i := range 3 * life {
			want = append(want, fmt.Sprintf("life %d node %d", i/3, i%3))
		}
		for _, m := range c.nodes {
			for role, key := range map[string]userKey{"": keptUsers, "db": lostUsers} {
				if got, err := users(t.Context(), m.Node, role, key); err != nil || !slices.Equal(got, want) {
					t.Errorf("life %d, %s, role %q: %q, %v", life, m.addr, role, got, err)
				}
			}
			if got, err := users(t.Context(), m.Node, "", lostUsers); err != nil || len(got) > 0 {
				t.Errorf("%q should not be durable, %v", got, err)
			}
		}
		for i, m := range c.nodes {
			who := fmt.Sprintf("life %d node %d", life, i)
			for role, key := range map[string]userKey{"": keptUsers, "db": lostUsers} {
				if err := addUser(t.Context(), m.Node, role, key, who); err != nil {
					t.Fatal(err)
				}
			}
			if err := addUser(t.Context(), m.Node, "", lostUsers, who); err != nil {
				t.Fatal(err)
			}
			if got, err := m.counters.Ask(t.Context(), "x", add{1}); err != nil || got.Sum != i+1 {
				t.Errorf("life %d: %+v, %v", life, got, err)
			}
		}
	})
	for _, dir := range dirs {
		for _, f := range []string{"all.keys", "role-db.keys"} {
			if b, err := os.ReadFile(filepath.Join(dir, f)); err != nil || strings.Contains(string(b), "peerage/sharding") {
				t.Errorf("%s: what coordinators keep is on the disk, or nothing is: %v", f, err)
			}
		}
	}
}

// A removed node comes back as a new incarnation in the same process: the file is
// opened once, and serves both.
func TestNextIncarnationContinuesWithTheFile(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		c.durables(t, dirs)
		last := c.nodes[2]
		former := last.Self().ID
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(addUser(t.Context(), c.nodes[0].Node, "", keptUsers, "before"))
		c.net.Split(peerage.CutDropped, []string{c.nodes[0].addr, c.nodes[1].addr}, []string{last.addr})
		c.until(time.Minute, "it is removed", func() bool { return len(c.nodes[0].View().Members) == 2 })
		must(addUser(t.Context(), c.nodes[0].Node, "", keptUsers, "meanwhile"))
		c.net.Heal()
		c.ready(c.nodes...)
		if last.Self().ID == former {
			t.Fatal("not the situation that this test is about")
		}
		must(addUser(t.Context(), last.Node, "", keptUsers, "after"))
		if got, err := users(t.Context(), last.Node, "", keptUsers); err != nil || !slices.Equal(got, []string{"after", "before", "meanwhile"}) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// Idle keys of the application expire, the records of coordinators do not.
func TestExpiryIsWiredAndSparesCoordinators(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		c.durables(t, dirs)
		if err := addUser(t.Context(), c.nodes[1].Node, "db", lostUsers, "idle"); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if got, err := c.nodes[i].counters.Ask(t.Context(), "x", add{1}); err != nil || got.Sum != i+1 {
				t.Fatalf("%+v, %v", got, err)
			}
			pass(time.Minute)
		}
		for _, m := range c.nodes {
			names, err := m.Data("db").Keys(t.Context(), "")
			if err != nil || len(names) != 0 {
				t.Errorf("%s: %q, %v", m.addr, names, err)
			}
		}
	})
}

func TestUnusableFileIsAStartUpError(t *testing.T) {
	start := func(cfg peerage.Config) error {
		n, err := peerage.New(cfg)
		if err != nil {
			return err
		}
		defer n.Close()
		return n.Start(t.Context())
	}
	whole := t.TempDir()
	if err := start(durableConfig("a", whole)); err != nil {
		t.Fatal(err)
	}
	renamed, moved := durableConfig("b", whole), durableConfig("a", whole)
	moved.Cluster = "other"
	damaged := durableConfig("a", t.TempDir())
	if err := os.WriteFile(filepath.Join(damaged.DataDir, "role-db.keys"), []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	swapped := durableConfig("a", t.TempDir())
	b, err := os.ReadFile(filepath.Join(whole, "all.keys"))
	if err == nil {
		err = os.WriteFile(filepath.Join(swapped.DataDir, "role-db.keys"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		why  string
		cfg  peerage.Config
		want string
	}{
		{"another name", renamed, `belongs to "peerage  a", not to "peerage  b"`},
		{"another cluster", moved, `not to "other  a"`},
		{"another role's file", swapped, `belongs to "peerage  a", not to "peerage db a"`},
		{"a damaged file", damaged, "damaged"},
		{"no directory", durableConfig("a", filepath.Join(whole, "none")), "is not a directory"},
	} {
		if err := start(x.cfg); !errors.Is(err, replicator.ErrDurable) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.why, err)
		}
	}
	// A refused node keeps no lock: the owner can still open the file.
	if err := start(durableConfig("a", whole)); err != nil {
		t.Error(err)
	}
}

func TestDataSettingsAreValidatedWithAllOthers(t *testing.T) {
	cfg := peerage.Config{Cluster: "two words", Roles: []string{"db"}, Data: map[string]peerage.DataConfig{
		"":   {Durable: []string{"x", "peerage/sharding/counter"}, Sync: -1, Retain: time.Minute},
		"db": {Expire: []replicator.Expiry{{Prefix: "a", After: -1}, {Prefix: "b"}, {Prefix: "b", After: 1}, {Prefix: "peerage/sharding/", After: 1}}},
		"bd": {},
	}}
	_, err := peerage.New(cfg)
	var all *peerage.ConfigError
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all.Problems {
		got = append(got, p.Setting)
	}
	want := []string{"Cluster", "DataDir", `Data[""].Durable`, `Data[""].Retain`, `Data[""].Sync`, `Data["bd"]`, `Data["db"].Expire`, `Data["db"].Expire`, `Data["db"].Expire`, "Name"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q\n%v", got, want, err)
	}
}

// durableChild configures a process of TestDurableKeysSurviveAKill.
type durableChild struct{ Name, Dir, Contact string }

const durableChildEnv = "PEERAGE_TEST_DURABLE"

// runDurableChild serves one node until its input ends: a line is an element to add,
// an empty one asks for all.
func runDurableChild(spec string) error {
	var s durableChild
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	cfg := durableConfig(s.Name, s.Dir)
	peerage.UseBootClock(&cfg)
	if cfg.Bootstrap = s.Contact == ""; !cfg.Bootstrap {
		cfg.Join, cfg.BootstrapExpect = []string{s.Contact}, 1
	}
	ctx := context.Background()
	n, err := peerage.Start(ctx, cfg)
	if err != nil {
		return err
	}
	if err = n.WaitReady(ctx); err != nil {
		return err
	}
	fmt.Println("child:", n.Self().Addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var answer []string
		if in.Text() == "" {
			answer, err = users(ctx, n, "", keptUsers)
		} else {
			err = addUser(ctx, n, "", keptUsers, in.Text())
		}
		fmt.Println("child:", strings.Join(answer, ","), err)
	}
	return n.Close()
}

// durableProcess is a node process and the way to talk to it.
type durableProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Scanner
	addr string
}

func startDurableProcess(t *testing.T, s durableChild) *durableProcess {
	t.Helper()
	spec, _ := json.Marshal(s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it ends, and so does its reader
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDurableKeysSurviveAKill$")
	cmd.Env = append(os.Environ(), durableChildEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &durableProcess{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	p.addr = p.next()
	return p
}

// next returns the next line that the child means for us.
func (p *durableProcess) next() string {
	p.t.Helper()
	for p.out.Scan() {
		if line, ours := strings.CutPrefix(p.out.Text(), "child: "); ours {
			return strings.TrimSpace(line)
		}
	}
	p.t.Fatal("the process has ended")
	return ""
}

func (p *durableProcess) ask(line string) string {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	return p.next()
}

// kill ends the process as a power cut would end it, for a second time without effect.
func (p *durableProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Three processes are killed while they write, and two of them start again: all that was
// acknowledged at a majority is there, since one of any two has it on its disk.
func TestDurableKeysSurviveAKill(t *testing.T) {
	if spec := os.Getenv(durableChildEnv); spec != "" {
		if err := runDurableChild(spec); err != nil {
			t.Fatal(err)
		}
		return
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var contact string
	var all []*durableProcess
	for i, dir := range dirs {
		p := startDurableProcess(t, durableChild{fmt.Sprint("n", i), dir, contact})
		if contact == "" {
			contact = p.addr
		}
		all = append(all, p)
	}
	var want []string
	for i := range 30 {
		e := fmt.Sprintf("e%02d", i)
		if got := all[i%3].ask(e); got != "<nil>" {
			t.Fatal(got)
		}
		want = append(want, e)
	}
	for _, p := range all {
		_, _ = fmt.Fprintln(p.in, "x") // under way: it may be there or not
		p.kill()
	}
	contact = ""
	for i := 2; i > 0; i-- {
		p := startDurableProcess(t, durableChild{fmt.Sprint("n", i), dirs[i], contact})
		contact = p.addr
		all = append(all, p)
	}
	list, err, _ := strings.Cut(all[4].ask(""), " ")
	got := slices.DeleteFunc(strings.Split(list, ","), func(e string) bool { return e == "x" })
	if !slices.Equal(got, want) || err != "<nil>" {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

// The handler shows each role's data of a node, under any path.
func TestDataHandlerShowsEachRole(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		c.durables(t, dirs)
		for role, key := range map[string]userKey{"": keptUsers, "db": lostUsers} {
			if err := addUser(t.Context(), c.nodes[0].Node, role, key, "ada"); err != nil {
				t.Fatal(err)
			}
		}
		h := http.StripPrefix("/data", c.nodes[0].DataHandler())
		for path, want := range map[string]string{
			"/data/all/value?key=keep/users": `"value":["ada"]`, "/data/db/value?key=users": `"value":["ada"]`,
			"/data/all/": `"stats":{"Keys":`, "/data/db/keys?prefix=users": `[{"key":"users","kind":"ORSet[string]"`,
			"/data/none/keys": "one of all, db", "/data/": "one of all, db",
		} {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			if !strings.Contains(rec.Body.String(), want) {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
	})
}
