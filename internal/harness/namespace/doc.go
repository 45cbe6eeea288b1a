// Package namespace gives a run a network and mounts of its own, in which paths between
// processes break and disks are small. It needs Linux and root.
package namespace
