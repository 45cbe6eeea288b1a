package main

import (
	"fmt"
	"io"
	"time"

	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/spacetime"
)

// drawRun draws the only run, or the one that failed, in the file that --draw names.
func (s *simulation) drawRun(out io.Writer) error {
	r := s.single
	switch {
	case s.draw == "":
		return nil
	case r == nil && s.failed == nil:
		fmt.Fprintf(out, "no seed failed: %s was not written; name one seed to draw its run\n", s.draw)
		return nil
	case r == nil:
		cfg := s.config(s.failed.Seed) // or the script that shrinkFailure has made of it
		cfg.Record = true
		again := sim.Run(cfg)
		r = &again
	}
	if err := savePage(s.draw, fmt.Sprintf("peerage sim %s --draw %s", s.source(r.Seed), s.draw), r); err != nil {
		return err
	}
	fmt.Fprintf(out, "Diagram: %s\n", s.draw)
	return nil
}

// savePage draws a run that was recorded.
func savePage(file, command string, r *sim.Result) error {
	p := &spacetime.Page{
		Title: fmt.Sprintf("Simulated run, seed %d", r.Seed), Command: command, Recording: r.Recording,
		Facts: []spacetime.Fact{
			{Name: "nodes", Value: fmt.Sprint(r.Nodes)},
			{Name: "simulated time", Value: r.Virtual.Round(time.Millisecond).String()},
			{Name: "events, each checked", Value: fmt.Sprint(r.Events)},
			{Name: "messages handled", Value: fmt.Sprint(r.Delivered)},
		},
		About: []string{"Faults of this run: " + r.Faults + ".", "Entities: " + r.Types + ".", "The run ends when " + r.Goal + "."},
	}
	if r.Failure != nil {
		p.Failure = r.Failure.What
	}
	return spacetime.Save(file, p)
}
