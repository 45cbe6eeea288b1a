package peerage_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestOneNodeOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx := deadline(t)
	registry := prometheus.NewRegistry()
	node, err := peerage.Start(ctx, peerage.Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	counters, err := sharding.Register(node.Registry(), sharding.Type[add, tally]{
		Name: "counter", New: func(string) sharding.Entity[add, tally] { return &counter{node: node} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 3; want++ {
		if got, err := counters.Ask(ctx, "x", add{1}); err != nil || got.Sum != want {
			t.Fatalf("ask %d: %+v, %v", want, got, err)
		}
	}
	checkPages(t, node)
	if err := node.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := node.Close(); err != nil {
		t.Errorf("Close after Shutdown: %v", err)
	}
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("%d metric families are left behind, %v", len(families), err)
	}
	if _, err := counters.Ask(ctx, "x", add{1}); !errors.Is(err, sharding.ErrNodeStopping) {
		t.Errorf("ask at a closed node: %v", err)
	}
	if err := counters.Tell(ctx, "x", add{1}); !errors.Is(err, sharding.ErrNodeStopping) {
		t.Errorf("tell at a closed node: %v", err)
	}
}

func checkPages(t *testing.T, node *peerage.Node) {
	t.Helper()
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/status": `"counter"`} {
		w := httptest.NewRecorder()
		node.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	node.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/status", nil))
	var s peerage.Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.View == nil || len(s.View.Members) != 1 || s.Leader != s.Node || !s.Ready || len(s.Types) != 1 || s.Types[0].Shards != 1 {
		t.Errorf("status says %+v", s)
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	bad := peerage.Config{
		Name: "a b", Listen: "nowhere", Roles: []string{"back end"}, Join: []string{"10.0.0.1"},
		CertificateFiles: &peerage.CertificateFiles{}, TLS: new(tls.Config),
		MinMembers: -1, RememberedPerSecond: -2, LameDuck: -time.Second,
		Data: map[string]peerage.DataConfig{"": {Durable: []string{"x"}, Sync: -1}},
	}
	_, err := peerage.New(bad)
	var told *peerage.ConfigError
	if !errors.As(err, &told) {
		t.Fatalf("New = %v", err)
	}
	settings := map[string]bool{}
	for _, p := range told.Problems {
		settings[strings.SplitN(p.Setting, "[", 2)[0]] = true
		if p.Value == "" || p.Why == "" {
			t.Errorf("%+v does not say what and why", p)
		}
	}
	for _, want := range []string{"Name", "Listen", "Roles", "Join", "CertificateFiles", "MinMembers",
		"RememberedPerSecond", "LameDuck", "Data", "DataDir"} {
		if !settings[want] {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
}

func TestTakenAddressIsOneClearError(t *testing.T) {
	ctx := deadline(t)
	first, err := peerage.Start(ctx, peerage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addr := first.Self().Addr
	second, err := peerage.Start(ctx, peerage.Config{Listen: addr, Bootstrap: true})
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("Start on a taken address: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Start(ctx); !errors.Is(err, peerage.ErrStarted) {
		t.Errorf("second Start: %v", err)
	}
}

func TestTwoNodesOneRegisterer(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := peerage.New(peerage.Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := peerage.New(peerage.Config{Registerer: registry}); err == nil {
		t.Error("two nodes export the same series")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if second, err := peerage.New(peerage.Config{Registerer: registry}); err != nil {
		t.Errorf("after Close: %v", err)
	} else if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestInterceptorsOfANodeRunFirst checks the order of the interceptors of a node and of a type, for
// a type, a singleton and a daemon.
func TestInterceptorsOfANodeRunFirst(t *testing.T) {
	ctx := deadline(t)
	var order []string // asks wait for their handlers, so nothing runs concurrently
	named := func(name string) []sharding.Interceptor {
		return []sharding.Interceptor{{
			Send: func(ctx context.Context, c *sharding.Call, next func(context.Context) error) error {
				order = append(order, name+" sends")
				return next(sharding.WithHeaders(ctx, map[string]string{name: c.Type}))
			},
			Handle: func(ctx *sharding.Context, _ *sharding.Call, next func(context.Context) error) error {
				order = append(order, name+" handles "+ctx.Header("node")+ctx.Header("type"))
				return next(ctx)
			},
		}}
	}
	node, err := peerage.New(peerage.Config{Interceptors: named("node")})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	one := sharding.Func(func(*sharding.Context, string) (int, error) { return 1, nil })
	typ, err := sharding.Register(node.Registry(), sharding.Type[string, int]{
		Name: "t", Interceptors: named("type"), New: func(string) sharding.Entity[string, int] { return one },
	})
	if err != nil {
		t.Fatal(err)
	}
	singleton, err := sharding.RegisterSingleton(node.Registry(), sharding.Singleton[string, int]{
		Name: "s", Interceptors: named("type"), New: func() sharding.Entity[string, int] { return one },
	})
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := sharding.RegisterDaemon(node.Registry(), sharding.Daemon[string, int]{
		Name: "d", Workers: 1, Interceptors: named("type"), New: func(int, int) sharding.Entity[string, int] { return one },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(node.Start(ctx), node.WaitReady(ctx)); err != nil {
		t.Fatal(err)
	}
	for name, ref := range map[string]sharding.Ref[string, int]{"t": typ.Ref("x"), "s": singleton, "d": daemon.Worker(0)} {
		order = nil
		got, err := ref.Ask(ctx, "", sharding.Retry())
		want := []string{"node sends", "type sends", "node handles " + name + name, "type handles " + name + name}
		if got != 1 || err != nil || !slices.Equal(order, want) {
			t.Errorf("%s: %d, %v, in the order %q, want %q", name, got, err, order, want)
		}
	}
}
