package replicator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator/core"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// DurableConfig says which keys of a replicator outlive a stop of all its members.
type DurableConfig struct {
	// Path of the file. It is made if it does not exist; its directory is not. One
	// process, and one role, to a file.
	Path string
	// Owner is what the file belongs to, such as "cluster/role": a file of another
	// owner is refused.
	Owner string
	// Prefixes select the keys. At least one; "" is every key. They must be equal at
	// all members of the role: what a member without a file forgets, the file of
	// another may bring back.
	Prefixes []string
	// Except are prefixes of keys that are not kept although Prefixes have them.
	Except []string
	// Sync is how much later than its acknowledgement a change may reach the disk. 0,
	// the default, writes and syncs before anything is acknowledged, to callers and to
	// other replicas: a majority write is then on the disks of a majority, for a sync
	// (one for all changes that came meanwhile) of added latency. With 50 ms, a power
	// cut of all members at once loses what was written in the last 50 ms.
	Sync time.Duration
	// OpenWait bounds the wait for a process that still has the file open. Default
	// 5 s.
	OpenWait time.Duration
}

// ErrDurable is wrapped by every error about the file of durable keys.
var ErrDurable = errors.New("replicator: durable keys")

// Durable is an open file of durable keys. It serves one replicator after the
// other, as incarnations of a node follow each other, and none of them closes it.
//
// Every write stores the whole value of each changed key: sets and maps of up to
// some thousand entries are what it is for. A file may come back after any time and
// in any cluster of its owner, so what it holds is merged, never taken for the
// newest; and therefore durable keys keep their tombstones (prune.go in core): a key
// costs about 200 bytes for ever, a removed map entry about 50. Prefer elements of a
// set to keys that come and go.
type Durable struct {
	cfg DurableConfig
	db  *bbolt.DB
}

var (
	metaBucket = []byte("peerage")
	keyBucket  = []byte("keys")
	formatKey  = []byte("format")
	ownerKey   = []byte("owner")
	format     = []byte("durable keys 1")
)

// OpenDurable opens or makes the file and reads all of it. A file that is damaged,
// was not made by this package, belongs to another owner, or is held by another
// process gives an error that says so and wraps ErrDurable; nothing is ever dropped
// silently, and the file is left as it was.
func OpenDurable(cfg DurableConfig) (*Durable, error) {
	if cfg.Path == "" || len(cfg.Prefixes) == 0 {
		return nil, fmt.Errorf("%w: Path and Prefixes are needed", ErrDurable)
	}
	if cfg.OpenWait <= 0 {
		cfg.OpenWait = 5 * time.Second
	}
	d := &Durable{cfg: cfg}
	if err := guarded(d.open); err != nil {
		if d.db != nil {
			_ = guarded(d.db.Close)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrDurable, cfg.Path, err)
	}
	return d, nil
}

// guarded turns what a damaged file does to a reader of mapped memory into an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("damaged: %v", x)
		}
	}()
	return f()
}

func (d *Durable) open() (err error) {
	st, err := os.Stat(d.cfg.Path)
	fresh := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !fresh:
		return err
	case !fresh && st.Size() == 0:
		return errors.New("damaged: empty; remove it if nothing is to be restored")
	}
	d.db, err = bbolt.Open(d.cfg.Path, 0o600, &bbolt.Options{Timeout: d.cfg.OpenWait})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return errors.New("another process has it open")
	case err != nil:
		return fmt.Errorf("damaged or not a file of durable keys: %w", err)
	}
	if fresh {
		return d.db.Update(d.found)
	}
	return d.db.View(func(tx *bbolt.Tx) error { return d.load(tx, func(core.Item) error { return nil }) })
}

// found writes what says whose file this is.
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

// read calls f with every key that the file has.
func (d *Durable) read(f func(core.Item) error) error {
	return guarded(func() error { return d.db.View(func(tx *bbolt.Tx) error { return d.load(tx, f) }) })
}

func (d *Durable) load(tx *bbolt.Tx, f func(core.Item) error) error {
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
	return keys.ForEach(func(k, v []byte) error {
		it, err := readRecord(string(k), v)
		if err != nil {
			return fmt.Errorf("damaged: key %q: %w", k, err)
		}
		return f(it)
	})
}

// covers reports whether a key is to be kept.
func (d *Durable) covers(key string) bool {
	begins := func(p string) bool { return strings.HasPrefix(key, p) }
	return slices.ContainsFunc(d.cfg.Prefixes, begins) && !slices.ContainsFunc(d.cfg.Except, begins)
}

// write stores items and syncs the file.
func (d *Durable) write(items []core.Item) error {
	err := guarded(func() error {
		return d.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(keyBucket)
			for _, it := range items {
				if err := b.Put([]byte(it.Key), appendRecord(nil, it)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDurable, d.cfg.Path, err)
	}
	return nil
}

// Close closes the file. The replicator that uses it must have been closed before.
func (d *Durable) Close() error { return d.db.Close() }

// appendRecord writes a checksum over key and rest, generation, kind, value.
func appendRecord(b []byte, it core.Item) []byte {
	rest := append(binary.AppendUvarint(nil, it.Gen), byte(it.Kind))
	rest = append(rest, it.Bytes...)
	return append(binary.BigEndian.AppendUint64(b, checksum(it.Key, rest)), rest...)
}

func checksum(key string, rest []byte) uint64 { return xxh3.HashSeed(rest, xxh3.HashString(key)) }

func readRecord(key string, b []byte) (it core.Item, err error) {
	if len(b) < 10 || binary.BigEndian.Uint64(b) != checksum(key, b[8:]) {
		return it, errors.New("wrong checksum")
	}
	gen, n := binary.Uvarint(b[8:])
	if n <= 0 || len(b) < 9+n {
		return it, errors.New("cut short")
	}
	it = core.Item{Key: key, Gen: gen, Kind: crdt.Kind(b[8+n]), Bytes: append([]byte{}, b[9+n:]...)}
	if it.Kind != 0 {
		_, err = crdt.Decode(it.Kind, it.Bytes)
	}
	return it, err
}
