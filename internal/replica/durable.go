package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/replicator"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// DurableConfig selects the keys of a replicator that outlive a stop of all its members.
type DurableConfig struct {
	// Path of the file. The file is created if it does not exist; its directory is not. Use
	// one file for each process and role.
	Path string
	// Owner identifies the owner of the file, such as "cluster/role". A file of another
	// owner is rejected.
	Owner string
	// Prefixes select the keys. At least one; "" means every key. They must be equal on all
	// members of the role: otherwise the file of one member may bring back a key that a
	// member without a file has forgotten.
	Prefixes []string
	// Except lists prefixes of keys that are not durable although Prefixes match them.
	Except []string
	// Sync is how much later than its acknowledgement a change may reach the disk. With 0,
	// the default, a change is written and synced before it is acknowledged, to callers and
	// to other replicas: a majority write is then on the disks of a majority, at the added
	// latency of one sync (shared by all changes that arrived meanwhile). With 50 ms, a
	// power cut of all members at the same time loses the writes of the last 50 ms.
	Sync time.Duration
	// Retain is the minimum time, counted while members run, for which the deletion of a
	// key, or of an entry of an LWWMap, is kept. For this long a member may be away
	// and its file still be merged. The file of a member that was away for longer, while
	// other members ran and forgot deletions, is set aside (see Durable). A longer time
	// costs about 200 bytes for each key deleted meanwhile. Default 7 days, at least 1
	// hour; negative means forever. It must be equal on all members.
	Retain time.Duration
	// OpenWait bounds the wait for a process that still has the file open. Default
	// 5 s.
	OpenWait time.Duration
}

// RetainMin is the minimum of DurableConfig.Retain. In a sixteenth of it, all members must
// have time to agree on a sweep.
const RetainMin = time.Hour

// Durable is an open file of durable keys. It serves the replicators of a node's
// incarnations in turn; none of them closes it.
//
// A goroutine of its own writes the file. A disk that does not answer delays only requests
// for durable keys; after 2 s it counts as failing.
//
// Every write stores the whole value of each changed key: use it for sets and maps of up to
// some thousand entries. A file may come back after any time and in any cluster of its
// owner, so its content is merged, never taken as the newest. A deleted key is therefore
// kept for Retain, at about 200 bytes, or until there are Limits.Tombstones of them;
// so is a deleted entry of an LWWMap. Removals inside other values cost nothing.
//
// A file is not merged if its node was away for so long that it may lack a deletion which
// all other members have forgotten: no member could name the keys concerned. The members
// count the sweeps in which they forget deletions, and the file carries the number of its
// last one, so that clocks have no part in it.
// The file is copied to Path with ".aside-" and the time appended, an error is logged and
// counted (Stats.SetAside, ddata_set_aside_keys_total), and the node continues, filled by
// the other members. The copy is a file like any other: start a cluster of one on it to
// read content that only it has. A cluster that was completely down loses nothing this way,
// after any time; let the members that ran longest be among the first to start again.
type Durable struct {
	// fail stands for a disk that fails, in tests, hang for one that does not answer until
	// it is closed.
	fail error
	hang chan struct{}
	cfg  DurableConfig
	db   *bbolt.DB
}

var (
	metaBucket = []byte("peerage")
	formatKey  = []byte("format")
	ownerKey   = []byte("owner")
	memoryKey  = []byte("memory")
	agreedKey  = []byte("agreed")
	format     = []byte("durable keys 4")
	keyBucket  = []byte("keys")
)

// OpenDurable opens or creates the file, checks each of its pages, and reads all of it, in
// time bounded by its length. It fails if the file is damaged, was not made by this
// package, belongs to another owner, or is held by another process. The error names the
// reason and wraps ErrDurable. Nothing is ever dropped silently, and the file is left as it
// was.
func OpenDurable(cfg DurableConfig) (*Durable, error) {
	if cfg.Path == "" || len(cfg.Prefixes) == 0 {
		return nil, fmt.Errorf("%w: Path and Prefixes are needed", replicator.ErrDurable)
	}
	if cfg.Retain > 0 && cfg.Retain < RetainMin {
		return nil, fmt.Errorf("%w: Retain is %v, less than %v", replicator.ErrDurable, cfg.Retain, RetainMin)
	}
	if cfg.OpenWait <= 0 {
		cfg.OpenWait = 5 * time.Second
	}
	d := &Durable{cfg: cfg}
	if err := guarded(d.openFile); err != nil {
		if d.db != nil {
			_ = guarded(d.db.Close)
		}
		return nil, fmt.Errorf("%w: %s: %w", replicator.ErrDurable, cfg.Path, err)
	}
	return d, nil
}

