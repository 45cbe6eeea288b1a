// Package coordinator is the pure core that decides which region hosts which
// shard of one entity type (DESIGN 7.2, 7.3). One Core per type runs on every node
// with the type's role, for the life of the node's incarnation; the one on the
// node that protocol.Elect names is in office, the others wait.
package coordinator
