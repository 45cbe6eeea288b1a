package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
)

// startNode runs `peerage node` as a process of its own and returns where it
// listens. The process ends with the test.
func startNode(t *testing.T, args ...string) harness.Report {
	t.Helper()
	args = append([]string{"node", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--print-addresses", "--until-stdin-closes", "--log", "error"}, args...)
	cmd := exec.Command(os.Args[0], args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
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
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("node ended with %v:\n%s", err, errs.String())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no addresses: %v\n%s", err, errs.String())
	}
	var r harness.Report
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return send(t, http.MethodGet, url, "", nil)
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	return send(t, http.MethodPost, url, body, map[string]string{"Content-Type": "application/json"})
}

// send sends a request with headers as given, Host among them.
func send(t *testing.T, method, url, body string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	req.Host = header["Host"]
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !ok() {
		if harness.Pause(ctx, 10*time.Millisecond) != nil {
			t.Fatal("never: ", what)
		}
	}
}

func TestNodesServeCountersOverHTTP(t *testing.T) {
	a := startNode(t, "--name", "a", "--bootstrap", "--role", "backend")
	b := startNode(t, "--name", "b", "--join", a.Listen, "--bootstrap-expect", "1")
	for _, n := range []harness.Report{a, b} {
		eventually(t, n.Name+" is ready", func() bool {
			code, _ := get(t, "http://"+n.HTTP+"/readyz")
			return code == http.StatusOK
		})
		if code, body := get(t, "http://"+n.HTTP+"/healthz"); code != http.StatusOK {
			t.Errorf("healthz of %s: %d %s", n.Name, code, body)
		}
	}
	if code, body := post(t, "http://"+a.HTTP+"/v1/counters/x/ask", `{"n": 2}`); code != http.StatusOK || !strings.Contains(body, `"total":2`) {
		t.Errorf("ask: %d %s", code, body)
	}
	if code, body := post(t, "http://"+b.HTTP+"/v1/counters/x/tell", `{"n": 3}`); code != http.StatusAccepted {
		t.Errorf("tell: %d %s", code, body)
	}
	eventually(t, "the told request counts", func() bool {
		_, body := post(t, "http://"+b.HTTP+"/v1/counters/x/ask", ``)
		return strings.Contains(body, `"total":5`)
	})
	if code, body := post(t, "http://"+a.HTTP+"/v1/counters/x/ask", `{"m": 2}`); code != http.StatusBadRequest || !strings.Contains(body, "must be like") {
		t.Errorf("wrong body: %d %s", code, body)
	}
	checkStatus(t, a)
	_, metrics := get(t, "http://"+a.HTTP+"/metrics")
	for _, want := range []string{
		`peerage_cluster_members{state="up"} 2`, `peerage_cluster_quorum 1`, `peerage_region_entities{type="counter"}`,
		`peerage_region_messages_total{route="local",type="counter"}`, `peerage_ddata_operation_duration_seconds_count`,
		`peerage_gossip_bytes_total{channel="view",direction="sent"}`, `peerage_region_messages_dropped_total`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

// The node leaves by `peerage drain`, its process stays, and nothing is lost to the
// callers of the others; then SIGTERM ends it.
func TestDrainByCommand(t *testing.T) {
	a := startNode(t, "--name", "a", "--bootstrap")
	b := startNode(t, "--name", "b", "--join", a.Listen, "--bootstrap-expect", "1")
	ready := func(n harness.Report) bool {
		code, _ := get(t, "http://"+n.HTTP+"/readyz")
		return code == http.StatusOK
	}
	eventually(t, "both are ready", func() bool { return ready(a) && ready(b) })
	for i := range 50 {
		if code, body := post(t, fmt.Sprintf("http://%s/v1/counters/x%d/ask", a.HTTP, i), `{"n": 1}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	for range 2 { // it may be asked again
		var out, errs bytes.Buffer
		if code := run([]string{"drain", "a", "--node", a.HTTP}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "a ("+a.Node+") has left") {
			t.Fatalf("drain: %d %s%s", code, out.String(), errs.String())
		}
	}
	if code, body := get(t, "http://"+a.HTTP+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("/readyz of the drained: %d %s", code, body)
	}
	if code, body := post(t, "http://"+a.HTTP+"/v1/counters/x/ask", ``); code != http.StatusServiceUnavailable || !strings.Contains(body, "node is stopping") {
		t.Errorf("ask at the drained: %d %s", code, body)
	}
	eventually(t, "the other is alone", func() bool {
		_, body := get(t, "http://"+b.HTTP+"/status")
		var st peerage.Status
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			t.Fatal(err)
		}
		return ready(b) && st.View != nil && len(st.View.Members) == 1
	})
	for i := range 50 {
		if code, body := post(t, fmt.Sprintf("http://%s/v1/counters/x%d/ask", b.HTTP, i), ``); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	}
}

func checkStatus(t *testing.T, a harness.Report) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run([]string{"status", "--node", a.HTTP}, &out, &errs); code != exitOK {
		t.Fatalf("status: %d %s", code, errs.String())
	}
	for _, want := range []string{"node a (" + a.Node + ")", "leader", "backend", "\n2  b", "type counter: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("status does not say %q:\n%s", want, out.String())
		}
	}
}
