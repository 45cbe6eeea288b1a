// Package crdt has replicated data types: values that several processes change without
// coordination. Values are equal wherever the same changes have been merged, in any order
// and any number of times. Once a full state has passed, lost changes make no difference.
//
// # Which type to take
//
//	a number that goes up                        GCounter
//	a number that goes up and down               PNCounter
//	many numbers, by key                         PNCounterMap
//	yes or no                                    Flag
//	one value; the last write may win            LWWRegister
//	one value; no write may be lost              MVRegister
//	a set that only grows                        GSet
//	a set                                        ORSet
//	a map to values; the last write may win      LWWMap
//	a map to sets                                ORMultiMap
//	a map to values of different types, nested   ORMap
//	changes seen of each writer, up to where     VersionVector
//	changes seen of each writer, exactly         Context
//
// The comment of each type has a small table of the results of concurrent operations.
//
// # How to use it
//
// A mutator changes the value immediately and returns the delta: a small value of the same
// type that carries this change alone. Send it to the peers, which Merge it. A mutator that
// changes nothing returns nil. Several deltas merged are one delta. From time to time, or
// when digests differ, send the whole value as if it were a delta, in Chunks if it is large.
//
//	delta := set.Add(self, "apple")    // here
//	frame := delta.Append(nil)
//
//	v, err := crdt.Decode(crdt.KindORSet, frame)
//	changed, err := set.Join(v)        // there
//
// Each process is a writer with a NodeID of its own. The NodeID must be new at every
// start of a process: a writer that comes back with an old state under an old name
// would use its dots twice, and peers would take its new changes for old ones.
//
// Registers and LWWMap order writes by a Stamp. For application data draw stamps
// from an HLC; it refuses stamps of processes whose clocks run ahead, which would
// otherwise win for as long as they are ahead.
//
// # Guarantees
//
//   - Join is commutative, associative and idempotent. A delta joined to the value it
//     came from gives what the mutator gave. Deltas may be lost, doubled, reordered and
//     joined with each other; one full state repairs what losses left out.
//   - A delta claims only the changes that it witnesses: its causal context holds exactly the
//     dots that it adds, replaces and removes.
//   - Equal content has equal canonical bytes and an equal digest, however it came
//     about. The digest is kept up to date by each change.
//   - No value shares memory with another, with its arguments or with its deltas.
//     Iterators are the exception: do not change a value while ranging over it.
//   - Decode never panics and allocates at most a small multiple of its input.
//   - Removed elements leave nothing behind but the interval of their writer. What
//     dead writers leave can be pruned, see Garbage.
//
// Values are not safe for concurrent use, reading included: some build an index
// when they are first read. Nothing in this package blocks, starts a goroutine or
// reads a clock.
//
// # Errors
//
//	ErrTruncated   an encoding ends early         not retryable: the sender is broken
//	ErrMalformed   an encoding is not ours        not retryable
//	*LimitError    an encoding declares too much  not retryable
//	*KindError     values of different types, or  a mistake of the caller
//	               of different elements
//	*SkewError     a stamp from the future        later, or never: see HLC
//
// # Sources
//
// Delta-state CRDTs: Almeida, Shoker, Baquero (arXiv 1410.2803, 1603.01529). Sets
// without tombstones: Bieniusa et al. (1210.3368). Hybrid logical clocks: Kulkarni et
// al., 2014. Canonical encodings are msgpack.
package crdt
