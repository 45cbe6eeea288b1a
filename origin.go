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

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
)

// originFile keeps to which line of clusters the files of DataDir belong: view.View.Origin
// of the views that they were written under. Files of the same origin are merged whenever
// they come back; those of another cluster, which only has the same name, are not.
type originFile struct {
	path string
	// of is 0 until the node has stood in a view.
	of uint64
}

const (
	originName = "origin"
	// originBytesMax bounds what is read: the word, a space, 16 digits, a line's end.
	originBytesMax = len(originName) + 1 + 16 + 1
)

// open reads the file, if there is one. The error names it.
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

// change makes the files beside it belong to another origin.
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

// unfit is why an incarnation leaves the cluster that has let it in.
type unfit struct {
	// origin is that of the cluster, other than that of this node's files, 0 if it is the
	// same.
	origin uint64
	// higher: this node's files know of a higher generation.
	higher bool
}

// leavePatience bounds the wait for a view without a node that does not fit.
const leavePatience = 5 * time.Second

// fits compares this node's files with the first view of an incarnation. If they do not
// fit, the incarnation leaves again before anything above gossip has seen a view: so no
// durable key of another cluster is merged, and no lower token is given out. The next
// incarnation comes with files that were set aside, or has the cluster open a higher
// generation.
func (s *stack) fits(v *view.View) bool {
	if s.unfit != nil {
		return false
	}
	n := s.node
	switch {
	case n.origin.of != 0 && n.origin.of != v.Origin && len(n.files) > 0:
		s.unfit = &unfit{origin: v.Origin}
	case n.generation.certain() > v.Epoch.Generation():
		s.unfit = &unfit{higher: true}
		n.cfg.Logger.Warn("the file of this node knows of a higher generation than the cluster has: the cluster opens one above it, and all shards get new tokens",
			"node", s.gossip.Self().Name, "generation", v.Epoch.Generation(), "known", n.generation.certain())
	default:
		if err := n.origin.change(v.Origin); err != nil {
			n.cfg.Logger.Error("cannot write the origin file; if this node joins another cluster of the same name later, its durable keys may be merged there; check the disk",
				"file", n.origin.path, "err", err)
		}
		return true
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
		defer cancel()
		_ = s.gossip.Leave(ctx) // its end is told as that of any incarnation
		s.end(view.Removed{Reason: "its files are not of this cluster", Generation: v.Epoch.Generation()})
	}()
	return false
}

// changeFiles sets the files of durable keys aside if they are of another cluster than the
// one that has let the ended incarnation in.
func (s *stack) changeFiles() {
	if s.unfit == nil || s.unfit.origin == 0 {
		return
	}
	n := s.node
	for _, role := range slices.Sorted(maps.Keys(n.files)) {
		path, err := n.files[role].SetAside()
		if err != nil {
			n.cfg.Logger.Error("durable keys of another cluster of this name cannot be set aside; the node stays out until they can: check the disk", "role", role, "err", err)
			return
		}
		n.setAside.Add(1)
		n.cfg.Logger.Error("durable keys of another cluster of this name are set aside, and not merged: look whether they are needed", "role", role, "copy", path)
	}
	if err := n.origin.change(s.unfit.origin); err != nil {
		n.cfg.Logger.Error("cannot write the origin file; the node stays out until it can: check the disk", "file", n.origin.path, "err", err)
	}
}
