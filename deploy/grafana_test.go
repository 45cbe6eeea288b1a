package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// board is what these tests read of a Grafana dashboard.
type board struct {
	Title         string
	SchemaVersion int
	Annotations   struct{ List []query }
	Templating    struct{ List []variable }
	Panels        []boardPanel
}

type boardPanel struct {
	ID                       int
	Type, Title, Description string
	Datasource               *source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []query
}

type variable struct {
	Name, Type, Definition string
	Datasource             *source
}

type query struct {
	Expr       string
	Datasource *source
}

// source is a data source, by the variable of the dashboard.
type source struct{ Type, UID string }

func readBoard(t *testing.T) *board {
	t.Helper()
	b := &board{}
	if err := json.Unmarshal([]byte(readFile(t, "grafana/peerage.json")), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// queries returns all expressions, by where they are.
func (b *board) queries() map[string]query {
	all := map[string]query{}
	for i, a := range b.Annotations.List {
		all[fmt.Sprintf("annotation %d", i)] = a
	}
	for _, v := range b.Templating.List {
		if v.Type == "query" {
			all["variable "+v.Name] = query{v.Definition, v.Datasource}
		}
	}
	for _, p := range b.Panels {
		for i, q := range p.Targets {
			all[fmt.Sprintf("%q, %d", p.Title, i)] = q
		}
	}
	return all
}

// catalogue returns the labels of each metric of docs/METRICS.md. Buckets, sums and counts of
// histograms are among them.
func catalogue(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(peerage_[a-z_]+)` \\| (\\w+) \\| ([a-z_,]*) \\|").FindAllStringSubmatch(readFile(t, "../docs/METRICS.md"), -1) {
		labels := append(strings.Split(m[3], ","), "job", "instance")
		all[m[1]] = labels
		if m[2] == "histogram" {
			all[m[1]+"_bucket"] = append(slices.Clone(labels), "le")
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d metrics in the catalogue", len(all))
	}
	for _, m := range regexp.MustCompile(`record: ((\w+):peerage\S+)`).FindAllStringSubmatch(readFile(t, "prometheus/peerage.rules.yml"), -1) {
		all[m[1]] = strings.Split(m[2], "_")
	}
	return all
}

// ofTheProcess are the metrics of the collectors that client_golang offers to every service.
var ofTheProcess = map[string]bool{
	"process_cpu_seconds_total": true, "go_memstats_heap_alloc_bytes": true, "go_goroutines": true, "go_gc_duration_seconds": true,
}

var (
	metricUse  = regexp.MustCompile(`((?:\w+:)?(?:peerage|go|process)_[a-z_]+(?::\w+)?)(?:\{([^}]*)\})?`)
	labelMatch = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
)

// A panel on a metric or a label that no node exports stays empty, and nothing shows why.
func TestTheDashboardUsesTheCatalogue(t *testing.T) {
	known := catalogue(t)
	all := readBoard(t).queries()
	if len(all) < 40 {
		t.Fatalf("%d queries found", len(all))
	}
	for _, where := range slices.Sorted(maps.Keys(all)) {
		q := all[where]
		if q.Datasource == nil || q.Datasource.Type != "prometheus" || q.Datasource.UID != "${datasource}" {
			t.Errorf("%s does not use the variable datasource", where)
		}
		uses := metricUse.FindAllStringSubmatch(q.Expr, -1)
		if len(uses) == 0 {
			t.Errorf("%s: no metric in %s", where, q.Expr)
		}
		var labels []string
		for _, u := range uses {
			if known[u[1]] == nil && !ofTheProcess[u[1]] {
				t.Errorf("%s uses %s, which neither docs/METRICS.md nor the recording rules have", where, u[1])
				continue
			}
			labels = append(labels, known[u[1]]...)
			for _, l := range labelMatch.FindAllStringSubmatch(u[2], -1) {
				if !slices.Contains(known[u[1]], l[1]) && !ofTheProcess[u[1]] {
					t.Errorf("%s: %s has no label %s", where, u[1], l[1])
				}
			}
		}
		for _, by := range grouping.FindAllStringSubmatch(q.Expr, -1) {
			for l := range strings.SplitSeq(by[1], ", ") {
				if !slices.Contains(labels, l) {
					t.Errorf("%s groups by %s, which no metric in %s has", where, l, q.Expr)
				}
			}
		}
	}
}

// units are those of Grafana that the dashboard uses, by what an expression must contain.
var units = map[string]*regexp.Regexp{
	"none":        regexp.MustCompile(``),
	"percentunit": regexp.MustCompile(`:ratio_`),
	"reqps":       regexp.MustCompile(`rate\(peerage_client_requests_total`),
	"ops":         regexp.MustCompile(`rate\(.*_total`),
	"Bps":         regexp.MustCompile(`rate\(.*_bytes_total`),
	"bytes":       regexp.MustCompile(`_bytes\b`),
	"s":           regexp.MustCompile(`_seconds(_bucket)?\b|lease_lost_total`),
}

func TestTheDashboardIsWellFormed(t *testing.T) {
	b := readBoard(t)
	if b.Title != "Peerage" || b.SchemaVersion < 36 {
		t.Errorf("%q with schema version %d", b.Title, b.SchemaVersion)
	}
	var names []string
	for _, v := range b.Templating.List {
		names = append(names, v.Name+" "+v.Type)
	}
	if want := []string{"datasource datasource", "job query", "type query"}; !slices.Equal(names, want) {
		t.Errorf("variables %q, want %q", names, want)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d, %q: no title, or an id that is not its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q lies over %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" {
			checkPanel(t, p)
		}
	}
}

// checkPanel checks that a panel has a description, queries, and the unit of what it shows.
func checkPanel(t *testing.T, p boardPanel) {
	t.Helper()
	unit := units[p.FieldConfig.Defaults.Unit]
	if p.Description == "" || len(p.Targets) == 0 || unit == nil {
		t.Errorf("%q: no description, no query, or the unknown unit %q", p.Title, p.FieldConfig.Defaults.Unit)
		return
	}
	for _, q := range p.Targets {
		if !unit.MatchString(q.Expr) {
			t.Errorf("%q shows %s in %q", p.Title, q.Expr, p.FieldConfig.Defaults.Unit)
		}
	}
}
