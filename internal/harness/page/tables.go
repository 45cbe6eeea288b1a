package page

import (
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
)

func attempts(r *chaos.Report) string { return harness.Reasons(r.FailedAttempts) }

// recoveryRow is how long a kind of fault kept counters without an answer.
type recoveryRow struct {
	Kind, Flag, P50, P90, P99, Max, Bound, Met, Verdict string
	Rounds                                              int
}

func recoveryRows(r *chaos.Report) (out []recoveryRow) {
	for _, k := range r.Recovery {
		row := recoveryRow{
			Kind: chaos.KindText(k.Kind), Rounds: k.Rounds, P50: harness.FormatMillis(k.P50), P90: harness.FormatMillis(k.P90), P99: harness.FormatMillis(k.P99), Max: harness.FormatMillis(k.Max),
			Bound: harness.FormatMillis(k.BoundMS), Met: harness.Within(k.Met), Verdict: chaos.Passed,
		}
		row.Flag, _, _ = strings.Cut(k.Kind, ",")
		if !k.Met {
			row.Verdict = chaos.Unknown // a bound is a promise only with --enforce-bounds
		}
		out = append(out, row)
	}
	return out
}

// latencyRow is the latency of a part of the run.
type latencyRow struct{ Text, N, P50, P90, P99, P999, P9999, Max string }

func latencyRows(r *chaos.Report) (out []latencyRow) {
	for _, l := range latencies(r) {
		q := l.of.Quantiles
		out = append(out, latencyRow{l.name, grouped(q.N), harness.FormatMillis(q.P50), harness.FormatMillis(q.P90), harness.FormatMillis(q.P99), harness.FormatMillis(q.P999), harness.FormatMillis(q.P9999), harness.FormatMillis(q.Max)})
	}
	return out
}

// named is the latency of a part of the run with its name.
type named struct {
	name string
	of   chaos.Latency
}

func latencies(r *chaos.Report) []named {
	return []named{{"before the first fault", r.Before}, {"during faults", r.During}, {"between and after faults", r.After}}
}

// costRow is what a place cost in a part of the run.
type costRow struct{ Place, When, CPU, Memory, Sent, Received, For string }

func costRows(r *chaos.Report) (out []costRow) {
	for _, c := range r.Costs {
		row := costRow{
			Place: c.Place, When: "under load", CPU: fmt.Sprintf("%.0f %%", c.CPUPercent), Memory: bytesOf(float64(c.MemoryMaxBytes)),
			Sent: bytesOf(c.SentPerS) + "/s", Received: bytesOf(c.ReceivedPerS) + "/s", For: fmt.Sprintf("%.1f s", c.Seconds),
		}
		if c.During {
			row.When = "during faults"
		}
		out = append(out, row)
	}
	return out
}

// healedText compares what the processes held before the first fault with what they held at the end.
func healedText(h chaos.Healed) string {
	if h.Places == 0 {
		return ""
	}
	return fmt.Sprintf("After the last fault had healed, the processes at %d places held %s of memory in %s goroutines; before the first fault, %s in %s.",
		h.Places, bytesOf(float64(h.MemoryAfter)), grouped(h.GoroutinesAfter), bytesOf(float64(h.MemoryBefore)), grouped(h.GoroutinesBefore))
}

// faultRow is one fault.
type faultRow struct {
	Round                              int
	Class, Text, After, Lasted, Effect string
}

func faultRows(r *chaos.Report) (out []faultRow) {
	for _, f := range r.Faults {
		row := faultRow{
			Round: f.Round, Class: family(f.Kind), Text: f.Detail, After: fmt.Sprintf("%.1f s", f.FromMS/1000),
			Lasted: harness.FormatMillis(f.ToMS - f.FromMS), Effect: "✓ observed",
		}
		if !f.TookEffect {
			row.Effect = "? not observed"
		}
		out = append(out, row)
	}
	return out
}
