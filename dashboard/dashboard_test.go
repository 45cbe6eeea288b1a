package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding"
)

// invented is a source with invented data: a rehearsal of states that are rare.
type invented struct {
	mu      sync.Mutex
	cluster figures.Cluster
	shards  sharding.ClusterStats
	placed  map[sharding.ShardID]string
	ended   []string
	drained chan struct{}
}

func (f *invented) Collect(context.Context) figures.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cluster
}

func (f *invented) Shards(_ context.Context, typ string) (sharding.ClusterStats, error) {
	c := f.shards
	c.Type = typ
	return c, nil
}

func (f *invented) Search(_ context.Context, typ, text string) ([]sharding.Location, []sharding.NodeFailure, error) {
	if typ != "type-00" {
		return nil, nil, sharding.ErrUnknownType
	}
	var all []sharding.Location
	for i := range 2 * findMax {
		all = append(all, sharding.Location{ID: fmt.Sprint(text, i), Lives: true})
	}
	return all, []sharding.NodeFailure{{Name: "n1"}}, nil
}

func (f *invented) Where(_ context.Context, _, id string) (sharding.Location, error) {
	return sharding.Location{ID: id, Name: "n0", Lives: true, Age: time.Minute, Waiting: 3}, nil
}

func (f *invented) Explain(_ context.Context, typ string, shard sharding.ShardID) (sharding.History, error) {
	return sharding.History{Type: typ, Shard: shard, Events: make([]sharding.TraceEvent, 1000)}, nil
}

func (f *invented) ShardOf(string, string) (sharding.ShardID, error) { return 7, nil }

func (f *invented) Keys(context.Context, string, string) ([]string, error) {
	return make([]string, 5000), nil
}

func (f *invented) Drain(context.Context) error {
	close(f.drained)
	return nil
}

func (f *invented) Place(_ context.Context, _ string, wanted map[sharding.ShardID]string) error {
	f.placed = wanted
	return nil
}

func (f *invented) Passivate(_ context.Context, typ, id string) (sharding.Location, error) {
	if typ != "type-00" {
		return sharding.Location{}, sharding.ErrUnknownType
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, id)
	return sharding.Location{ID: id, Name: "n0", Lives: true}, nil
}

var epoch = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// invent returns a healthy cluster of so many nodes and types, each with so many shards.
func invent(nodes, types, shards int) *invented {
	f := &invented{drained: make(chan struct{})}
	f.cluster = figures.Cluster{Cluster: "shop", Self: 1, At: epoch, View: &gossip.View{Epoch: 7}}
	for i := range nodes {
		id := gossip.NodeID(i + 1)
		n := figures.Node{ID: id, Name: fmt.Sprint("n", i), Ready: true, Leader: 1, Lease: figures.Lease{Valid: true, LeftSeconds: 2, FullSeconds: 3}}
		for j := range types {
			n.Types = append(n.Types, figures.Type{Name: fmt.Sprintf("type-%02d", j), Hosting: true, Coordinating: i == 0, ShardsTotal: shards, Shards: shards / nodes, Entities: 10})
		}
		n.Data = []figures.DataSet{{Keys: 100 + i, Settled: true, Lag: uint64(i), Behind: 1}}
		f.cluster.Nodes = append(f.cluster.Nodes, n)
		f.cluster.View.Members = append(f.cluster.View.Members, gossip.Member{Node: gossip.Node{ID: id, Name: n.Name}, Status: gossip.Up})
		f.shards.Nodes = append(f.shards.Nodes, sharding.NodeStats{Node: id})
	}
	for i := range shards * min(nodes, 1) {
		n := &f.shards.Nodes[i%nodes]
		n.Shards = append(n.Shards, sharding.ShardStats{Shard: sharding.ShardID(i), Entities: 2})
	}
	return f
}

