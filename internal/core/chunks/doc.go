// Package chunks moves content that is too large for one message, in numbered chunks. It is a
// core: its user cuts the content, transmits the chunks and their acknowledgements, and gives
// it time.
//
//	sending node                           receiving node
//	Sender.Add(chunk), while HasRoom
//	Sender.Next()    -- Head, content -->  Receiver.Accept(Head, size, sum)
//	Sender.OnAck     <---- next number --  Receiver.Next()
//	Sender.Restart   <---- nothing held -  no room, or the chunks before are gone
//
// Messages may be lost, duplicated and reordered.
//
// # Order and integrity
//
// The receiver accepts chunks in order only. An acknowledgement carries the number of the next
// chunk, so it confirms all chunks before, and the next one makes up for a lost one. Each Head
// carries the Sum of the content up to the end of its chunk: content that was cut or joined in
// another way is rejected, and never completed.
//
// # Bounds
//
// At most Config.Window chunks are in flight: the sender retains nothing else, and cuts a chunk
// when it can leave. The first Head declares the size of all content, so the receiver checks
// its bounds before it allocates. Chunks that exceed the declared size are rejected.
//
// # Loss
//
// The sender retransmits all chunks in flight when no acknowledgement has come until its
// deadline, and once when an acknowledgement shows a gap. Config.Wait determines how it backs
// off. A receiver that holds nothing of a transfer makes the sender begin again: that is another
// attempt, and messages must carry its number, since late ones of the attempt before would
// confirm what the receiver no longer holds. The user also begins again after some misses: a
// receiver that was evicted may have accepted a late copy of the first chunk. When to cancel is the decision of the user: it
// drops the Sender, and its peer evicts the Receiver.
//
// Rejected: acknowledgements of single chunks. The connections keep their order, so chunks after
// a gap are rare. A receiver that kept them would need a bound of its own.
package chunks
