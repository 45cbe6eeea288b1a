package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// command runs a command that must succeed and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, &out, &errs); code != exitOK {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, out.String(), errs.String())
	}
	return out.String()
}

// refused runs a command that must fail with an exit code, and returns its error.
func refused(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, &out, &errs); code != want || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
	}
	return errs.String()
}

// startSecureNodes starts nodes a and b from the files of `peerage certs`, on free ports.
func startSecureNodes(t *testing.T, dir string) (nodes []harness.Report, admin []string) {
	t.Helper()
	command(t, "certs", "--dir", dir, "--nodes", "a,b")
	addrs, release, err := fleet.FreeAddrs("127.0.0.1", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	slices.Sort(addrs) // the lowest address forms the cluster: that of a
	for i, name := range []string{"a", "b"} {
		nodes = append(nodes, startNode(t, "--config", filepath.Join(dir, name+".yaml"), "--listen", addrs[i], "--join", strings.Join(addrs, ","),
			"--strategy", "external", "--shards", "16", "--min-members", "2"))
	}
	return nodes, []string{"--config", filepath.Join(dir, "admin.yaml"), "--node", nodes[0].HTTP}
}

var camelKey = regexp.MustCompile(`"[a-z_]*[A-Z]\w*":`)

// SECURITY.md's set-up is three commands: certs, node, status. Every command that looks at
// the cluster or operates it works on it, for holders of a certificate only.
func TestCertsThenNodesThenLook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	nodes, admin := startSecureNodes(t, dir)
	ask := func(args ...string) string { t.Helper(); return command(t, append(args, admin...)...) }
	eventually(t, "both are members", func() bool {
		var members []memberRow
		if err := json.Unmarshal([]byte(ask("members", "--json")), &members); err != nil {
			t.Fatal(err)
		}
		return len(members) == 2 && strings.Contains(ask("types"), "2      a ")
	})
	if got := ask("place", "counter", "3", "b"); !strings.Contains(got, "wanted on b") {
		t.Errorf("place: %s", got)
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"status"}, []string{"node a (" + nodes[0].Node + ")", "2 members, led by a", "lease of a: ", "up, leader", "type counter: 0 of 16 shards have a home"}},
		{[]string{"members"}, []string{nodes[1].Node, nodes[1].Listen, nodes[1].HTTP}},
		{[]string{"types"}, []string{"counter", "0 of 16"}},
		{[]string{"shards", "counter"}, []string{"16 shards of counter have no home now"}},
		{[]string{"explain", "counter", "3"}, []string{"shard 3 of counter", "coordinator", "office taken"}},
		{[]string{"top", "--count", "1"}, []string{"2 members", "up, leader", "MESSAGES/S"}},
	} {
		got := ask(tc.args...)
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%v does not say %q:\n%s", tc.args, want, got)
			}
		}
		text := ask(append(tc.args, "--json")...)
		if !json.Valid([]byte(text)) || camelKey.MatchString(text) {
			t.Errorf("%v --json: %s", tc.args, text)
		}
		if strings.Contains(got, "Ctrl-C") {
			t.Errorf("%v: no terminal has Ctrl-C here:\n%s", tc.args, got)
		}
	}
	var types []map[string]any
	if err := json.Unmarshal([]byte(ask("types", "--json")), &types); err != nil || len(types) != 1 || types[0]["type"] != "counter" || types[0]["name"] != nil {
		t.Errorf("types --json has the name under %q alone, as other outputs do: %v, %v", "type", types, err)
	}
	type lease struct {
		Valid, Leader bool
		LeftSeconds   float64 `json:"left_seconds"`
	}
	eventually(t, "status --json has the lease in figures", func() bool { // a slow machine may lose it for a while
		var status struct{ Node struct{ Lease lease } }
		if err := json.Unmarshal([]byte(ask("status", "--json")), &status); err != nil {
			t.Fatal(err)
		}
		l := status.Node.Lease
		return l.Valid && l.Leader && l.LeftSeconds > 0
	})
	refused(t, exitFailed, append([]string{"shards", "count"}, admin...)...)
	refused(t, exitFailed, append([]string{"drain", "c"}, admin...)...)
	// Without a certificate nothing is answered; a node's file serves its operator, too.
	refused(t, exitUnreachable, "status", "--node", nodes[0].HTTP, "--tls-ca", filepath.Join(dir, "ca.pem"), "--tls-name", "node.peerage.internal")
	if got := refused(t, exitFailed, "status", "--node", nodes[0].HTTP); !strings.Contains(got, "serves TLS only: name this client's certificates with --config") {
		t.Errorf("status without TLS: %s", got)
	}
	command(t, "status", "--config", filepath.Join(dir, "b.yaml"), "--node", nodes[0].HTTP)
	if got := ask("drain", "b"); !strings.Contains(got, "b ("+nodes[1].Node+") has left") {
		t.Errorf("drain: %s", got)
	}
	if got := ask("members"); strings.Contains(got, nodes[1].Node) {
		t.Errorf("b is out: %s", got)
	}
}

