package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// figure is one measure of a node, and by how much it may grow over the samples of a long run:
// by a part of what it was at first, and at least by an amount. In a short run it may grow short times as
// much: rings of past events, pools and labels of metrics fill up in the first half hour.
type figure struct {
	name, unit           string
	part, atLeast, short float64
	read                 func(harness.Metrics) float64
}

// shortRun is the time of a run below which the allowances of short runs apply.
const shortRun = 30 * time.Minute

// sumOf reads the sum of metric families.
func sumOf(families ...string) func(harness.Metrics) float64 {
	return func(m harness.Metrics) (sum float64) {
		for _, f := range families {
			sum += m.Sum(f)
		}
		return sum
	}
}

const kib = 1 << 10

// figures are the measures from /metrics. The timers of a process are not among them: the Go
// runtime does not count those; a timer that is left behind keeps heap.
var figures = []figure{
	{"heap after a collection", "KiB", 0.05, 256, 8, func(m harness.Metrics) float64 { return m.Sum("go_memstats_heap_alloc_bytes") / kib }},
	{"stacks", "KiB", 0.1, 256, 4, func(m harness.Metrics) float64 { return m.Sum("go_memstats_stack_inuse_bytes") / kib }},
	{"resident memory", "KiB", 0.1, 4096, 4, func(m harness.Metrics) float64 { return m.Sum("process_resident_memory_bytes") / kib }},
	{"goroutines", "", 0.05, 5, 2, sumOf("go_goroutines")},
	{"threads", "", 0.1, 4, 2, sumOf("go_threads")},
	{"descriptors", "", 0.05, 5, 2, sumOf("process_open_fds")},
	{"tombstones", "", 0.05, 5, 2, sumOf("peerage_ddata_tombstones", "peerage_ddata_retained_deletions")},
	{"keys", "", 0.05, 5, 2, sumOf("peerage_ddata_keys")},
	{"replicated data", "KiB", 0.05, 16, 4, func(m harness.Metrics) float64 { return m.Sum("peerage_ddata_state_bytes") / kib }},
	{"series of /metrics", "", 0.02, 5, 4, func(m harness.Metrics) float64 { return float64(m.Series()) }},
}

// logFigure is the rate at which a node writes its log: a rate that grows is a line that is
// logged again and again.
var logFigure = figure{name: "log", unit: "KiB/min", part: 0.25, atLeast: 8, short: 4}

// allowance is by how much a figure that began at a level may grow in a run.
func (f *figure) allowance(level float64, lasting time.Duration) float64 {
	allowed := max(f.atLeast, f.part*level)
	if lasting < shortRun {
		allowed *= f.short
	}
	return allowed
}

// sample is what a node took at one moment.
type sample struct {
	Hours    float64   `json:"hours"`
	Values   []float64 `json:"values"` // as figures
	LogBytes float64   `json:"log_bytes"`
}

// takeSample has a node collect its garbage, and reads its figures. The heap profile of the
// collection is returned, too.
func takeSample(ctx context.Context, p *fleet.Process, since time.Time) (sample, []byte, error) {
	r, _ := p.Snapshot()
	profile, err := harness.Fetch(ctx, http.MethodGet, "http://"+r.HTTP+"/debug/pprof/heap?gc=1")
	if err != nil {
		return sample{}, nil, err
	}
	m, err := harness.FetchMetrics(ctx, r.HTTP)
	if err != nil {
		return sample{}, nil, err
	}
	s := sample{Hours: time.Since(since).Hours()}
	for i := range figures {
		s.Values = append(s.Values, figures[i].read(m))
	}
	log, err := os.Stat(strings.TrimSuffix(p.History, filepath.Ext(p.History)) + fleet.LogExt)
	if err == nil {
		s.LogBytes = float64(log.Size())
	}
	return s, profile, err
}

// seriesOf returns the instants and the values of a figure, from the samples of one node.
func seriesOf(all []sample, value func(*sample) float64) (hours, values []float64) {
	for i := range all {
		hours, values = append(hours, all[i].Hours), append(values, value(&all[i]))
	}
	return hours, values
}

// logRates returns the rate of the log between the samples of one node, in KiB a minute.
func logRates(all []sample) (hours, rates []float64) {
	for i := 1; i < len(all); i++ {
		a, b := &all[i-1], &all[i]
		const minutes = 60
		hours = append(hours, b.Hours)
		rates = append(rates, (b.LogBytes-a.LogBytes)/kib/((b.Hours-a.Hours)*minutes))
	}
	return hours, rates
}
