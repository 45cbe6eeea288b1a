package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
)

// Run plays the demo's story, shows it on out, and checks the records, which it keeps
// in dir.
func Run(ctx context.Context, cfg Config, dir string, out io.Writer) (*Verdict, error) {
	c := &cluster{cfg: cfg, dir: dir}
	defer c.stopNodes()
	screen := newScreen(out, c)
	defer screen.close()
	kills, err := c.playStory(ctx, screen)
	screen.close()
	if err != nil {
		if context.Cause(ctx) != nil {
			err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		return nil, err
	}
	survivor := c.survivor()
	c.stopNodes()
	return c.verdict(kills, survivor)
}

// playStory is the demo's story: start, warm up, kill, let the survivor serve.
func (c *cluster) playStory(ctx context.Context, screen *screen) ([]kill, error) {
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	screen.event("%d nodes are up: asking %d counters every %v", c.cfg.Nodes, c.cfg.Counters, c.cfg.Every)
	if err := c.settle(ctx, c.cfg.Nodes); err != nil {
		return nil, err
	}
	if err := harness.Pause(ctx, c.cfg.WarmUp); err != nil {
		return nil, err
	}
	var kills []kill
	for left := c.cfg.Nodes; left > 1; {
		n := 1
		if c.cfg.AtOnce {
			n = left - 1
		}
		k, err := c.killSenior(n, left)
		if err != nil {
			return nil, err
		}
		kills = append(kills, k)
		screen.event("SIGKILL: %v", k.names)
		left -= n
		if err := c.settle(ctx, left); err != nil {
			return nil, err
		}
		screen.event("failover: %d left, agreed and holding leases %v after the kill", left, clock.Boot().Now().Sub(k.at).Round(time.Millisecond))
		if err := harness.Pause(ctx, c.cfg.Between); err != nil {
			return nil, err
		}
	}
	return kills, nil
}
