package peerage

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/placement"
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
	// of their nodes. docs/DDATA.md has the cost. Default: no key is durable.
	Durable []string
	// Sync is how much later than its acknowledgement a change of a durable key may reach
	// the disk. With 0, a change is on the disk before it is acknowledged, and a majority
	// write waits for the disks of a majority. With 50 ms, a power cut of all nodes at the
	// same time loses the writes of the last 50 ms. It must not be negative. Default: 0.
	Sync time.Duration
	// Retain is how long a node may be away without its file of durable keys being set
	// aside. Deletions of durable keys, and of entries of LWWMaps under them, are kept that
	// long or longer, counted while nodes run. A longer time costs about 200 bytes for
	// each key deleted meanwhile. At least 1 hour. Default: 7 days; negative: forever.
	Retain time.Duration
	// Expire deletes keys that no write has changed for a while. The longest matching
	// prefix applies. After: 0 excepts a prefix. Default: no key expires.
	Expire []replicator.Expiry
}

// expiry returns the expiry rules of the role's replicator. Keys under placement.StorePrefix
// never expire.
func (d *DataConfig) expiry() []replicator.Expiry {
	if len(d.Expire) == 0 {
		return nil
	}
	return append(slices.Clone(d.Expire), replicator.Expiry{Prefix: placement.StorePrefix})
}
