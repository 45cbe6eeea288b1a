package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const nowhere = "127.0.0.1:1" // nothing listens there

func serve(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func newClient(t *testing.T, nodes ...string) *Client {
	t.Helper()
	c, err := New(Config{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The first node that can be reached answers; its refusal is final.
func TestTheFirstReachableNodeAnswers(t *testing.T) {
	good := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"name": "a"}`)) })
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error": "no such type"}`))
	})
	if s, err := newClient(t, nowhere, good, bad).Status(t.Context()); err != nil || s.Name != "a" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := newClient(t, "http://"+good+"/").Status(t.Context()); err != nil || s.Name != "a" {
		t.Errorf("by its URL: %+v, %v", s, err)
	}
	_, err := newClient(t, bad, good).Status(t.Context())
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound || refused.Text != "no such type" {
		t.Errorf("%v", err)
	}
	_, err = newClient(t, nowhere, nowhere).Status(t.Context())
	if unreachable := (*UnreachableError)(nil); !errors.As(err, &unreachable) || len(unreachable.Nodes) != 2 || !strings.Contains(err.Error(), "connection refused; start one with `peerage node --http 127.0.0.1:1`") {
		t.Errorf("%v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	hangs := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, ErrTooLate)
	defer cancel()
	if _, err := newClient(t, hangs).Status(ctx); !errors.Is(err, ErrTooLate) || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("a node that hangs: %v", err)
	}
	text := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	if _, err := newClient(t, text).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "not like a node") || !strings.Contains(err.Error(), "--node") {
		t.Errorf("a server that is no node: %v", err)
	}
	for _, node := range []string{"nowhere", "http://", "a b:1", ""} {
		if _, err := New(Config{Nodes: []string{node}}); err == nil || !strings.Contains(err.Error(), "--node") {
			t.Errorf("--node %q: %v", node, err)
		}
	}
}

// A member is found by its name or NodeID. A name that two of them have is no answer.
func TestDrainFindsItsMember(t *testing.T) {
	drained := ""
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		drained = r.Method + " " + r.URL.Path
		_, _ = w.Write([]byte(`{"name": "b"}`))
	})
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"name": "a", "node": "0000000000000001", "view": {"members": [
			{"id": "0000000000000001", "name": "a", "status": "up"},
			{"id": "0000000000000002", "name": "b", "status": "up", "metadata": {"http": "` + b + `"}},
			{"id": "0000000000000003", "name": "c", "status": "up"},
			{"id": "0000000000000004", "name": "d", "status": "up"}, {"id": "0000000000000005", "name": "d", "status": "up"}]}}`))
	})
	c := newClient(t, a)
	for _, name := range []string{"b", "0000000000000002"} {
		drained = ""
		if d, err := c.Drain(t.Context(), name); err != nil || d.Name != "b" || drained != "POST /drain" {
			t.Errorf("%s: %+v, %v, %q", name, d, err, drained)
		}
	}
	for name, want := range map[string]string{"c": "--node", "d": "NodeID", "e": "the members are a, b, c, d, d"} {
		if _, err := c.Drain(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", name, err, want)
		}
	}
}

// A service that serves only Node.Handler, which is read-only, is no node that lacks a page: the error
// says how to allow it.
func TestReadOnlyServicesAreExplained(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"name": "a", "node": "0000000000000001"}`))
	})
	addr := serve(t, mux.ServeHTTP)
	c := newClient(t, addr)
	_, drain := c.Drain(t.Context(), "a")
	for option, err := range map[string]error{"dashboard.Options.AllowDrain": drain, "dashboard.Options.AllowPlace": c.Place(t.Context(), "counter", 1, "a")} {
		if err == nil {
			t.Errorf("no error that names %s", option)
			continue
		}
		text := strings.ReplaceAll(err.Error(), addr, "ADDR") // a port may contain 404
		if !strings.Contains(text, option) || strings.Contains(text, "404") {
			t.Errorf("%v does not name %s, or names the status", err, option)
		}
	}
}
