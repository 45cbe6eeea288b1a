package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
)

// config returns the settings of a node that forms a cluster alone.
func config() *Config {
	node := peerage.TestConfig()
	node.Name, node.Listen, node.Bootstrap = "a", "127.0.0.1:0", true
	return &Config{
		Node: node, HTTP: "127.0.0.1:0", Shards: 8, Log: "error", PrintAddresses: true, PrintStats: time.Millisecond,
		Force: func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
	}
}

// serve runs Serve and returns its first report, all later ones, and a function that ends it.
func serve(t *testing.T, cfg *Config) (ready harness.Report, later <-chan harness.Report, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reports, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, cfg, out, t.Output())
		out.Close()
	}()
	all := make(chan harness.Report, 1)
	go func() {
		defer close(all)
		if err := harness.ReadReports(reports, func(r harness.Report) { all <- r }); err != nil {
			t.Error(err)
		}
	}()
	ready, ok := <-all
	if !ok {
		t.Fatalf("it ended with %v", <-ended)
	}
	return ready, all, func() error {
		cancel()
		for range all { // its last writes must not block
		}
		return <-ended
	}
}

func request(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServeReportsAndEndsInOrder(t *testing.T) {
	ready, later, end := serve(t, config())
	if ready.Kind != "ready" || ready.Name != "a" || ready.Listen == "" || ready.HTTP == "" {
		t.Errorf("%+v, want the addresses first", ready)
	}
	var last harness.Report
	for r := range later {
		if last = r; r.Kind != "stats" || r.Node != ready.Node {
			t.Fatalf("%+v after %+v", r, ready)
		}
		if r.Lease && r.Leader && r.Members == 1 {
			break
		}
	}
	api := "http://" + ready.HTTP + "/v1/counters/x/"
	if code, body := request(t, "POST", api+"ask", `{"n": 2}`); code != http.StatusOK || !strings.Contains(body, `"total":2`) {
		t.Errorf("ask: %d %s", code, body)
	}
	for r := range later {
		if last = r; r.Entities == 1 {
			break
		}
	}
	if last.Shards != 1 {
		t.Errorf("%d shards host one entity", last.Shards)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + ready.HTTP + "/healthz"); err == nil {
		t.Error("the HTTP API answers after the end")
	}
}

// A drained node has left, and its API goes on: the supervisor sees that it is not ready.
func TestADrainedNodeStillAnswers(t *testing.T) {
	ready, later, end := serve(t, config())
	go func() {
		for range later {
		}
	}()
	code, body := request(t, "POST", "http://"+ready.HTTP+"/drain", "")
	var d harness.Drained
	if err := json.Unmarshal([]byte(body), &d); code != http.StatusOK || err != nil || d.Name != "a" || d.Node != ready.Node || d.TookMS <= 0 {
		t.Errorf("%d %s, %v", code, body, err)
	}
	if code, _ := request(t, "GET", "http://"+ready.HTTP+"/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("readyz of a drained node: %d", code)
	}
	code, body = request(t, "POST", "http://"+ready.HTTP+"/v1/counters/x/ask", "")
	var f failure
	if err := json.Unmarshal([]byte(body), &f); code != http.StatusServiceUnavailable || err != nil || !f.Retryable {
		t.Errorf("an ask at a drained node: %d %s, %v", code, body, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// Profiles show the code and the names of a service, and cost processor time, so they are served
// only if a flag asks for them.
func TestProfilesAreServedOnRequest(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := config()
		cfg.Profiles = on
		ready, later, end := serve(t, cfg)
		go func() {
			for range later {
			}
		}()
		for path, want := range map[string]string{
			"goroutine?debug=1": "goroutine profile: total", "": "full goroutine stack dump", "heap?debug=1": "heap profile:",
		} {
			code, body := request(t, "GET", "http://"+ready.HTTP+"/debug/pprof/"+path, "")
			if !on && code != http.StatusNotFound || on && !strings.Contains(body, want) {
				t.Errorf("profiles %v: %s: %d %.100q, want %q", on, path, code, body, want)
			}
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// The page of the dashboard changes nothing unless a flag allows it.
func TestTheDashboardIsReadOnlyUnlessAllowed(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		cfg, place, drain := config(), http.StatusForbidden, http.StatusForbidden
		cfg.Strategy = StrategyExternal
		if allowed {
			cfg.DashboardAllow = []string{ActionDrain, ActionPlace}
			place, drain = http.StatusNoContent, http.StatusAccepted
		}
		ready, later, end := serve(t, cfg)
		for r := range later {
			if r.Lease && r.Members == 1 {
				break
			}
		}
		go func() {
			for range later {
			}
		}()
		page := "http://" + ready.HTTP + "/dashboard/"
		if code, body := request(t, "GET", page+"state", ""); code != http.StatusOK || strings.Contains(body, `"allowed":["drain","place"]`) != allowed {
			t.Errorf("allowed %v: the page has %d %s", allowed, code, body)
		}
		for _, c := range []struct {
			path, body string
			want       int
		}{{"place", `{"type":"counter","shard":1,"node":"a"}`, place}, {"drain", "", drain}} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", page+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Peerage-Action", "1")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("allowed %v: %s has %d, want %d", allowed, c.path, resp.StatusCode, c.want)
			}
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

func TestSettingsThatCannotBeServedAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`--log is "loud"`: func(c *Config) { c.Log = "loud" },
		"--history: ":     func(c *Config) { c.History = t.TempDir() },
		"--http 0.0.0.0:0 is not a loopback address": func(c *Config) { c.HTTP = "0.0.0.0:0" },
		"--http 127.0.0.1:x: ":                       func(c *Config) { c.HTTP = "127.0.0.1:x" },
		"--secret-keys: ":                            func(c *Config) { c.KeysFile = filepath.Join(t.TempDir(), "none") },
		"--load-counters and --load-registers need":  func(c *Config) { c.LoadCounters = 1 },
		"--load-registers needs --load-counters":     func(c *Config) { c.LoadRegisters, c.History = 1, filepath.Join(t.TempDir(), "h") },
		`--dashboard-allow names "kill"`:             func(c *Config) { c.DashboardAllow = []string{"kill"} },
		"--dashboard-allow place needs --strategy":   func(c *Config) { c.DashboardAllow = []string{ActionPlace} },
		"Name": func(c *Config) { c.Node.Name = "a b" },
	} {
		cfg := config()
		change(cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := Serve(ctx, cfg, io.Discard, io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestHTTPOpensToTheNetworkOnlyIfAsked(t *testing.T) {
	for addr, loopback := range map[string]bool{
		"127.0.0.1:0": true, "127.9.9.9:80": true, "[::1]:0": true, "localhost:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "10.1.2.3:0": false, "example.org:0": false,
	} {
		if err := checkHTTPAddr(addr, false); (err == nil) != loopback {
			t.Errorf("%s: %v", addr, err)
		}
		if err := checkHTTPAddr(addr, true); err != nil {
			t.Errorf("%s, asked for: %v", addr, err)
		}
	}
}

func TestHostNamesMustBeNamed(t *testing.T) {
	hosts := []string{"Node.Example"}
	for host, allowed := range map[string]bool{
		"127.0.0.1:80": true, "10.0.0.1": true, "[::1]:80": true, "[::1]": true, "localhost": true, "localhost:80": true,
		"node.example": true, "NODE.example:80": true,
		"evil.example": false, "evil.example:80": false, "node.example.evil": false, "": false,
	} {
		if allowedHost(host, hosts) != allowed {
			t.Errorf("%q is allowed: %v", host, !allowed)
		}
	}
	ran := false
	h := guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }), hosts)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://evil.example/status", nil))
	if ran || w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--http-host") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://node.example/status", nil))
	if !ran || w.Code != http.StatusOK {
		t.Errorf("a named host: %d %s", w.Code, w.Body)
	}
}

func TestSecretKeysAreReadFromTheirFile(t *testing.T) {
	key := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }
	for text, want := range map[string]string{
		"# first\n\n" + key(16) + "\n  " + key(24) + "\n" + key(32): "",
		"# none\n":                 "holds no keys",
		"":                         "holds no keys",
		key(16) + "\n" + key(17):   "line 2",
		"not base64!":              "line 1",
		strings.Repeat("A", 1<<17): "too long",
	} {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := readSecretKeys(file)
		switch {
		case want == "" && (err != nil || fmt.Sprint(len(keys), len(keys[0]), len(keys[1]), len(keys[2])) != "3 16 24 32"):
			t.Errorf("%d keys, %v", len(keys), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.20q: %v, want %q", text, err, want)
		case err != nil && strings.Contains(err.Error(), key(17)):
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}

func TestErrorsHaveStatusCodes(t *testing.T) {
	for _, test := range []struct {
		err                error
		code               int
		retryable, unknown bool
	}{
		{sharding.ErrBadID, http.StatusBadRequest, false, false},
		{sharding.ErrTooLarge, http.StatusBadRequest, false, false},
		// The handler may have run; the caller may ask again.
		{fmt.Errorf("ask: %w", context.DeadlineExceeded), http.StatusGatewayTimeout, true, true},
		{sharding.ErrNodeStopping, http.StatusServiceUnavailable, true, false},
		{errors.New("a bug"), http.StatusInternalServerError, false, false},
	} {
		w := httptest.NewRecorder()
		refuse(w, test.err)
		var f failure
		if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil {
			t.Fatal(err)
		}
		if want := (failure{test.err.Error(), test.retryable, test.unknown}); w.Code != test.code || f != want {
			t.Errorf("%v: %d %+v, want %d %+v", test.err, w.Code, f, test.code, want)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	for body, ok := range map[string]bool{
		"": true, `{"n": 3}`: true, `{"m": 3}`: false, `{"n": -1}`: false, `[]`: false,
		`{"n": ` + strings.Repeat(" ", bodyBytesMax) + `3}`: false,
	} {
		w := httptest.NewRecorder()
		if _, got := readAdd(w, httptest.NewRequest("POST", "/", strings.NewReader(body))); got != ok || !ok && w.Code != http.StatusBadRequest {
			t.Errorf("%.20q is accepted: %v, %d", body, got, w.Code)
		}
	}
}

func TestALineOfInputSetsTheWallClock(t *testing.T) {
	var c Config
	c.Command(harness.WallOffset + "1h")
	c.Command("what?")
	if ahead := time.Until(c.wall.Now()); ahead < 30*time.Minute || ahead > 90*time.Minute {
		t.Errorf("the clock is %v ahead, want 1h", ahead)
	}
}

// Members publish the address of their HTTP API; one on all addresses is at the node's host.
func TestTheAPIIsPublished(t *testing.T) {
	for _, tc := range []struct{ listen, advertise, web, want string }{
		{"127.0.0.1:7101", "", "127.0.0.1:8101", "127.0.0.1:8101"},
		{"10.0.0.7:7101", "", "0.0.0.0:8101", "10.0.0.7:8101"},
		{"0.0.0.0:7101", "node-7:7101", "[::]:8101", "node-7:8101"},
	} {
		cfg := &Config{Node: peerage.Config{Listen: tc.listen, Advertise: tc.advertise, Metadata: map[string]string{"zone": "z"}}}
		if got := publishHTTP(cfg, tc.web); got[harness.HTTPMetadata] != tc.want || got["zone"] != "z" {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestAPITLSNeedsItsFiles(t *testing.T) {
	dir := t.TempDir()
	files := peerage.CertificateFiles{Cert: filepath.Join(dir, "a.pem"), Key: filepath.Join(dir, "a.key"), CA: filepath.Join(dir, "ca.pem")}
	if _, err := apiTLS(files); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Errorf("files that are not there: %v", err)
	}
	cfg := config()
	cfg.HTTPTLS = true
	if err := Serve(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "--http-tls") {
		t.Errorf("without files: %v", err)
	}
}

// Any host that reaches the port can make net/http log a line for each of its connections.
func TestErrorsOfConnectionsAreFolded(t *testing.T) {
	var out bytes.Buffer
	s := newHTTPServer(nil, slog.New(slog.NewTextHandler(&out, nil)))
	for port := range 100 {
		s.ErrorLog.Printf("http: TLS handshake error from 10.0.0.9:%d: EOF", port)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=INFO msg="HTTP API: a connection failed" error="http: TLS handshake error from 10.0.0.9:0: EOF"`) {
		t.Errorf("100 errors are logged as:\n%s", got)
	}
}
