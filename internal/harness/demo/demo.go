package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/history"
)

// Run plays the demo's story, shows it on out, and checks the records, which it keeps
// in dir.
func Run(ctx context.Context, cfg Config, dir string, out io.Writer) (*Verdict, error) {
	c := &cluster{cfg: cfg, dir: dir}
	defer c.stopNodes()
	shards, err := usedShards(cfg)
	if err != nil {
		return nil, err
	}
	show := newShow(out, c, shards)
	defer show.close()
	watch := machine.Start(c.pids)
	kills, err := c.playStory(ctx, show)
	busy := watch.Stop()
	show.close()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("it ended early: %w", cause)
		}
		return nil, err
	}
	survivor, took := awaitShards(ctx, shards, c.survivor), time.Since(show.began)
	if cfg.Open {
		show.event("process %s goes on, at %s; Ctrl-C ends the demo", survivor.Name, dashboardOf(survivor))
		<-ctx.Done()
	}
	show.event("reading the records of all %s processes", inWords(cfg.Nodes))
	c.stopNodes()
	v, err := c.verdict(kills, survivor)
	if err == nil {
		v.shards, v.took, v.machine = shards, took, busy
	}
	return v, err
}

// playStory is the demo's story: start, warm up, kill, let the survivor serve.
func (c *cluster) playStory(ctx context.Context, show *show) ([]kill, error) {
	show.introduce()
	show.event("starting %s processes", inWords(c.cfg.Nodes))
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	show.event("%s processes are one cluster; %s leads it", inWords(c.cfg.Nodes), c.nodes[0].Name)
	last, _ := c.nodes[c.cfg.Nodes-1].Snapshot()
	stays := " (--open keeps it up)"
	if c.cfg.Open {
		stays = ""
	}
	show.event("watch it in a browser: %s%s", dashboardOf(last), stays)
	if err := show.waitFor(ctx, "killing "+strings.Join(c.victims(c.cfg.Nodes), ", "), c.cfg.WarmUp); err != nil {
		return nil, err
	}
	var kills []kill
	for left := c.cfg.Nodes; left > 1; {
		n := c.cfg.killedTogether(left)
		k, err := c.killSenior(n, left)
		if err != nil {
			return nil, err
		}
		kills = append(kills, k)
		left -= n
		show.expect("the others agree on who takes over")
		if err := c.settle(ctx, left); err != nil {
			return nil, err
		}
		if err := c.tellFailover(ctx, show, k); err != nil {
			return nil, err
		}
		next := "the end"
		if left > 1 {
			next = "killing " + strings.Join(c.victims(left), ", ")
		}
		if err := show.waitFor(ctx, next, c.cfg.Between-c.cfg.tellAfter()); err != nil {
			return nil, err
		}
	}
	return kills, nil
}

// answersPatience bounds how long the demo waits after a kill until all counters answer again, and then
// until the survivor reports all shards: on a loaded machine that takes longer than the pause between two
// kills. answersPoll and reportPoll are the pauses between two looks.
const (
	answersPatience = 15 * time.Second
	answersPoll     = 200 * time.Millisecond
	reportPoll      = 5 * time.Millisecond
)

// awaitShards returns the newest report of the survivor once it has as many shards, or the last one when
// the patience ends. A report may be older than the answers on record.
func awaitShards(ctx context.Context, shards int, newest func() harness.Report) harness.Report {
	for deadline := time.Now().Add(answersPatience); ; {
		r := newest()
		if r.Shards >= shards || time.Now().After(deadline) || harness.Pause(ctx, reportPoll) != nil {
			return r
		}
	}
}

// awaitAnswers reads the records after a kill until each counter of the killed processes has answered
// again, and each other counter a request from after the kill, or the patience ends.
func (c *cluster) awaitAnswers(ctx context.Context, k kill) (history.Failover, error) {
	for deadline := time.Now().Add(answersPatience); ; {
		records, killed, err := c.records(k.names)
		if err != nil {
			return history.Failover{}, err
		}
		f := history.Failovers(records, killed, k.at, clock.Never)
		answered := len(f.Times) >= f.Moved && len(unserved(records, killed, k.at, c.cfg.Counters)) == 0
		if answered || time.Now().After(deadline) {
			return f, nil
		}
		if err := harness.Pause(ctx, answersPoll); err != nil {
			return f, err
		}
	}
}

// tellFailover says what the records show about a kill: how long its counters were without an answer.
func (c *cluster) tellFailover(ctx context.Context, show *show, k kill) error {
	show.expect("their counters start elsewhere")
	if err := harness.Pause(ctx, c.cfg.tellAfter()); err != nil {
		return err
	}
	f, err := c.awaitAnswers(ctx, k)
	if err != nil {
		return err
	}
	who, their := "process "+k.names[0], "its"
	if len(k.names) > 1 {
		who, their = "processes "+strings.Join(k.names, ", "), "their"
	}
	switch {
	case f.Moved == 0:
		show.event("killed %s: no counter lived there", who)
	case len(f.Times) < f.Moved:
		show.event("killed %s: %d of %s %d counters answer again, %s to go", who, len(f.Times), their, f.Moved, inWords(f.Moved-len(f.Times)))
	default:
		show.event("killed %s: %s %d counters answered again, elsewhere, within %s", who, their, f.Moved, inMillis(slices.Max(f.Times)))
	}
	return nil
}

// dashboardOf returns where a process serves the page of the whole cluster.
func dashboardOf(r harness.Report) string { return "http://" + r.HTTP + "/dashboard/" }

// inWords writes a small number as a word.
func inWords(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
	if n < 0 || n >= len(words) {
		return fmt.Sprint(n)
	}
	return words[n]
}
