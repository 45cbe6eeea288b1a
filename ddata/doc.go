// Package ddata is distributed data for applications: typed keys over a role's
// replicator. Every member of the role holds every key; reads of the local value
// are free, writes and reads may ask for a majority.
//
//	users := ddata.ORSetKey[string]("users")
//	err := ddata.Update(ctx, data, users, ddata.Majority, func(s *ddata.ORSetTx[string]) error {
//		s.Add("ada")
//		return nil
//	})
//	set, err := ddata.Get(ctx, data, users, ddata.Majority)
//	set.Contains("ada")
//
// An update's function sees the value as it was when it began and says what
// shall change; the changes are made together when it returns nil, and none is
// made when it returns an error. So within one function a read does not show
// what the same function has asked for before it. After Update has returned nil,
// every later read on this node shows the change (read your writes), and so does
// every later majority read anywhere if the level was Majority. Where the last write wins
// (LWWRegister, LWWMap, Delete), one above level Local wins over all that was acknowledged
// at that level before Update began, whatever the clocks of the nodes.
//
// Elements, keys and values of maps may be of any type that crdt.DefaultCodec
// can encode: strings, integers and [16]byte cheaply, others as msgpack.
//
// Levels other than Local need a lease, which a node that is cut off or still joining
// does not have: they wait for it, and end at their deadline with replicator.ErrNoLease.
//
// The errors are those of package replicator.
package ddata
