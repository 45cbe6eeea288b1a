// Package figures holds the types by which the layers of a node pass figures and single
// events to package metrics: those of the replicators and of sharding. The figures of
// membership and of the transport are types of internal/membership and internal/transport.
package figures
