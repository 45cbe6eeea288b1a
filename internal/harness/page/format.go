package page

import (
	"github.com/dustin/go-humanize"

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

// bytesOf formats bytes in the unit that people would use.
func bytesOf(n float64) string { return humanize.IBytes(uint64(max(n, 0))) }
