package replica

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/replicator"
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
	// agreedAt is the sweep of the agreed deletions in the file, or notStored.
	agreedAt uint64
	// broken is why the file could not be taken in whole. Nothing is written then: it
	// would go over what was not read.
	broken error
	// failing is why the last write did not succeed, or broken; nil while all is well.
	failing error
	batches
}

// openDisk opens the disk state for the file, and returns the core's test for durable keys, nil
// without a file.
func (d *disk) openDisk(to *Durable) func(string) bool {
	d.to, d.dirty, d.writeAt, d.stampAt = to, map[string]struct{}{}, clock.Never, clock.Never
	if to == nil {
		return nil
	}
	return to.isDurable
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
	err := l.disk.to.readRecords(func(it replication.Item) error { return l.core.Restore([]replication.Item{it}) })
	memory, merr := l.disk.to.memory()
	l.core.Recall(l.r.cfg.Clock.Now(), memory)
	l.disk.agreedAt = memory.Sweep
	l.disk.stampAt = l.r.cfg.Clock.Now().Add(stampEvery)
	if err = errors.Join(err, merr); err != nil {
		l.disk.broken = fmt.Errorf("%w: %s: not taken in whole, so nothing is written to it: %w", replicator.ErrDurable, l.disk.to.cfg.Path, err)
		l.diskFails(l.disk.broken)
		l.r.cfg.Logger.Error("replicator: durable keys are incomplete; until a restart nothing is written to their file, and writes of them fail here; see the error, and restore the file or remove it",
			"role", l.r.cfg.Role, "error", err)
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
const diskRetry = time.Second

// notStored is the sweep of agreed deletions that must be written anew.
const notStored = math.MaxUint64

// stampEvery is how often a file that is not written to learns that it is in use.
const stampEvery = time.Minute

// putAside keeps a copy of a file that was away for too long, and begins it anew.
func (l *loop) putAside() {
	d := &l.disk
	l.awaitBatch()
	path, err := d.to.setAside(time.Now())
	if err != nil {
		d.broken = fmt.Errorf("%w: %s: was away for too long and cannot be set aside, so nothing is written to it: %w", replicator.ErrDurable, d.to.cfg.Path, err)
		l.diskFails(d.broken)
		l.r.cfg.Logger.Error("replicator: cannot set durable keys aside; until a restart nothing is written to their file, and writes of them fail here; check the disk",
			"role", l.r.cfg.Role, "error", d.broken)
		l.stats.DurableErrors++
		return
	}
	l.r.cfg.Logger.Error("replicator: the file of durable keys was away for too long; it was set aside, and the other members fill this node; check whether the copy is needed",
		"role", l.r.cfg.Role, "file", d.to.cfg.Path, "copy", path, "keys", l.core.Stats().SetAside)
	d.agreedAt = notStored
	for _, k := range l.core.KeptKeys() {
		d.dirty[k] = struct{}{}
	}
}

// Slow disks
//
// The file of durable keys is written by a goroutine of its own, a batch at a time: all keys
// that have changed since the batch before. The core marks what rests on the disk (Send.Disk,
// Reply.Disk): while durable keys have changed that no batch has stored, this is held, in
// order, until the batch that has them is stored. All other output is sent: a disk that is
// slow, or does not answer at all, delays no memory key, no read at Local, and no reply that
// other members need.
//
// A batch that has not ended within diskHangMax counts as failed. Until the disk answers,
// held output is dropped or ends with an unknown outcome, writes of durable keys fail with
// ErrDurable, and the node is not ready.

// diskHangMax is how long a batch may take.
const diskHangMax = 2 * time.Second

// batches is the state of the batch in flight.
//
// Invariant: held is empty unless a batch is in flight or will begin with this step.
type batches struct {
	// number is that of the newest batch that was begun. writing has its keys, nil if none is
	// under way; result gets its outcome.
	number  uint64
	writing map[string]struct{}
	result  chan error
	// hungAt is when the batch under way has taken too long.
	hungAt clock.Instant
	held   []held
}

// held is something that waits for a batch: a reply, or a send if that has a message.
type held struct {
	batch uint64
	send  replication.Send
	reply replication.Reply
}

// diskDeadline returns when the loop has to look at the disk.
func (d *disk) diskDeadline() clock.Instant {
	if d.writing != nil {
		if d.failing != nil {
			return clock.Never
		}
		return d.hungAt
	}
	return clock.Min(d.writeAt, d.stampAt)
}

// storeChanges notes which durable keys have changed, and begins a batch if it is time.
func (l *loop) storeChanges() {
	d := &l.disk
	if d.to == nil {
		return
	}
	if l.out.SetAside {
		l.putAside()
	}
	for _, k := range slices.Concat(l.out.Changed, l.out.Forgotten) {
		if d.to.isDurable(k) {
			d.dirty[k] = struct{}{}
		}
	}
	now := l.r.cfg.Clock.Now()
	if d.writing != nil {
		if !now.Before(d.hungAt) && d.failing == nil {
			l.batchFails(now, fmt.Errorf("%w: %s: the disk has not answered for %v", replicator.ErrDurable, d.to.cfg.Path, diskHangMax))
		}
		return
	}
	due := !now.Before(d.stampAt)
	if len(d.dirty) > 0 && d.writeAt == clock.Never {
		if d.writeAt = now.Add(d.to.cfg.Sync); d.failing != nil {
			d.writeAt = d.stampAt
		}
	}
	if due || d.failing == nil && len(d.dirty) > 0 && (d.to.cfg.Sync <= 0 || !now.Before(d.writeAt)) {
		l.beginBatch(now)
	}
}

// beginBatch has all that is dirty written.
func (l *loop) beginBatch(now clock.Instant) {
	d := &l.disk
	d.writeAt, d.stampAt = clock.Never, now.Add(stampEvery)
	if d.broken != nil {
		return
	}
	var items []replication.Item
	var gone []string
	for _, k := range slices.Sorted(maps.Keys(d.dirty)) {
		it, ok := l.core.State(k)
		if !ok {
			gone = append(gone, k)
			continue
		}
		items = append(items, it)
	}
	l.stats.DurableWrites++
	d.number++
	d.writing, d.dirty = d.dirty, map[string]struct{}{}
	d.hungAt = now.Add(diskHangMax)
	to, memory, result := *d.to, l.core.Memory(now), make(chan error, 1)
	if memory.Sweep != d.agreedAt {
		memory.Agreed, d.agreedAt = l.core.Agreed(), memory.Sweep
	}
	d.result = result
	go func() {
		result <- to.writeBatch(memory, items, gone...)
		l.r.post(job{call: l.collectBatch})
	}()
}

// collectBatch takes in the outcome of the batch under way, if there is one.
func (l *loop) collectBatch() {
	select {
	case err := <-l.disk.result:
		l.endBatch(err)
	default:
	}
}

func (l *loop) endBatch(err error) {
	d, now := &l.disk, l.r.cfg.Clock.Now()
	if d.writing == nil {
		return
	}
	if err != nil {
		maps.Copy(d.dirty, d.writing)
		d.writing, d.agreedAt = nil, notStored
		l.batchFails(now, err)
		return
	}
	d.writing = nil
	if d.failing != nil && d.broken == nil {
		l.diskFails(nil)
		l.r.cfg.Logger.Info("replicator: durable keys are stored again", "role", l.r.cfg.Role)
	}
	l.releaseHeld(nil)
}

// batchFails notes that a batch has failed, or takes too long.
func (l *loop) batchFails(now clock.Instant, err error) {
	d := &l.disk
	l.stats.DurableErrors++
	if d.stampAt = now.Add(diskRetry); len(d.dirty) > 0 {
		d.writeAt = d.stampAt
	}
	l.diskFails(err)
	l.warn("replicator: cannot store durable keys; writes of them fail here until the disk works again", "error", err)
	l.releaseHeld(err)
}

// restsOn returns the batch for which that must wait which rests on the disk now, 0 for none.
func (l *loop) restsOn() uint64 {
	d := &l.disk
	switch {
	case d.to == nil || d.to.cfg.Sync > 0 || d.failing != nil:
		return 0
	case len(d.dirty) > 0:
		return d.number + 1
	case d.writing != nil:
		return d.number
	}
	return 0
}

// holdForDisk keeps what rests on the disk until the batch is stored, and reports whether it does.
func (l *loop) holdForDisk(batch uint64, disk bool, h held) bool {
	if batch == 0 || !disk {
		return false
	}
	h.batch = batch
	l.disk.held = append(l.disk.held, h)
	return true
}

// releaseHeld sends the output that the newest batch has stored. After a failure it drops
// messages, which other members request again, and fails requests with an unknown outcome.
func (l *loop) releaseHeld(err error) {
	d := &l.disk
	n := 0
	for ; n < len(d.held) && (err != nil || d.held[n].batch <= d.number); n++ {
		h := &d.held[n]
		switch {
		case h.send.Msg == nil:
			if err != nil {
				h.reply.Err = fmt.Errorf("%w: %w", replicator.ErrOutcomeUnknown, err)
			}
			l.replyToWaiter(&h.reply)
		case err == nil:
			l.sendFrame(&h.send)
		}
	}
	l.encoded = nil
	d.held = slices.Delete(d.held, 0, n)
}

// awaitBatch waits for the batch under way, at most diskHangMax, and reports whether none is
// left.
func (l *loop) awaitBatch() bool {
	d := &l.disk
	if d.writing == nil {
		return true
	}
	late := time.NewTimer(diskHangMax)
	defer late.Stop()
	select {
	case err := <-d.result:
		l.endBatch(err)
		return true
	case <-late.C:
		return false
	}
}

// finishDisk has the file written for the last time, with how long it was in use. An error
// is counted, and warned about. A disk that does not answer is left behind.
func (l *loop) finishDisk() {
	if !l.awaitBatch() {
		return
	}
	l.beginBatch(l.r.cfg.Clock.Now())
	if !l.awaitBatch() {
		l.endBatch(errors.Join(replicator.ErrDurable, errors.New("the disk did not answer at the end")))
	}
}
