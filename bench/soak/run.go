package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/harness/namespace"
)

// kinds are the faults of a run, in turn; cuts are played only as root.
var kinds = []faults.Kind{faults.Drain, faults.Kill, faults.Restart, faults.Cut, faults.KillMany, faults.Stop, faults.RestartMany, faults.CutPair}

// soak is one run.
type soak struct {
	o       options
	dir     string
	fleet   *fleet.Fleet
	faults  *faults.Injector
	began   time.Time
	samples map[string][]sample
	// removed counts the processes whose histories are removed.
	removed int
}

// playSoak runs the nodes, deals the faults and takes the samples. It returns what was measured
// also if the run ended early, and why it did.
func playSoak(ctx context.Context, o options, dir string) (*Report, error) {
	f := &fleet.Fleet{
		Dir: dir, Binary: o.binary, Counters: o.counters, Shards: 256, Every: o.every, Replicas: min(3, o.nodes),
		Registers: 4, Reliable: true, Flags: []string{"--pprof"},
	}
	s := &soak{
		o: o, dir: dir, fleet: f, samples: map[string][]sample{},
		faults: &faults.Injector{Fleet: f, Rng: rand.New(rand.NewPCG(o.seed, 0)), Spared: o.spared},
	}
	defer f.End()
	watch := machine.Start(f.PIDs)
	err := s.playRounds(ctx)
	r := &Report{
		At: time.Now().UTC(), Env: harness.ThisEnvironment(), Seed: o.seed, Nodes: o.nodes, Faults: map[string]uint64{}, Samples: s.samples,
		Load: f.Totals(), Machine: watch.Stop(), Ended: len(f.All()) - o.nodes,
	}
	if s.began.IsZero() {
		return nil, err
	}
	r.Seconds = time.Since(s.began).Seconds()
	for i := range s.faults.Rounds {
		r.Faults[string(s.faults.Rounds[i].Kind)]++
	}
	for _, node := range slices.Sorted(maps.Keys(s.samples)) {
		r.judgeNode(node, s.samples[node])
	}
	return r, err
}

// samplesPerRound is how many samples are taken behind each fault.
const samplesPerRound = 3

// playRounds plays faults until the time is over, with samples behind each.
func (s *soak) playRounds(ctx context.Context) error {
	if s.o.cuts {
		var err error
		if s.fleet.Wall, err = namespace.NewWall(ctx, s.o.apartFrom, s.o.nodes); err != nil {
			return err
		}
	}
	if err := s.fleet.Up(ctx, s.o.nodes); err != nil {
		return err
	}
	s.began = time.Now()
	fmt.Fprintf(os.Stderr, "%d processes are up, for %v; seed %d; files in %s\n", s.o.nodes, s.o.lasting, s.o.seed, s.dir)
	for i := 0; time.Since(s.began) < s.o.lasting; i++ {
		kind := kinds[i%len(kinds)]
		if kind.BreaksNetwork() && !s.o.cuts {
			continue
		}
		r, err := s.faults.Play(ctx, kind)
		if err != nil {
			return fmt.Errorf("round %d, %s; files in %s: %w", r.Number, r.Text(), s.dir, err)
		}
		for range samplesPerRound {
			if err := harness.Pause(ctx, s.o.calm/samplesPerRound); err != nil {
				return err
			}
			if err := s.sampleAll(ctx); err != nil {
				return err
			}
		}
		s.removeHistories()
	}
	return nil
}

// sampleAll samples the nodes that keep their process, if the warm-up is over. The first and
// the last heap profile of each stay in the directory.
func (s *soak) sampleAll(ctx context.Context) error {
	if time.Since(s.began) < s.o.warmUp {
		return nil
	}
	for _, p := range s.fleet.Now[:s.o.spared] {
		v, profile, err := takeSample(ctx, p, s.began)
		if err != nil {
			return fmt.Errorf("sampling %s: %w", p.Name, err)
		}
		which := "last"
		if len(s.samples[p.Name]) == 0 {
			which = "first"
		}
		s.samples[p.Name] = append(s.samples[p.Name], v)
		if err := os.WriteFile(filepath.Join(s.dir, p.Name+"."+which+".heap"), profile, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// removeHistories removes the files of processes that have ended: `peerage chaos` checks such
// histories, and four hours of them are gigabytes.
func (s *soak) removeHistories() {
	all := s.fleet.All()
	for ; s.removed < len(all); s.removed++ {
		p := all[s.removed]
		select {
		case <-p.Gone:
		default:
			if slices.Contains(s.fleet.Now[:s.o.spared], p) {
				continue
			}
			return // it ends later
		}
		base := strings.TrimSuffix(p.History, filepath.Ext(p.History))
		os.Remove(p.History)
		os.Remove(base + fleet.LogExt)
	}
}
