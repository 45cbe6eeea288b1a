package replicator

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator/core"
)

// disk is the loop's way to the file of durable keys.
//
// Invariant: dirty has the keys whose state in the file is not the newest, but for those
// of the batch under way; writeAt is set if there are any and none is under way.
type disk struct {
	to      *Durable
	dirty   map[string]struct{}
	writeAt clock.Instant
	// stampAt is when the file next learns that it is still in use.
	stampAt clock.Instant
	// broken is why the file could not be taken in whole. Nothing is written then: it
	// would go over what was not read.
	broken error
	// failing is why the last write did not succeed, or broken; nil while all is well.
	failing error
	batches
}

// keep opens the disk state for the file, and returns the core's test for durable keys, nil
// without a file.
func (d *disk) keep(to *Durable) func(string) bool {
	d.to, d.dirty, d.writeAt, d.stampAt = to, map[string]struct{}{}, clock.Never, clock.Never
	if to == nil {
		return nil
	}
	return to.covers
}

func (d *disk) retain() time.Duration {
	if d.to == nil {
		return 0
	}
	return d.to.cfg.Retain
}

// restore hands the file's content to the core.
func (l *loop) restore() {
	if l.disk.to == nil {
		return
	}
	// The file has been read once, by OpenDurable: only limits are likely to stand in
	// the way.
	var ended []core.Ended
	err := l.disk.to.read(func(rec record) error {
		ended = append(ended, rec.ended...)
		return l.core.Restore([]core.Item{rec.Item})
	})
	memory, merr := l.disk.to.memory()
	l.core.Recall(l.r.cfg.Clock.Now(), memory, ended)
	l.disk.stampAt = l.r.cfg.Clock.Now().Add(stampEvery)
	if err = errors.Join(err, merr); err != nil {
		l.disk.broken = fmt.Errorf("%w: %s: not taken in whole, so nothing is written to it: %w", ErrDurable, l.disk.to.cfg.Path, err)
		l.diskFails(l.disk.broken)
		l.r.cfg.Logger.Error("replicator: durable keys are incomplete", "role", l.r.cfg.Role, "error", err)
		l.stats.DurableErrors++
	}
}

// diskFails notes, here and in the core, that the disk fails, or works again if why is nil.
func (l *loop) diskFails(why error) {
	l.disk.failing = why
	l.core.DiskFails(why)
	l.r.diskFailing.Store(why != nil)
}

// diskRetry is the wait after a write that has failed.
const diskRetry = warnEvery / 10

// stampEvery is how often a file that is not written to learns that it is in use.
const stampEvery = time.Minute

// putAside keeps a copy of a file that was away for too long, and begins it anew.
func (l *loop) putAside() {
	d := &l.disk
	l.awaitBatch()
	path, err := d.to.setAside(time.Now())
	if err != nil {
		d.broken = fmt.Errorf("%w: %s: was away for too long and cannot be set aside, so nothing is written to it: %w", ErrDurable, d.to.cfg.Path, err)
		l.diskFails(d.broken)
		l.r.cfg.Logger.Error("replicator: cannot set durable keys aside", "role", l.r.cfg.Role, "error", d.broken)
		l.stats.DurableErrors++
		return
	}
	l.r.cfg.Logger.Error("replicator: the file of durable keys was away for too long; it was set aside, and the other members fill this node; check whether the copy is needed",
		"role", l.r.cfg.Role, "file", d.to.cfg.Path, "copy", path, "keys", l.core.Stats().SetAside)
	for _, k := range l.core.KeptKeys() {
		d.dirty[k] = struct{}{}
	}
}