// poll returns what a page shows.
func (f *invented) poll(t *testing.T, h *hub) *shown {
	t.Helper()
	states, _ := h.pollOnce(map[string]bool{"": true})
	s := new(shown)
	if err := json.Unmarshal(states[""], s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each rare state is shown as what it is, and in a bounded answer.
func TestRehearsal(t *testing.T) {
	for name, c := range map[string]struct {
		made   *invented
		change func(f *invented)
		level  string
		text   string
	}{
		"healthy":          {invent(4, 3, 256), nil, "ok", "all leases valid"},
		"thousand shards":  {invent(4, 1, 1000), nil, "ok", ""},
		"hundred nodes":    {invent(100, 1, 1000), nil, "ok", ""},
		"forty types":      {invent(5, 40, 100), nil, "ok", ""},
		"unreachable node": {invent(4, 1, 64), func(f *invented) { f.cluster.Nodes = f.cluster.Nodes[:3] }, "warn", "n3 does not answer"},
		"without a quorum": {invent(4, 1, 64), func(f *invented) {
			f.cluster.Nodes = f.cluster.Nodes[:1]
			f.cluster.Nodes[0].Lease = figures.Lease{}
		}, "bad", "no quorum"},
		"empty": {invent(1, 0, 0), func(f *invented) {
			f.cluster.View, f.cluster.Nodes[0].NotReady = nil, "in no cluster yet"
		}, "empty", "in no cluster"},
		"lived twice":  {invent(2, 1, 8), func(f *invented) { f.cluster.Nodes[0].Types[0].Duplicates = 1 }, "bad", "ran twice"},
		"slow handler": {invent(2, 1, 8), func(f *invented) { f.cluster.Nodes[0].Types[0].OldestHandlerSeconds = 7 }, "warn", "has run for 7 s"},
	} {
		if c.change != nil {
			c.change(c.made)
		}
		h := newHub(c.made, Options{Streams: 1})
		s := c.made.poll(t, h)
		if s.Health.Level != c.level || !strings.Contains(s.Health.Text, c.text) {
			t.Errorf("%s: %+v, want %s with %q", name, s.Health, c.level, c.text)
		}
		if n := len(encodeState(s)); n > 128<<10 {
			t.Errorf("%s: a state has %d bytes", name, n)
		}
		if s.Map != nil && slices.Contains(s.Map.Homes, int16(-1)) {
			t.Errorf("%s: shards without a home: %v", name, s.Map.Homes)
		}
	}
}

func TestRatesAndLatencies(t *testing.T) {
	f := invent(2, 1, 8)
	h := newHub(f, Options{})
	if s := f.poll(t, h); s.Totals.AskRate != -1 || s.Totals.P99 != -1 || s.Data[0].WriteP99 != -1 || s.Data[0].ReadP99 != -1 {
		t.Errorf("before a second poll: %+v, %+v", s.Totals, s.Data)
	}
	next := invent(2, 1, 8)
	next.cluster.At = epoch.Add(2 * time.Second)
	bounds := figures.LatencyBounds()
	for i := range next.cluster.Nodes {
		typ := &next.cluster.Nodes[i].Types[0]
		typ.Handled = 100
		typ.AskBuckets = make([]uint64, len(bounds)+1)
		for j := range typ.AskBuckets {
			if typ.AskBuckets[j] = 100; j == 0 {
				typ.AskBuckets[j] = 50
			}
		}
		next.cluster.Nodes[i].Data[0].WriteBuckets = typ.AskBuckets
		next.cluster.Nodes[i].Data[0].ReadBuckets = slices.Repeat([]uint64{50}, len(bounds)+1)
	}
	f.cluster = next.cluster
	s := f.poll(t, h)
	if d := s.Data[0]; d.WriteP50 != 0.1 || d.WriteP99 < 0.24 || d.WriteP99 > 0.25 {
		t.Errorf("%+v, want majority writes of 0.1 ms and just under 0.25 ms", d)
	}
	if d := s.Data[0]; d.ReadP50 != 0.05 || d.ReadP99 != 0.099 {
		t.Errorf("%+v, want majority reads in the first bucket, of 0.1 ms", d)
	}
	if s.Totals.AskRate != 100 || s.Totals.P50 != 0.1 || s.Totals.P99 < 0.24 || s.Totals.P99 > 0.25 || !s.Totals.Measured {
		t.Errorf("%+v, want 100 a second, 0.1 ms and just under 0.25 ms", s.Totals)
	}
}

// The page has the zone of Config.Zone, whatever the application writes into its metadata.
func TestMembersHaveTheirZone(t *testing.T) {
	f := invent(2, 1, 8)
	m := &f.cluster.View.Members[1]
	m.Zone, m.Metadata = "b", map[string]string{"zone": "mine"}
	if s := f.poll(t, newHub(f, Options{})); s.Members[0].Zone != "" || s.Members[1].Zone != "b" {
		t.Errorf("zones %q and %q", s.Members[0].Zone, s.Members[1].Zone)
	}
}

// A node keeps its colour for life, and its successor gets none that is in use.
func TestColoursStay(t *testing.T) {
	m := newModel()
	a, b := m.colorOf(11), m.colorOf(12)
	if m.colorOf(11) != a || a == b {
		t.Errorf("colours %d and %d", a, b)
	}
	delete(m.colors, 11)
	if c := m.colorOf(13); c != a || m.colorOf(12) != b {
		t.Errorf("the next node got colour %[2]d, want the free %[1]d", a, c)
	}
}

func TestAFailoverIsBrokenDown(t *testing.T) {
	f := invent(3, 1, 9)
	h := newHub(f, Options{})
	f.poll(t, h)
	gone := f.cluster.View.Members[2]
	h.lost = map[gossip.NodeID]time.Duration{gone.ID: 20 * time.Millisecond}
	h.onEvent(gossip.MemberRemoved{Member: gone, Cause: gossip.CauseDead, Evidence: "refused"})
	f.cluster.View = &gossip.View{Epoch: 8, Members: f.cluster.View.Members[:2]}
	f.cluster.Nodes = f.cluster.Nodes[:2]
	f.cluster.At = epoch.Add(time.Second)
	f.cluster.Nodes[0].Types[0].Moves = []figures.Moves{{From: gone.ID, Why: "its home left the view", Shards: 3, Hosted: 3, Began: epoch, ChosenMillis: 1, WrittenMillis: 4, DoneMillis: 6}}
	s := f.poll(t, h)
	if s.Fail == nil || s.Fail.Name != "n2" || s.Fail.Total != 26 || len(s.Fail.Phases) != 4 || s.Fail.Shards != 3 || s.Fail.Undetected {
		t.Fatalf("%+v, want 26 ms in four phases", s.Fail)
	}
	h.model.gone[0].lost = 0 // no page was open, so that no poll saw the loss
	if s := f.poll(t, h); s.Fail == nil || s.Fail.Total != 6 || !s.Fail.Undetected {
		t.Errorf("%+v, want 6 ms without the detection", s.Fail)
	}
	if last := s.Members[len(s.Members)-1]; last.Gone != "crashed" {
		t.Errorf("%+v is not shown as crashed", last)
	}
	var texts []string
	for _, e := range s.Events {
		texts = append(texts, e.Text)
	}
	if all := strings.Join(texts, "; "); !strings.Contains(all, "n2 crashed") || !strings.Contains(all, "3 shards of type-00 moved from n2") {
		t.Errorf("events: %s", all)
	}
}

// A poll that began before a removal does not make the page forget the member, and the time
// of the loss is read from the links afterwards.
func TestALatePollForgetsNoRemoval(t *testing.T) {
	f := invent(3, 1, 9)
	h := newHub(f, Options{})
	gone := f.cluster.View.Members[2]
	h.onEvent(gossip.MemberRemoved{Member: gone, Cause: gossip.CauseDead})
	h.model.gone[0].at = epoch
	if s := f.poll(t, h); len(s.Members) != 3 {
		t.Errorf("%d members by the old view", len(s.Members))
	}
	f.cluster.View = &gossip.View{Epoch: 8, Members: f.cluster.View.Members[:2]}
	f.cluster.Nodes = f.cluster.Nodes[:2]
	f.cluster.At = epoch.Add(time.Second)
	f.cluster.Nodes[0].Links = []figures.Link{{Node: gone.ID, DownSeconds: 1.02}}
	f.cluster.Nodes[0].Types[0].Moves = []figures.Moves{
		{Why: whyTakeover, Shards: 9, Began: epoch.Add(-5 * time.Second), ChosenMillis: 3000}, // before the crash
		{From: gone.ID, Shards: 3, Hosted: 3, Began: epoch, ChosenMillis: 1, WrittenMillis: 2, DoneMillis: 3},
	}
	s := f.poll(t, h)
	if len(s.Members) != 3 || s.Members[2].Gone != "crashed" || s.Fail == nil || s.Fail.Shards != 3 || s.Fail.Undetected || s.Fail.Total < 22.9 || s.Fail.Total > 23.1 {
		t.Errorf("%+v, %+v; want 20 ms until it was removed, and 3 ms for three shards", s.Members, s.Fail)
	}
}

// A poll that began before a removal adds no event about a member that does not answer.
func TestARemovedMemberIsNotCalledSilent(t *testing.T) {
	f := invent(3, 1, 9)
	h := newHub(f, Options{})
	f.poll(t, h)
	h.onEvent(gossip.MemberRemoved{Member: f.cluster.View.Members[2], Cause: gossip.CauseDead, Evidence: "sealed refusal"})
	f.cluster.Nodes = f.cluster.Nodes[:2]
	s := f.poll(t, h)
	if n := len(s.Events); n != 1 || s.Events[0].Text != "n2 crashed" || !strings.Contains(s.Events[0].Detail, "port as closed") {
		t.Errorf("events %+v, want only the crash, with its evidence in words", s.Events)
	}
}

// A lease that ends and comes back is one line, which says how long entities paused.
func TestAPauseIsOneEvent(t *testing.T) {
	m := newModel()
	m.noteLease(epoch, true) // the first lease
	m.noteLease(epoch, false)
	if n := len(m.events); n != 1 || !strings.Contains(m.events[0].Text, "has ended") {
		t.Fatalf("%+v", m.events)
	}
	m.addEvent(epoch, "info", "other", "")
	m.noteLease(epoch.Add(350*time.Millisecond), true)
	m.noteLease(epoch.Add(time.Second), true) // of another kind
	if e := m.events[0]; len(m.events) != 2 || e.Text != "this node had no lease" || e.Detail != "its entities paused for 350 ms" {
		t.Errorf("%+v", m.events)
	}
}

// A shard whose home has changed is marked for a while.
func TestMovedShardsAreMarked(t *testing.T) {
	f := invent(2, 1, 4)
	h := newHub(f, Options{})
	f.poll(t, h)
	f.shards.Nodes[0].Shards, f.shards.Nodes[1].Shards = nil, append(f.shards.Nodes[1].Shards, f.shards.Nodes[0].Shards...)
	f.cluster.At = epoch.Add(time.Second)
	if s := f.poll(t, h); !slices.Equal(s.Map.Recent, []uint32{0, 2}) {
		t.Errorf("recent %v, want 0 and 2", s.Map.Recent)
	}
	f.cluster.At = epoch.Add(time.Minute)
	if s := f.poll(t, h); len(s.Map.Recent) > 0 {
		t.Errorf("recent %v a minute later", s.Map.Recent)
	}
}

func serve(t *testing.T, f *invented, o Options) *httptest.Server {
	t.Helper()
	if o.Streams == 0 {
		o.Streams = defaultStreams
	}
	if o.Logger == nil {
		o.Logger = discarded()
	}
	s := httptest.NewServer(newHub(f, o).routes())
	t.Cleanup(s.Close)
	return s
}

func request(t *testing.T, method, url string, head ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"type": "type-00", "shard": 3, "node": "n1", "id": "ada"}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func TestAnswersAreProtectedAndBounded(t *testing.T) {
	s := serve(t, invent(3, 2, 16), Options{})
	for path, want := range map[string]string{
		"/": "page.js", "/page.js": "EventSource", "/draw.js": "export", "/page.css": "--n0", "/icon.svg": "<svg", "/state": `"cluster":"shop"`,
		"/find?type=type-00&q=ada": `"exact":{`, "/explain?type=type-00&id=ada": `"shard":7`, "/explain?type=type-00&shard=3": `"shard":3`, "/keys": `"of":5000`,
	} {
		code, head, body := request(t, "GET", s.URL+path)
		if code != http.StatusOK || !strings.Contains(body, want) || len(body) > 64<<10 {
			t.Errorf("%s: %d, %d bytes without %q", path, code, len(body), want)
		}
		if head.Get("Content-Security-Policy") != policy || head.Get("Cache-Control") != "no-store" || head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, head)
		}
	}
	for path, want := range map[string]int{
		"/none": 404, "/find?type=nose&q=a": 404, "/explain?type=type-00&shard=x": 400, "/find?type=type-00&q=" + strings.Repeat("x", textMax+1): 400,
	} {
		if code, _, _ := request(t, "GET", s.URL+path); code != want {
			t.Errorf("%.40s: %d, want %d", path, code, want)
		}
	}
}