// guarded turns a fault or panic while reading a damaged file into an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if x := recover(); x != nil {
			err = damage(x)
		}
	}()
	return f()
}

func (d *Durable) openFile() (err error) {
	st, err := os.Stat(d.cfg.Path)
	fresh := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !fresh:
		return err
	case !fresh && st.Size() == 0:
		return errors.New("damaged: empty; remove it if it need not be restored")
	case !fresh:
		if err := d.checkFile(); err != nil {
			return err
		}
	}
	if d.db, err = d.openBolt(false); err != nil {
		return err
	}
	if fresh {
		return d.db.Update(d.found)
	}
	return d.db.View(func(tx *bbolt.Tx) error { return d.loadRecords(tx, func(replication.Item) error { return nil }) })
}

// checkFile checks the length and the pages of the file. A shared lock keeps writers away
// meanwhile; bbolt follows no page when it opens a file for reading.
func (d *Durable) checkFile() error {
	lock, err := d.openBolt(true)
	if errors.Is(err, berrors.ErrTimeout) {
		return err
	}
	if err == nil {
		defer lock.Close()
	}
	if damaged := checkPages(d.cfg.Path); damaged != nil {
		return damaged
	}
	return err
}

func (d *Durable) openBolt(readOnly bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(d.cfg.Path, 0o600, &bbolt.Options{Timeout: d.cfg.OpenWait, ReadOnly: readOnly})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("another process has it open: %w", err)
	case err != nil:
		return nil, fmt.Errorf("damaged or not a file of durable keys: %w", err)
	}
	return db, nil
}

// found creates the buckets, and writes the owner of the file.
func (d *Durable) found(tx *bbolt.Tx) error {
	meta, err := tx.CreateBucket(metaBucket)
	if err != nil {
		return err
	}
	if _, err = tx.CreateBucket(keyBucket); err != nil {
		return err
	}
	return errors.Join(meta.Put(formatKey, format), meta.Put(ownerKey, []byte(d.cfg.Owner)))
}

// readRecords calls f with every key that the file has.
func (d *Durable) readRecords(f func(replication.Item) error) error {
	return guarded(func() error { return d.db.View(func(tx *bbolt.Tx) error { return d.loadRecords(tx, f) }) })
}

func (d *Durable) loadRecords(tx *bbolt.Tx, f func(replication.Item) error) error {
	meta, keys := tx.Bucket(metaBucket), tx.Bucket(keyBucket)
	if meta == nil || keys == nil {
		return errors.New("not a file of durable keys")
	}
	if got := meta.Get(formatKey); string(got) != string(format) {
		return fmt.Errorf("of another format: %q, not %q", got, format)
	}
	if got := string(meta.Get(ownerKey)); got != d.cfg.Owner {
		return fmt.Errorf("belongs to %q, not to %q", got, d.cfg.Owner)
	}
	if _, err := readMemory(meta); err != nil {
		return err
	}
	if err := checkNames(tx, meta); err != nil {
		return err
	}
	return keys.ForEach(func(k, v []byte) error {
		it, err := readRecord(string(k), v)
		if err != nil {
			return &damageError{noPage, fmt.Sprintf("key %q: %v", k, err)}
		}
		return f(it)
	})
}

// checkNames returns an error if the file has a bucket, or an entry beside its keys, that
// this package does not write: it stands where another one was overwritten.
func checkNames(tx *bbolt.Tx, meta *bbolt.Bucket) error {
	known := func(what string, names ...[]byte) func(k []byte) error {
		return func(k []byte) error {
			if slices.ContainsFunc(names, func(n []byte) bool { return string(n) == string(k) }) {
				return nil
			}
			return &damageError{noPage, fmt.Sprintf("unknown %s %q", what, k)}
		}
	}
	bucket, entry := known("bucket", metaBucket, keyBucket), known("entry", formatKey, ownerKey, memoryKey, agreedKey)
	return errors.Join(
		tx.ForEach(func(k []byte, _ *bbolt.Bucket) error { return bucket(k) }),
		meta.ForEach(func(k, _ []byte) error { return entry(k) }))
}