// Entities are found, and wishes move their shards, over several nodes in the clear.
func TestWhereFollowsPlace(t *testing.T) {
	a := startNode(t, "--name", "a", "--bootstrap", "--strategy", "external", "--shards", "4", "--min-members", "2")
	b := startNode(t, "--name", "b", "--join", a.Listen, "--bootstrap-expect", "1", "--strategy", "external", "--shards", "4", "--min-members", "2")
	t.Setenv("PEERAGE_NODE", b.HTTP+","+a.HTTP)
	eventually(t, "both host counters", func() bool { return strings.Contains(command(t, "types"), "2      a ") })
	if code, body := post(t, "http://"+a.HTTP+"/v1/counters/x/ask", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	var at location
	if err := json.Unmarshal([]byte(command(t, "where", "counter", "x", "--json")), &at); err != nil || !at.Lives {
		t.Fatal(at, err)
	}
	for _, name := range []string{"b", "a"} {
		command(t, "place", "counter", at.Shard.String(), name)
		eventually(t, "x is on "+name, func() bool {
			return strings.Contains(command(t, "shards", "--home", name), "counter  "+at.Shard.String())
		})
	}
	if got := command(t, "place", "counter", at.Shard.String(), "--clear"); !strings.Contains(got, "withdrawn") {
		t.Error(got)
	}
	for _, args := range [][]string{{"x"}, {"--id", "x"}, {at.Shard.String()}} {
		got := command(t, append([]string{"explain", "counter"}, args...)...)
		if !strings.Contains(got, "shard "+at.Shard.String()+" of counter") || !strings.Contains(got, "It runs on a: it was moved there in order from b") {
			t.Errorf("%v: %s", args, got)
		}
	}
	even := startNode(t, "--name", "e", "--bootstrap")
	if got := refused(t, exitFailed, "place", "counter", "1", "e", "--node", even.HTTP); !strings.Contains(got, "--strategy external") {
		t.Errorf("a cluster that reads no wishes: %s", got)
	}
}

func TestCertsAreKeptAndRenewed(t *testing.T) {
	dir := t.TempDir()
	first := command(t, "certs", "--dir", dir)
	if !strings.Contains(first, "peerage node --config "+filepath.Join(dir, "c.yaml")) || strings.Contains(first, "(kept)") {
		t.Error(first)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := map[string]string{}
	for _, name := range []string{"ca.pem", "ca.key", "gossip.keys", "a.yaml", "a.pem", "admin.pem"} {
		before[name] = read(name)
	}
	again := command(t, "certs", "--dir", dir, "--nodes", "a,d=10.0.0.4", "--json")
	if !json.Valid([]byte(again)) || !strings.Contains(again, `"kept": true`) {
		t.Error(again)
	}
	for name, text := range before {
		if renewed := name == "a.pem" || name == "admin.pem"; renewed == (read(name) == text) {
			t.Errorf("%s: renewed is to be %v", name, renewed)
		}
	}
	if got := read("d.yaml"); !strings.Contains(got, "listen: 10.0.0.4:7101") || !strings.Contains(got, "http: 10.0.0.4:8101") {
		t.Error(got)
	}
	info, err := os.Stat(filepath.Join(dir, "a.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of a.key is %v, %v", info.Mode(), err)
	}
	// The operator's certificate is no peer's.
	refused(t, exitFailed, "node", "--config", filepath.Join(dir, "a.yaml"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--tls-cert", filepath.Join(dir, "admin.pem"), "--tls-key", filepath.Join(dir, "admin.key"))
}
