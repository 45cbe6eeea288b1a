package core

// Message is a message of the replicator protocol. Messages are immutable once
// sent: the simulator hands the same value to several receivers.
type Message interface{ message() }

// Append appends the encoding of m to b.
func Append(b []byte, m Message) []byte { return b }

// Decode reads one message. It allocates no more than the frame's size implies
// and copies what it keeps.
func Decode(frame []byte) (Message, error) { return nil, nil }
