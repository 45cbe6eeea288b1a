// Package ddata is replicated data for applications: typed keys over the replicator of a
// role. Every member of the role holds every key. Reads of the local value need no network;
// writes and reads may require a majority.
//
//	users := ddata.ORSetKey[string]("users")
//	err := ddata.Update(ctx, data, users, ddata.Majority, func(s *ddata.ORSetTx[string]) error {
//		s.Add("ada")
//		return nil
//	})
//	set, err := ddata.Get(ctx, data, users, ddata.Majority)
//	set.Contains("ada")
//
// The function of an Update reads the value as it was when the function began, and requests
// changes. Update makes all of them together when the function returns nil, and none if it
// returns an error. So a read within the function does not show a change that the same
// function has requested before.
//
// After Update has returned nil, every later read on this node shows the change (read your
// writes). If the level was Majority, so does every later majority read on any node. Where
// the last write wins (LWWRegister, LWWMap, Delete), a write above level Local wins over
// everything that was acknowledged at that level before Update began, whatever the clocks
// of the nodes.
//
// Elements, and the keys and values of maps, may have any type that crdt.DefaultCodec can
// encode: strings, integers and [16]byte at low cost, other types as msgpack.
//
// Levels other than Local need a lease. A node that is cut off or still joining has none:
// its requests wait for a lease, and fail at their deadline with replicator.ErrNoLease.
//
// The errors are those of package replicator.
package ddata