// Nothing is changed unless an option allows it, and never for a page of another origin.
func TestActionsMustBeAllowed(t *testing.T) {
	f := invent(2, 1, 8)
	closed, open := serve(t, f, Options{}), serve(t, f, Options{AllowDrain: true, AllowPlace: true, AllowPassivate: true})
	for _, path := range []string{"/drain", "/place", "/passivate"} {
		for _, c := range []struct {
			url  string
			head []string
		}{
			{closed.URL, []string{actionHeader, "1"}},
			{open.URL, nil},
			{open.URL, []string{actionHeader, "1", "Sec-Fetch-Site", "cross-site"}},
			{open.URL, []string{actionHeader, "1", "Origin", "http://elsewhere.example"}},
		} {
			if code, _, body := request(t, "POST", c.url+path, c.head...); code != http.StatusForbidden {
				t.Errorf("%s %v: %d %s", path, c.head, code, body)
			}
		}
	}
	if f.placed != nil || f.ended != nil {
		t.Fatalf("a refused request placed a shard, or ended entities %v", f.ended)
	}
	if code, _, body := request(t, "POST", open.URL+"/passivate", actionHeader, "1"); code != http.StatusOK || !strings.Contains(body, `"name":"n0"`) || !slices.Equal(f.ended, []string{"ada"}) {
		t.Errorf("passivate: %d %s, %v", code, body, f.ended)
	}
	if code, _, body := request(t, "POST", open.URL+"/place", actionHeader, "1"); code != http.StatusNoContent || f.placed[3] != "n1" {
		t.Errorf("place: %d %s, %v", code, body, f.placed)
	}
	if code, _, body := request(t, "POST", open.URL+"/drain", actionHeader, "1"); code != http.StatusAccepted {
		t.Errorf("drain: %d %s", code, body)
	}
	<-f.drained
}