// isDurable reports whether a key is durable.
func (d *Durable) isDurable(key string) bool {
	begins := func(p string) bool { return strings.HasPrefix(key, p) }
	return slices.ContainsFunc(d.cfg.Prefixes, begins) && !slices.ContainsFunc(d.cfg.Except, begins)
}

// memory returns the file's content beside its keys.
func (d *Durable) memory() (m replication.Memory, err error) {
	err = guarded(func() error {
		return d.db.View(func(tx *bbolt.Tx) (err error) {
			m, err = readMemory(tx.Bucket(metaBucket))
			return err
		})
	})
	return m, err
}

// readMemory reads the header, which a new file does not have yet, and the agreed
// deletions.
func readMemory(meta *bbolt.Bucket) (m replication.Memory, err error) {
	part := func(name []byte, read func(*wire.Reader)) error {
		b := meta.Get(name)
		if b == nil {
			return nil
		}
		b, err := unsealed(string(name), b)
		if r := wire.NewReader(b); err == nil {
			read(r)
			err = r.Err()
		}
		if err != nil {
			return &damageError{noPage, fmt.Sprintf("entry %q: %v", name, err)}
		}
		return nil
	}
	err = part(memoryKey, func(r *wire.Reader) {
		m = replication.Memory{Sweep: r.Uvarint(), MinGeneration: r.Uvarint(), MaxForgottenStamp: r.Uvarint(), Ran: r.Uvarint()}
	})
	return m, errors.Join(err, part(agreedKey, func(r *wire.Reader) { m.Agreed = readAgreed(r) }))
}

// setAside copies the file and empties it.
func (d *Durable) setAside(now time.Time) (path string, err error) {
	path = d.cfg.Path + ".aside-" + now.UTC().Format("20060102T150405.000000")
	err = guarded(func() error {
		if err := d.db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(path, 0o600) }); err != nil {
			return err
		}
		if err := synced(path); err != nil {
			return err
		}
		return d.db.Update(func(tx *bbolt.Tx) error {
			if err := tx.DeleteBucket(keyBucket); err != nil {
				return err
			}
			_, err := tx.CreateBucket(keyBucket)
			meta := tx.Bucket(metaBucket)
			return errors.Join(err, meta.Delete(memoryKey), meta.Delete(agreedKey))
		})
	})
	return path, err
}

// synced sees that a new file outlives a loss of power.
func synced(path string) error {
	for _, name := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// writeBatch stores items, deletes the keys in gone, and syncs the file. The agreed
// deletions of m stay as they are if they are nil.
func (d *Durable) writeBatch(m replication.Memory, items []replication.Item, gone ...string) error {
	err := guarded(func() error {
		if d.hang != nil {
			<-d.hang
		}
		if d.fail != nil {
			return d.fail
		}
		return d.db.Update(func(tx *bbolt.Tx) error {
			meta, keys := tx.Bucket(metaBucket), tx.Bucket(keyBucket)
			if err := meta.Put(memoryKey, sealed(string(memoryKey), appendMemory(nil, m))); err != nil {
				return err
			}
			if m.Agreed != nil {
				if err := meta.Put(agreedKey, sealed(string(agreedKey), appendAgreed(nil, m.Agreed))); err != nil {
					return err
				}
			}
			for _, key := range gone {
				if err := keys.Delete([]byte(key)); err != nil {
					return err
				}
			}
			for i := range items {
				if err := keys.Put([]byte(items[i].Key), sealed(items[i].Key, appendRecord(nil, &items[i]))); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", replicator.ErrDurable, d.cfg.Path, err)
	}
	return nil
}

// SetAside copies the file to another one beside it, and empties it, so that what it holds
// is kept and not restored. It returns the path of the copy. The replicator that uses the
// file must have been closed before. It fails with ErrDurable.
func (d *Durable) SetAside() (path string, err error) {
	if path, err = d.setAside(time.Now()); err != nil {
		return "", fmt.Errorf("%w: %s: %w", replicator.ErrDurable, d.cfg.Path, err)
	}
	return path, nil
}

// Close closes the file. The replicator that uses it must have been closed before.
func (d *Durable) Close() error { return d.db.Close() }
