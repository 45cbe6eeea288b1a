package main

import (
	"encoding/json"
	"time"

	"github.com/peerage-go/peerage/sharding"
)

// order is the message to a job. Every sets or changes its interval; Cancel ends the job.
// The zero order only asks.
type order struct {
	Every  time.Duration
	Cancel bool
}

// execution is one run of a job. Its number is the same if it is repeated after a crash.
type execution struct {
	Job    string
	Number int
	Token  sharding.Token
}

// job is the entity. Its id is the job's name.
type job struct {
	execute func(execution) error
	Every   time.Duration
	Runs    int
	Next    time.Time // by the clock of the node that wrote it
}

// Handle handles one order, and returns how often the job has run.
func (j *job) Handle(ctx *sharding.Context, o order) (int, error) {
	switch {
	case o.Cancel:
		j.Every = 0
	case o.Every > 0:
		j.Every, j.Next = o.Every, time.Now().Add(o.Every)
	}
	return j.Runs, j.setTimer(ctx)
}

// OnStart goes on with a job that has moved, or has survived a crash. A new job waits for
// its first order.
func (j *job) OnStart(ctx *sharding.Context) error {
	if j.Every == 0 {
		return nil
	}
	return j.setTimer(ctx)
}

// OnTimer runs the job. Runs that were missed while no node ran the job are left out.
func (j *job) OnTimer(ctx *sharding.Context, _ string) error {
	err := j.execute(execution{ctx.ID(), j.Runs + 1, ctx.Token()})
	if err == nil {
		j.Runs++
	}
	now := time.Now()
	for !j.Next.After(now) {
		j.Next = j.Next.Add(j.Every)
	}
	if timer := j.setTimer(ctx); timer != nil {
		return timer
	}
	return err // is logged and counted; the next turn tries the same number again
}

// setTimer waits for the next turn. A job without an interval ends.
func (j *job) setTimer(ctx *sharding.Context) error {
	if j.Every == 0 {
		ctx.Passivate()
		return nil
	}
	return ctx.After("run", max(time.Until(j.Next), time.Millisecond))
}

// Snapshot and Restore carry the state to other nodes.
func (j *job) Snapshot(*sharding.Context) ([]byte, error) { return json.Marshal(j) }

func (j *job) Restore(_ *sharding.Context, state []byte) error { return json.Unmarshal(state, j) }

// jobs is the handle for messages to jobs.
type jobs = sharding.Region[order, int]

// jobType returns the type of jobs that execute does.
func jobType(execute func(execution) error) sharding.Type[order, int] {
	return sharding.Type[order, int]{
		Name: "job",
		New:  func(string) sharding.Entity[order, int] { return &job{execute: execute} },
		// Remembered jobs start again after a crash without a message.
		Remember: true,
		State:    sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	}
}