// Pages are counted and bounded, and the polls end with the last one.
func TestStreamsAreBounded(t *testing.T) {
	f := invent(2, 1, 8)
	h := newHub(f, Options{Streams: 1, Logger: discarded()})
	s := httptest.NewServer(h.routes())
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	line, err := bufio.NewReader(first.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `data: {"cluster":"shop"`) || first.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%.60s, %v", line, err)
	}
	if code, head, _ := request(t, "GET", s.URL+"/stream"); code != http.StatusServiceUnavailable || head.Get("Retry-After") == "" {
		t.Errorf("a second page: %d", code)
	}
	cancel()
	deadline, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for polling := true; polling; {
		if deadline.Err() != nil {
			t.Fatal("it polls without pages")
		}
		h.mu.Lock()
		polling = h.polling
		h.mu.Unlock()
	}
	if h.counts.Refused != 1 || h.counts.Open != 0 {
		t.Errorf("%+v", h.counts)
	}
}

// A page that takes nothing misses states, and holds nothing up.
func TestASlowPageHoldsNothingUp(t *testing.T) {
	h := newHub(invent(1, 1, 4), Options{Streams: 2, Logger: discarded()})
	h.polling = true // by this test
	slow := h.openStream("")
	for i := range 5 {
		h.sendStates(map[string][]byte{"": {byte(i)}})
	}
	if got := <-slow.states; got[0] != 4 {
		t.Errorf("it gets state %d, want the last", got[0])
	}
	h.closeStream(slow, true)
	if h.counts.Dropped != 1 {
		t.Errorf("%+v", h.counts)
	}
}

func TestErrorsHaveStatus(t *testing.T) {
	for err, want := range map[error]int{sharding.ErrUnknownType: 404, sharding.ErrBadID: 400, errors.New("x"): 503} {
		if got := statusOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
