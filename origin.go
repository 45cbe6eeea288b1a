package peerage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// originFile stores the origin of the files in DataDir: the line of clusters to which they
// belong. It is the gossip.View.Origin of the views under which they were written. Files of
// the same origin are merged whenever they come back. Files of another cluster, which only
// has the same name, are not.
type originFile struct {
	path string
	// of is 0 until the node has been in a view.
	of uint64
}

const (
	originName = "origin"
	// originBytesMax bounds the read: the word, a space, 16 digits, a newline.
	originBytesMax = len(originName) + 1 + 16 + 1
)

// open reads the file, if it exists. The error names the file.
func (o *originFile) open(dir string) error {
	o.path = filepath.Join(dir, originName)
	text, err := os.ReadFile(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(text) != originBytesMax {
		err = fmt.Errorf("%d bytes long", len(text))
	}
	if err == nil {
		digits, _ := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), originName+" ")
		o.of, err = strconv.ParseUint(digits, 16, 64)
	}
	if err != nil {
		return fmt.Errorf("%w: %s cannot be used: %w; remove it if the files beside it are those of the cluster that this node joins",
			replicator.ErrDurable, o.path, err)
	}
	return nil
}

// change sets the origin of the files in the directory.
func (o *originFile) change(origin uint64) error {
	if o.path == "" || o.of == origin {
		return nil
	}
	if err := replaceFile(o.path, fmt.Sprintf("%s %016x\n", originName, origin)); err != nil {
		return err
	}
	o.of = origin
	return nil
}

// leavePatience bounds the wait for a view without a node that does not fit.
const leavePatience = 5 * time.Second

// fits compares this node's files with the first view of an incarnation. If they do not
// fit, the incarnation leaves again before any layer above gossip has seen a view. So no
// durable key of another cluster is merged, and no lower token is allocated. The next
// incarnation either starts with its files set aside, or makes the cluster open a higher
// generation.
func (s *stack) fits(v *gossip.View) bool {
	if s.fileConflict.Load() != nil {
		return false
	}
	n := s.node
	switch {
	case n.origin.of != 0 && n.origin.of != v.Origin && len(n.files) > 0:
		s.fileConflict.Store(&fileConflict{origin: v.Origin})
	case n.generation.certain() > v.Epoch.Generation():
		s.fileConflict.Store(&fileConflict{higher: true})
		n.cfg.Logger.Warn("the generation file of this node is ahead of the cluster: the cluster opens a generation above the file's, and all shards get new tokens; no action is needed",
			"node", s.gossip.Self().Name, "generation", v.Epoch.Generation(), "known", n.generation.certain())
	default:
		if err := n.origin.change(v.Origin); err != nil {
			n.cfg.Logger.Error("cannot write the origin file: if this node later joins another cluster of the same name, its durable keys may be merged there; check the disk",
				"file", n.origin.path, "err", err)
		}
		return true
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
		defer cancel()
		_ = s.gossip.Leave(ctx)
		s.markLeft(gossip.Removed{Reason: "its files are not of this cluster", Generation: v.Epoch.Generation()})
	}()
	return false
}

// changeFiles sets the files of durable keys aside if they belong to another cluster than
// the one that admitted the ended incarnation. If it fails, the next incarnation stays out.
func (s *stack) changeFiles() error {
	c := s.fileConflict.Load()
	if c == nil || c.origin == 0 {
		return nil
	}
	n := s.node
	for _, role := range slices.Sorted(maps.Keys(n.files)) {
		path, err := n.files[role].SetAside()
		if err != nil {
			n.cfg.Logger.Error("cannot set aside the durable keys of another cluster of this name: the node stays out of the cluster and retries; check the disk", "role", role, "err", err)
			return err
		}
		n.setAside.Add(1)
		n.outage.addCopy(path)
		n.cfg.Logger.Error("set aside the durable keys of another cluster of this name: they are not merged; check whether the copy is needed", "role", role, "copy", path)
	}
	err := n.origin.change(c.origin)
	if err != nil {
		n.cfg.Logger.Error("cannot write the origin file: the node stays out of the cluster and retries; check the disk", "file", n.origin.path, "err", err)
	}
	return err
}
