package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// startRings starts n processes of the service, by their addresses.
func startRings(t *testing.T, n int) (rings []*ring, servers []*httptest.Server) {
	t.Helper()
	var addrs []string
	for range n {
		s := httptest.NewUnstartedServer(nil)
		servers, addrs = append(servers, s), append(addrs, s.Listener.Addr().String())
		t.Cleanup(s.Close)
	}
	for i, s := range servers {
		r := newRing(addrs[i], addrs)
		s.Config.Handler = r.peerHandler()
		s.Start()
		rings = append(rings, r)
	}
	return rings, servers
}

// voteAt votes at a process as a user does.
func voteAt(t *testing.T, r *ring, key string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := httptest.NewRecorder()
	r.clientHandler().ServeHTTP(w, httptest.NewRequest("POST", "/votes/"+key, nil).WithContext(ctx))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// TestTheBaselineCountsWithoutFaults checks that the ring is a fair baseline: while nothing fails, it
// counts correctly through any process, and all processes have keys.
func TestTheBaselineCountsWithoutFaults(t *testing.T) {
	rings, _ := startRings(t, 3)
	owners := map[string]bool{}
	for i := range 60 {
		key := fmt.Sprint("key", i)
		owners[rings[0].ownerOf(key)] = true
		for n, r := range rings {
			if code, got := voteAt(t, r, key); code != http.StatusOK || got != fmt.Sprintf(`{"votes":%d}`, n+1) {
				t.Fatalf("%s at process %d: %d %s", key, n, code, got)
			}
		}
	}
	if len(owners) != 3 {
		t.Errorf("of 3 processes, %d have keys", len(owners))
	}
}

// TestTheBaselineLosesAProcess checks what the ring does without one of its processes: a fixed ring
// does not answer for its keys, a checked one counts them from 1 again.
func TestTheBaselineLosesAProcess(t *testing.T) {
	rings, servers := startRings(t, 3)
	key := "key"
	for i := 0; rings[0].ownerOf(key) != rings[2].self; i++ {
		key = fmt.Sprint("key", i)
	}
	if code, got := voteAt(t, rings[0], key); got != `{"votes":1}` {
		t.Fatal(code, got)
	}
	servers[2].Close()
	if code, got := voteAt(t, rings[0], key); code != http.StatusServiceUnavailable {
		t.Errorf("the fixed ring answers %d %s", code, got)
	}
	for range missedMax {
		rings[0].checkAll(t.Context(), time.Minute)
	}
	if code, got := voteAt(t, rings[0], key); code != http.StatusOK || got != `{"votes":1}` {
		t.Errorf("the checked ring answers %d %s", code, got)
	}
}
