package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding"
)

// fixed is a source: a node with two types and one replicator, without an incarnation.
type fixed struct{}

func (fixed) Membership() (self gossip.Node, stats membership.Stats, ok bool) {
	return self, stats, false
}
func (fixed) Transport() transport.Transport { return nil }
func (fixed) Replicators() map[string]figures.Replicator {
	return map[string]figures.Replicator{"": {BytesSent: 17}}
}
func (fixed) Types() []sharding.Stats {
	counters := sharding.Stats{Type: "counter", Shards: 3, Entities: 7, Coordinating: true, HandoffsOut: 5, Forced: 2, Passivated: 31, CutLoose: 37, SentRemote: 11}
	counters.Dropped[sharding.DropMailboxFull] = 13
	return []sharding.Stats{counters, {Type: "other"}}
}
func (fixed) Frames() figures.Frames { return figures.Frames{AnswersLost: 19, Overrun: 23} }
func (fixed) EventsMissed() uint64   { return 29 }
func (fixed) EntitiesLost() uint64   { return 31 }
func (fixed) FilesSetAside() uint64  { return 0 }
func (fixed) Ready() bool            { return true }

// connected returns an Exporter over a fixed source.
func connected(t *testing.T) *Exporter { return connectedTo(t, fixed{}) }

