package peerage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding"
)

// AnyRole stands in Config.Data for every role that the node carries and that is
// not named there, the data of all members among them.
const AnyRole = "*"

// DataConfig sets up the distributed data of one role. The zero DataConfig keeps
// everything in memory and for ever. Durable, Retain and Expire must be equal at all nodes that
// carry the role.
type DataConfig struct {
	// Durable are the prefixes of the keys that outlive a stop of all nodes of the role:
	// each node keeps them in a file in Config.DataDir, and when the cluster starts
	// again it holds what any of the nodes has on its disk. "" is every key of the
	// application. What coordinators of shards keep lives as long as one of their nodes
	// and cannot be named. See replicator.Durable for what it costs.
	Durable []string
	// Sync is how much later than its acknowledgement a change of a durable key may
	// reach the disk. Default: 0, nothing is acknowledged that is not on the disk; a
	// majority write then waits for a sync of the disk at a majority. See
	// replicator.DurableConfig.
	Sync time.Duration
	// Retain is for how long a node may be away and its file of durable keys still be taken
	// in; for so long deletions of durable keys, and of entries of LWWMaps under them, are
	// remembered. Default 7 days, at least an hour, negative for ever. See replicator.DurableConfig and replicator.Durable.
	Retain time.Duration
	// Expire deletes keys that nobody has changed for a while. The longest prefix
	// decides; After 0 excepts a prefix.
	Expire []replicator.Expiry
}

// dataOf returns the settings of a role.
func (c *Config) dataOf(role string) DataConfig {
	if d, named := c.Data[role]; named {
		return d
	}
	return c.Data[AnyRole]
}

// expiry returns what the replicator of a role may end: nothing of ours.
func (d *DataConfig) expiry() []replicator.Expiry {
	if len(d.Expire) == 0 {
		return nil
	}
	return append(slices.Clone(d.Expire), replicator.Expiry{Prefix: sharding.StorePrefix})
}

// dataProblems returns what is wrong with Data and DataDir.
func (c *Config) dataProblems() (out []gossip.Problem) {
	add := func(setting string, value any, why string) {
		out = append(out, gossip.Problem{Setting: setting, Value: fmt.Sprint(value), Why: why})
	}
	durable := false
	for role, d := range c.Data {
		name := "Data[" + strconv.Quote(role) + "]."
		if role != "" && role != AnyRole && !slices.Contains(c.Gossip.Roles, role) {
			add(name[:len(name)-1], "set", "this node does not carry the role: its data would not be kept here")
		}
		durable = durable || len(d.Durable) > 0
		for _, p := range d.Durable {
			if strings.HasPrefix(p, sharding.StorePrefix) {
				add(name+"Durable", strconv.Quote(p), "what coordinators keep must not outlive the cluster")
			}
		}
		if d.Sync < 0 {
			add(name+"Sync", d.Sync, "a delay is not negative")
		}
		if d.Retain > 0 && d.Retain < replicator.RetainMin {
			add(name+"Retain", d.Retain, "clocks differ by minutes: at least "+replicator.RetainMin.String())
		}
		for i, e := range d.Expire {
			switch {
			case e.After < 0:
				add(name+"Expire", e.After, "a time is not negative; 0 excepts a prefix")
			case strings.HasPrefix(e.Prefix, sharding.StorePrefix):
				add(name+"Expire", strconv.Quote(e.Prefix), "what coordinators keep must not expire")
			case slices.ContainsFunc(d.Expire[:i], func(o replicator.Expiry) bool { return o.Prefix == e.Prefix }):
				add(name+"Expire", strconv.Quote(e.Prefix), "named twice")
			}
		}
	}
	if durable && c.DataDir == "" {
		add("DataDir", `""`, "durable keys need a directory")
	}
	if durable && c.Gossip.Name == "" {
		add("Name", `""`, "a node with durable keys needs a name that survives restarts: its files belong to it")
	}
	return out
}

// openFiles opens the files of durable keys of all roles that have any, once for all
// incarnations.
func (n *Node) openFiles() error {
	n.files = map[string]*replicator.Durable{}
	for _, role := range append([]string{""}, n.cfg.Gossip.Roles...) {
		d := n.cfg.dataOf(role)
		if len(d.Durable) == 0 || n.files[role] != nil {
			continue
		}
		if st, err := os.Stat(n.cfg.DataDir); err != nil || !st.IsDir() {
			return fmt.Errorf("%w: DataDir %q is not a directory (it is not made, so that a disk which is not mounted is noticed)",
				replicator.ErrDurable, n.cfg.DataDir)
		}
		file, err := replicator.OpenDurable(replicator.DurableConfig{
			Path:     filepath.Join(n.cfg.DataDir, fileOf(role)),
			Owner:    strings.Join([]string{n.clusterName(), role, n.cfg.Gossip.Name}, " "),
			Prefixes: d.Durable, Except: []string{sharding.StorePrefix}, Sync: d.Sync, Retain: d.Retain,
		})
		if err != nil {
			return err
		}
		n.files[role] = file
	}
	return nil
}

// fileOf names the file by the role alone: a node under a new name then finds a file
// that is not its own, and not an empty directory.
func fileOf(role string) string {
	if role == "" {
		return "all.keys"
	}
	return "role-" + role + ".keys"
}

func (n *Node) clusterName() string {
	if n.cfg.Gossip.Cluster == "" {
		return gossip.LAN().Cluster
	}
	return n.cfg.Gossip.Cluster
}

// closeFiles closes them; no replicator uses them any more.
func (n *Node) closeFiles() {
	for role, f := range n.files {
		if err := f.Close(); err != nil {
			n.cfg.Logger.Warn("file of durable keys did not close cleanly", "role", role, "err", err)
		}
	}
	n.files = nil
}
