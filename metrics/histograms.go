package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding"
)

// histograms are the families that single events update.
type histograms struct {
	asks       *prometheus.HistogramVec
	outcomes   *prometheus.CounterVec
	resolution *prometheus.HistogramVec
	kept       *prometheus.HistogramVec
	handlers   *prometheus.HistogramVec
	ddata      *prometheus.HistogramVec
	ddataOps   *prometheus.CounterVec
	moves      *prometheus.HistogramVec
	removals   *prometheus.HistogramVec
}

func newHistograms() histograms {
	return histograms{
		asks: histogram("client_request_duration_seconds",
			"Duration of one attempt of an Ask, buffering included; outcome is ok, error, or failed without an answer of a handler.", "type", "route", "outcome"),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "client_requests_total", Help: "Ended attempts of Asks, by outcome.",
		}, []string{"type", "outcome"}),
		resolution: histogram("region_home_resolution_seconds",
			"Time from the first message that waits for a shard's home until the home is resolved.", "type"),
		kept: histogram("entity_state_replication_lag_seconds",
			"Time from a change of replicated entity state until enough nodes have acknowledged it.", "type"),
		handlers: histogram("entity_handler_duration_seconds",
			"Duration of calls of Handle, sampled one in 32.", "type"),
		ddata: histogram("ddata_operation_duration_seconds",
			"Duration of a read or write of replicated data, as its caller measures it.", "role", "op", "consistency"),
		moves: histogramWith(eventBounds(), "coordinator_move_duration_seconds",
			"Duration of the move of one shard to a new home, by its cause and phase, on the coordinator's node.", "type", "cause", "phase"),
		removals: histogramWith(eventBounds(), "cluster_removal_duration_seconds",
			"Time from the loss of this node's connection to a member until the member is removed, by cause.", "cause"),
		ddataOps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "ddata_operations_total", Help: "Ended reads and writes of replicated data, by result.",
		}, []string{"role", "op", "consistency", "result"}),
	}
}

// eventBounds returns the upper bounds of the classic buckets of rare events, in seconds.
func eventBounds() []float64 { return []float64{.01, .03, .1, .3, 1, 3, 10, 30} }

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return histogramWith(figures.LatencyBounds(), name, help, labels...)
}