func connectedTo(t *testing.T, src any) *Exporter {
	t.Helper()
	e := New()
	connect, err := door.Open[func(any) error](e)
	if err == nil {
		err = connect(src)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestValuesComeFromTheSource(t *testing.T) {
	want := `
		# HELP peerage_cluster_events_missed_total Node events dropped because a subscriber was too slow.
		# TYPE peerage_cluster_events_missed_total counter
		peerage_cluster_events_missed_total 29
		# HELP peerage_entity_deactivations_total Ended entity instances, by reason.
		# TYPE peerage_entity_deactivations_total counter
		peerage_entity_deactivations_total{reason="cut_loose",type="counter"} 37
		peerage_entity_deactivations_total{reason="cut_loose",type="other"} 0
		peerage_entity_deactivations_total{reason="fenced",type="counter"} 0
		peerage_entity_deactivations_total{reason="fenced",type="other"} 0
		peerage_entity_deactivations_total{reason="idle",type="counter"} 31
		peerage_entity_deactivations_total{reason="idle",type="other"} 0
		# HELP peerage_ready 1 when the node holds a lease and every type has met its coordinator; the same as /readyz.
		# TYPE peerage_ready gauge
		peerage_ready 1
		# HELP peerage_region_entities Live entities on this node.
		# TYPE peerage_region_entities gauge
		peerage_region_entities{type="counter"} 7
		peerage_region_entities{type="other"} 0
		# HELP peerage_region_handoffs_total Shards that this node started and stopped by order of the coordinator.
		# TYPE peerage_region_handoffs_total counter
		peerage_region_handoffs_total{direction="in",result="ok",type="counter"} 0
		peerage_region_handoffs_total{direction="in",result="ok",type="other"} 0
		peerage_region_handoffs_total{direction="out",result="forced",type="counter"} 2
		peerage_region_handoffs_total{direction="out",result="forced",type="other"} 0
		peerage_region_handoffs_total{direction="out",result="ok",type="counter"} 3
		peerage_region_handoffs_total{direction="out",result="ok",type="other"} 0
		# HELP peerage_sharding_frames_dropped_total Sharding frames dropped before their type was determined, by reason.
		# TYPE peerage_sharding_frames_dropped_total counter
		peerage_sharding_frames_dropped_total{reason="answer_lost"} 19
		peerage_sharding_frames_dropped_total{reason="overrun"} 23
	`
	if err := testutil.CollectAndCompare(connected(t), strings.NewReader(want),
		"peerage_ready", "peerage_region_entities", "peerage_region_handoffs_total",
		"peerage_sharding_frames_dropped_total", "peerage_cluster_events_missed_total", "peerage_entity_deactivations_total"); err != nil {
		t.Error(err)
	}
}

// member is a source whose node holds a view.
type member struct {
	fixed
	stats membership.Stats
}

func (m member) Membership() (self gossip.Node, stats membership.Stats, ok bool) {
	return self, m.stats, true
}

// A float64 has 53 bits: an epoch of 64 in one sample would lose the number of the view.
func TestAnEpochIsExportedExactly(t *testing.T) {
	want := `
		# HELP peerage_view_generation Generation of the view that this node holds: the upper 32 bits of its epoch.
		# TYPE peerage_view_generation gauge
		peerage_view_generation 4.294967295e+09
		# HELP peerage_view_number Number of the view that this node holds in its generation: the lower 32 bits of its epoch.
		# TYPE peerage_view_number gauge
		peerage_view_number 4.294967293e+09
	`
	src := member{stats: membership.Stats{Epoch: 1<<64 - 3}}
	if err := testutil.CollectAndCompare(connectedTo(t, src), strings.NewReader(want), "peerage_view_generation", "peerage_view_number"); err != nil {
		t.Error(err)
	}
}

// An increase() alert misses a counter's first appearance, so the combinations that alerts read
// are exported as 0 from the start.
func TestCountersAreThereBeforeTheyCount(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(connected(t))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	for name, want := range map[string]int{
		"peerage_duplicate_activations_total":   2,
		"peerage_region_messages_dropped_total": 2 * len(sharding.Stats{}.Dropped),
		"peerage_region_messages_total":         2 * 4,
		"peerage_ddata_terms_refused_total":     1,
		"peerage_ddata_stamps_ahead_total":      1,
	} {
		if series[name] != want {
			t.Errorf("%s has %d series, want %d", name, series[name], want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for want, err := range map[string]error{
		"ok": nil, "error": &sharding.HandlerError{Text: "no"}, "overloaded": sharding.ErrMailboxFull,
		"fenced": sharding.ErrMoved, "canceled": context.Canceled, "timeout": context.DeadlineExceeded,
		"unavailable": errors.Join(errors.New("at c"), sharding.ErrNodeLost),
	} {
		if got := askOutcome(err); got != want {
			t.Errorf("outcome(%v) = %s, want %s", err, got, want)
		}
	}
}

// typed is a source with one type.
type typed struct {
	fixed
	of sharding.Stats
}

func (s typed) Types() []sharding.Stats { return []sharding.Stats{s.of} }

// Series of abilities that a type does not use would all be 0.
func TestSeriesOfAbilitiesThatATypeUses(t *testing.T) {
	families := func(of sharding.Stats) []string {
		r := prometheus.NewRegistry()
		r.MustRegister(connectedTo(t, typed{of: of}))
		all, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range all {
			names = append(names, strings.TrimPrefix(f.GetName(), "peerage_"))
		}
		return names
	}
	plain := families(sharding.Stats{Type: "plain"})
	for _, c := range []struct {
		of  sharding.Stats
		has []string
	}{
		{sharding.Stats{Type: "x", KeepsState: true}, []string{
			"entity_state_bytes", "entity_state_loss_total", "entity_state_recoveries_total", "entity_state_reused_total",
			"entity_state_unkept_total", "region_standby_shards", "region_state_transfer_bytes_total",
		}},
		{sharding.Stats{Type: "x", Remembers: true}, []string{
			"remembered_store_errors_total", "remembered_updates_dropped_total", "remembered_updates_waiting",
		}},
		{sharding.Stats{Type: "x", Coordinating: true}, []string{"coordinator_shards"}},
	} {
		added := slices.DeleteFunc(families(c.of), func(name string) bool { return slices.Contains(plain, name) })
		if !slices.Equal(added, c.has) {
			t.Errorf("%+v adds %q, want %q", c.of, added, c.has)
		}
	}
}

// The families of which series appear with their first event are those that docs/METRICS.md
// marks.
func TestRareFamiliesAreMarked(t *testing.T) {
	doc, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var marked []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(peerage_[a-z_]+)` \\| counter \\|.*From the first event\\.").FindAllStringSubmatch(string(doc), -1) {
		marked = append(marked, m[1])
	}
	var rare []string
	for _, s := range New().series {
		if s.rare {
			rare = append(rare, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(s.desc.String())[1])
		}
	}
	rare = append(rare, "peerage_ddata_operations_total") // a vector, whose labels are those of calls
	slices.Sort(marked)
	slices.Sort(rare)
	if len(rare) == 0 || !slices.Equal(marked, rare) {
		t.Errorf("marked %q, rare %q", marked, rare)
	}
}

// described is a row of docs/METRICS.md: name, type, labels, meaning.
var described = regexp.MustCompile("(?m)^\\| `(peerage_[a-z_]+)` \\| (gauge|counter|histogram) \\| ([a-z_,]*) \\| (.*?)( From the first event\\.)? \\|$")

// TestCatalogueMatches compares names, labels and meanings in docs/METRICS.md with what is
// exported.
func TestCatalogueMatches(t *testing.T) {
	doc, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range described.FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, fmt.Sprintf("%s {%s} %s", m[1], m[3], m[4]))
	}
	descs := make(chan *prometheus.Desc, 1000)
	connected(t).Describe(descs)
	close(descs)
	var exported []string
	parts := regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]+)", .* variableLabels: \{([^}]*)\}`)
	for d := range descs {
		m := parts.FindStringSubmatch(d.String())
		exported = append(exported, fmt.Sprintf("%s {%s} %s", m[1], m[3], m[2]))
	}
	for _, n := range exported {
		if !slices.Contains(listed, n) {
			t.Errorf("exported, and not so in docs/METRICS.md: %s", n)
		}
	}
	for _, n := range listed {
		if !slices.Contains(exported, n) {
			t.Errorf("in docs/METRICS.md, and not so exported: %s", n)
		}
	}
}
