package peerage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/replicator"
)

// openFiles opens the files of durable keys of all roles that have any. The files stay open
// through all incarnations.
func (n *Node) openFiles() error {
	n.files = map[string]*replica.Durable{}
	for _, role := range append([]string{""}, n.cfg.Roles...) {
		d := n.cfg.dataOf(role)
		if len(d.Durable) == 0 || n.files[role] != nil {
			continue
		}
		if st, err := os.Stat(n.cfg.DataDir); err != nil || !st.IsDir() {
			return fmt.Errorf("%w: DataDir %q is not a directory: create it, or mount its disk (the node does not create it, so that a missing mount is noticed)",
				replicator.ErrDurable, n.cfg.DataDir)
		}
		file, err := replica.OpenDurable(replica.DurableConfig{
			Path:     filepath.Join(n.cfg.DataDir, fileOf(role)),
			Owner:    strings.Join([]string{n.cfg.Cluster, role, n.cfg.Name}, " "),
			Prefixes: d.Durable, Except: []string{placement.StorePrefix}, Sync: d.Sync, Retain: d.Retain,
		})
		if err != nil {
			return err
		}
		n.files[role] = file
	}
	return nil
}

// fileOf returns the name of a role's file. It depends on the role alone, so that a node
// under a new name finds a file that is not its own, not an empty directory.
func fileOf(role string) string {
	if role == "" {
		return "all.keys"
	}
	return "role-" + role + ".keys"
}

// closeFiles closes the files. No replicator may use them afterwards.
func (n *Node) closeFiles() {
	for role, f := range n.files {
		if err := f.Close(); err != nil {
			n.cfg.Logger.Warn("cannot close the file of durable keys; the next start checks it; check the disk", "role", role, "err", err)
		}
	}
	n.files = nil
}
