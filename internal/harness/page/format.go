package page

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
)

// answer is a figure under the question that it answers, and out of how many.
type answer struct{ Question, Answer, Of string }

// label is a text at a place of a chart, in percent or pixels.
type label struct {
	At   float64
	Text string
}

// signOf returns a sign of a verdict that needs no colour.
func signOf(verdict string) string {
	switch verdict {
	case chaos.Passed:
		return "✓"
	case chaos.Failed:
		return "✗"
	}
	return "?"
}

// grouped formats a count with commas.
func grouped(n int) string { return humanize.Comma(int64(n)) }

// formatMillis formats milliseconds in the unit that people would use.
func formatMillis(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2g ms", ms)
}

// intervalText words a confidence interval behind its quantile.
func intervalText(i *harness.Interval) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", formatMillis(i.Low), formatMillis(i.High))
}

// bytesOf formats bytes in the unit that people would use.
func bytesOf(n float64) string { return humanize.IBytes(uint64(max(n, 0))) }
