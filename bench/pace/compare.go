package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// options holds the flags.
type options struct {
	with       string
	turns      int
	scale      float64
	processors bool
}

// mostSlower is the ratio to the other commit from which a turn counts as slower.
const mostSlower = 1.10

// errSlower says that a measure was slower in every turn, and again in every turn of a repetition.
var errSlower = errors.New("slower than before")

// A turn is a measure of both builds, one after the other.
type turn struct {
	here, there cost
}

func (t turn) wall() float64      { return ratio(t.here.wall, t.there.wall) }
func (t turn) processor() float64 { return ratio(t.here.processor, t.there.processor) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// compareBuilds plays all measures of both builds in turns, and shows them.
func compareBuilds(ctx context.Context, here, there runner, o options, out io.Writer) error {
	fmt.Fprintf(out, "of a message, in ns            %10s %10s  ratio of each turn\n", "before", "now")
	var slower []string
	for _, m := range measures() {
		turns, err := playTurns(ctx, here, there, m, o)
		if errors.Is(err, errUnknown) {
			fmt.Fprintf(out, "%-30s not compared: %v\n", m.name, err)
			continue
		}
		if err != nil {
			return err
		}
		printTurns(out, m, turns)
		if !isSlower(turns) {
			continue
		}
		if turns, err = playTurns(ctx, here, there, m, o); err != nil {
			return err
		}
		printTurns(out, m, turns)
		if isSlower(turns) {
			slower = append(slower, m.name)
		}
	}
	if len(slower) > 0 {
		return fmt.Errorf("%w, by more than 10 %% in each of %d turns: %s", errSlower, 2*o.turns, strings.Join(slower, "; "))
	}
	return nil
}

// playTurns plays one measure. Another build begins with each turn.
func playTurns(ctx context.Context, here, there runner, m measure, o options) ([]turn, error) {
	var turns []turn
	for i := range o.turns {
		var t turn
		sides := []struct {
			run  runner
			cost *cost
		}{{there, &t.there}, {here, &t.here}}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			var err error
			if *s.cost, err = s.run(ctx, m, o.scale); err != nil {
				return nil, err
			}
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// isSlower reports whether this tree was slower in every turn, in time or in processor time.
func isSlower(turns []turn) bool {
	all := func(of func(turn) float64) bool {
		return !slices.ContainsFunc(turns, func(t turn) bool { return of(t) <= mostSlower })
	}
	return all(turn.wall) || all(turn.processor)
}

func (c cost) wallTime() time.Duration      { return c.wall }
func (c cost) processorTime() time.Duration { return c.processor }

func printTurns(out io.Writer, m measure, turns []turn) {
	printRow(out, m.name, turns, cost.wallTime, turn.wall)
	printRow(out, "  its processor time", turns, cost.processorTime, turn.processor)
}

// printRow prints the medians of a figure of both builds, and a ratio of each turn.
func printRow(out io.Writer, name string, turns []turn, of func(cost) time.Duration, ratio func(turn) float64) {
	var here, there []time.Duration
	ratios := ""
	for _, t := range turns {
		here, there = append(here, of(t.here)), append(there, of(t.there))
		ratios += fmt.Sprintf(" %.2f", ratio(t))
	}
	fmt.Fprintf(out, "%-30s %10d %10d %s\n", name, median(there), median(here), ratios)
}

func median(of []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// showProcessors shows how many times as many messages two processors handle as one.
func showProcessors(ctx context.Context, b *build, o options, out io.Writer) error {
	one, two := *b, *b
	one.processors, two.processors = 1, 2
	fmt.Fprintf(out, "ns of a message                %10s %10s  times as many\n", "1 proc.", "2 proc.")
	for _, m := range crowds() {
		turns, err := playTurns(ctx, two.playOnce, one.playOnce, m, o)
		if err != nil {
			return err
		}
		printRow(out, m.name, turns, cost.wallTime, func(t turn) float64 { return 1 / t.wall() })
	}
	return nil
}
