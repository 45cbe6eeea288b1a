package peerage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/replicator"
)

// AnyRole is the key of Config.Data for every role of the node that has no key of its own,
// including the data of all members.
const AnyRole = "*"

// DataConfig holds the settings of the distributed data of one role. The zero DataConfig
// keeps everything in memory, and nothing expires. Durable, Retain and Expire must be equal
// on all nodes of the role.
type DataConfig struct {
	// Durable lists the prefixes of durable keys, which outlive a stop of all nodes of the
	// role. Each node keeps them in a file in Config.DataDir. When the cluster starts
	// again, it has what any of its nodes has on disk. "" stands for every key of the
	// application. The records of coordinators cannot be durable: they live as long as one
	// of their nodes. See replica.Durable for the cost.
	Durable []string
	// Sync is how much later than its acknowledgement a change of a durable key may reach
	// the disk. Default: 0. Then a change is on the disk before it is acknowledged, and a
	// majority write waits for the disks of a majority. See replica.DurableConfig.
	Sync time.Duration
	// Retain is how long a node may be away without its file of durable keys being set
	// aside. Deletions of durable keys, and of entries of LWWMaps under them, are
	// remembered for the same time. Default: 7 days. At least 1 hour; negative means
	// forever. See replica.DurableConfig and replica.Durable.
	Retain time.Duration
	// Expire deletes keys that no write has changed for a while. The longest matching
	// prefix applies. After: 0 excepts a prefix.
	Expire []replicator.Expiry
}

// dataOf returns the settings of a role.
func (c *Config) dataOf(role string) DataConfig {
	if d, named := c.Data[role]; named {
		return d
	}
	return c.Data[AnyRole]
}

// expiry returns the expiry rules of the role's replicator. Keys under placement.StorePrefix
// never expire.
func (d *DataConfig) expiry() []replicator.Expiry {
	if len(d.Expire) == 0 {
		return nil
	}
	return append(slices.Clone(d.Expire), replicator.Expiry{Prefix: placement.StorePrefix})
}

// dataProblems checks Data and DataDir.
func (c *Config) dataProblems() (out []Problem) {
	add := func(setting string, value any, why string) {
		out = append(out, Problem{Setting: setting, Value: fmt.Sprint(value), Why: why})
	}
	durable := false
	for role, d := range c.Data {
		name := "Data[" + strconv.Quote(role) + "]."
		if role != "" && role != AnyRole && !slices.Contains(c.Roles, role) {
			add(name[:len(name)-1], "set", "this node does not have the role, so it would not keep its data")
		}
		durable = durable || len(d.Durable) > 0
		for _, p := range d.Durable {
			if strings.HasPrefix(p, placement.StorePrefix) {
				add(name+"Durable", strconv.Quote(p), "the records of coordinators must not outlive the cluster")
			}
		}
		if d.Sync < 0 {
			add(name+"Sync", d.Sync, "must not be negative")
		}
		if d.Retain > 0 && d.Retain < replica.RetainMin {
			add(name+"Retain", d.Retain, "clocks differ by minutes: at least "+replica.RetainMin.String())
		}
		for i, e := range d.Expire {
			switch {
			case e.After < 0:
				add(name+"Expire", e.After, "must not be negative; 0 excepts a prefix")
			case strings.HasPrefix(e.Prefix, placement.StorePrefix):
				add(name+"Expire", strconv.Quote(e.Prefix), "the records of coordinators must not expire")
			case slices.ContainsFunc(d.Expire[:i], func(o replicator.Expiry) bool { return o.Prefix == e.Prefix }):
				add(name+"Expire", strconv.Quote(e.Prefix), "named twice")
			}
		}
	}
	if durable && c.DataDir == "" {
		add("DataDir", `""`, "durable keys need a directory")
	}
	if durable && c.Name == "" {
		add("Name", `""`, "a node with durable keys needs a name that survives restarts: its files belong to it")
	}
	return out
}

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