// histogramWith returns a native histogram with classic buckets beside it, for servers that do not
// scrape native ones. Its resolution is 10 %; at most 100 buckets are in use.
func histogramWith(bounds []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func (h *histograms) collectors() []prometheus.Collector {
	return []prometheus.Collector{h.asks, h.outcomes, h.resolution, h.kept, h.handlers, h.ddata, h.ddataOps, h.moves, h.removals}
}

func (h *histograms) describeAll(out chan<- *prometheus.Desc) {
	for _, c := range h.collectors() {
		c.Describe(out)
	}
}

func (h *histograms) collectAll(out chan<- prometheus.Metric) {
	for _, c := range h.collectors() {
		c.Collect(out)
	}
}

// observer feeds the histograms about entities.
type observer struct{ hist *histograms }

// AskDone implements figures.ShardingObserver.
func (o observer) AskDone(typ string, r figures.Route, took time.Duration, err error) {
	outcome := askOutcome(err)
	o.hist.asks.WithLabelValues(typ, r.String(), answered(outcome)).Observe(took.Seconds())
	o.hist.outcomes.WithLabelValues(typ, outcome).Inc()
}

// HomeResolved implements figures.ShardingObserver.
func (o observer) HomeResolved(typ string, took time.Duration) {
	o.hist.resolution.WithLabelValues(typ).Observe(took.Seconds())
}

// StateKept implements figures.ShardingObserver.
func (o observer) StateKept(typ string, lag time.Duration) {
	o.hist.kept.WithLabelValues(typ).Observe(lag.Seconds())
}

// ShardMoved implements figures.ShardingObserver.
func (o observer) ShardMoved(typ, cause, phase string, took time.Duration) {
	o.hist.moves.WithLabelValues(typ, cause, phase).Observe(took.Seconds())
}

// observeRemoval is a figures.MembershipObserver.
func (h *histograms) observeRemoval(cause gossip.Cause, after time.Duration) {
	h.removals.WithLabelValues(cause.String()).Observe(after.Seconds())
}

// HandlerDone implements figures.ShardingObserver.
func (o observer) HandlerDone(typ string, took time.Duration) {
	o.hist.handlers.WithLabelValues(typ).Observe(took.Seconds())
}

// outcomes are the results of askOutcome.
var outcomes = []string{"ok", "error", "overloaded", "fenced", "canceled", "timeout", "unavailable"}

// createOutcomes makes the counters of a type, 0 until asks end: increase() and rate() miss the
// first event of a series that appears with it.
func (h *histograms) createOutcomes(typ string) {
	for _, outcome := range outcomes {
		h.outcomes.WithLabelValues(typ, outcome)
	}
}

// answered returns the outcome by which durations are separated. The duration of an ask that fails
// is mostly that of its deadline, so all failures share one histogram.
func answered(outcome string) string {
	if outcome == "ok" || outcome == "error" {
		return outcome
	}
	return "failed"
}

// askOutcome returns the label of an ask's error, grouped as alerts need it.
func askOutcome(err error) string {
	var handler *sharding.HandlerError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &handler):
		return "error"
	case errors.Is(err, sharding.ErrMailboxFull), errors.Is(err, sharding.ErrBufferFull):
		return "overloaded"
	case errors.Is(err, sharding.ErrMoved), errors.Is(err, sharding.ErrAbandoned):
		return "fenced"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "unavailable"
}

// observeReplicator returns an observer of the replicator of a role.
func (h *histograms) observeReplicator(role string) figures.ReplicatorObserver {
	return figures.ReplicatorObserver{
		Done: func(op, level, result string, took time.Duration) {
			h.ddata.WithLabelValues(role, op, level).Observe(took.Seconds())
			h.ddataOps.WithLabelValues(role, op, level, result).Inc()
		},
	}
}

// countDurations returns the durations that dashboards show. It leaves out asks without an answer of
// a handler: those are counted by outcome, and their duration is that of a deadline.
func (h *histograms) countDurations() figures.Durations {
	return figures.Durations{
		Asks: sumBuckets(h.asks, "type", func(labels map[string]string) bool { return labels["outcome"] != "failed" }),
		MajorityWrites: sumBuckets(h.ddata, "role", func(labels map[string]string) bool {
			return labels["op"] == "update" && labels["consistency"] == "majority"
		}),
		MajorityReads: sumBuckets(h.ddata, "role", func(labels map[string]string) bool {
			return labels["op"] == "get" && labels["consistency"] == "majority"
		}),
	}
}

// sumBuckets sums the histograms of a family that are wanted, by the values of one label.
func sumBuckets(family *prometheus.HistogramVec, by string, wanted func(labels map[string]string) bool) map[string][]uint64 {
	out := map[string][]uint64{}
	ch := make(chan prometheus.Metric, 64)
	go func() {
		defer close(ch)
		family.Collect(ch)
	}()
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil || d.Histogram == nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range d.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if wanted(labels) {
			out[labels[by]] = addBuckets(out[labels[by]], d.Histogram)
		}
	}
	return out
}

// addBuckets adds the counts of a histogram to sum, which may be nil.
func addBuckets(sum []uint64, h *dto.Histogram) []uint64 {
	if sum == nil {
		sum = make([]uint64, len(figures.LatencyBounds())+1)
	}
	for i, b := range h.Bucket {
		if i < len(sum)-1 {
			sum[i] += b.GetCumulativeCount()
		}
	}
	sum[len(sum)-1] += h.GetSampleCount()
	return sum
}
