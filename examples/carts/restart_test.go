package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
)

// runsMain makes the test binary stand in for the program.
const runsMain = "PEERAGE_TEST_RUN_CARTS"

func TestMain(m *testing.M) {
	if os.Getenv(runsMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// headerCommands returns the arguments of the nodes that the program's header starts,
// on a loopback address of this test's own.
func headerCommands(t *testing.T) (commands [][]string) {
	t.Helper()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 100+pid%100, pid/100%250, 1+pid/25000%250)
	for _, line := range strings.Split(string(source), "\n") {
		if args, is := strings.CutPrefix(line, "//\tgo run ./examples/carts "); is {
			commands = append(commands, strings.Fields(strings.ReplaceAll(args, "127.0.0.1", host)))
		}
	}
	if len(commands) < 2 {
		t.Fatalf("the header of main.go starts %d nodes", len(commands))
	}
	return commands
}

// process is a node that runs as the header says.
type process struct {
	t    *testing.T
	args []string
	http string
	cmd  *exec.Cmd
	mu   sync.Mutex
	logs bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.Write(b)
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = append(os.Environ(), runsMain+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // SIGKILL
	_ = p.cmd.Wait()
}

func (p *process) request(method, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.http+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// members returns the ids of the view that a ready node holds, "" while it is not ready.
func (p *process) members() string {
	var st peerage.Status
	_, body, err := p.request("GET", "/status")
	if err != nil || json.Unmarshal(body, &st) != nil || !st.Ready || st.View == nil {
		return ""
	}
	ids := ""
	for _, m := range st.View.Members {
		ids += " " + m.ID.String()
	}
	return ids
}

// put puts one thing into a cart and returns how many there are now.
func (p *process) put(cart string) int {
	p.t.Helper()
	for {
		code, body, err := p.request("POST", "/carts/"+cart+"/tea")
		items := map[string]int{}
		switch {
		case p.t.Context().Err() != nil:
			p.t.FailNow()
		case err == nil && code == http.StatusOK && json.Unmarshal(body, &items) == nil:
			return items["tea"]
		case err == nil && code != http.StatusServiceUnavailable:
			p.t.Fatalf("POST /carts/%s/tea at %s: %d %s", cart, p.http, code, body)
		}
	}
}

// oneCluster waits until all nodes are ready and show one view of all of them.
func oneCluster(t *testing.T, nodes []*process, most time.Duration) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		var views []string
		same := true
		for _, p := range nodes {
			views = append(views, p.members())
			same = same && views[0] != "" && views[len(views)-1] == views[0]
		}
		if same && strings.Count(views[0], " ") == len(nodes) {
			t.Logf("one cluster of %d after %v", len(nodes), time.Since(begin))
			return
		}
		if time.Since(begin) > most {
			for _, p := range nodes {
				p.mu.Lock()
				t.Logf("%v:\n%s", p.args, p.logs.String())
				p.mu.Unlock()
			}
			t.Fatalf("no cluster of all %d ready nodes within %v; the views are %q", len(nodes), most, views)
		}
	}
}

// TestRestartOfTheFirstNode runs the commands of the program's header as real processes,
// kills the first of them with SIGKILL and starts it again with the same command. There
// must be one cluster again, and one life of each cart.
func TestRestartOfTheFirstNode(t *testing.T) {
	var nodes []*process
	for _, args := range headerCommands(t) {
		p := &process{t: t, args: args}
		for i, arg := range args[:len(args)-1] {
			if arg == "-http" {
				p.http = args[i+1]
			}
		}
		p.start()
		t.Cleanup(func() { p.kill() })
		nodes = append(nodes, p)
	}
	oneCluster(t, nodes, time.Minute)
	const carts = 40
	for i := range carts {
		nodes[i%len(nodes)].put(fmt.Sprint("cart", i))
	}
	nodes[0].kill()
	nodes[0].start()
	oneCluster(t, nodes, 10*time.Second)
	for i := range carts {
		cart := fmt.Sprint("cart", i)
		last := nodes[0].put(cart)
		for _, p := range append(nodes[1:len(nodes):len(nodes)], nodes...) {
			n := p.put(cart)
			if n != last+1 {
				t.Errorf("%s holds %d after %d: it has two lives", cart, n, last)
			}
			last = n
		}
	}
}
