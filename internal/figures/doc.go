// Package figures holds the types by which the layers of a node pass figures and single
// events to package metrics: those of the replicators and of sharding. The figures of
// membership and of the transport are types of internal/membership and internal/transport.
//
// Node and Cluster are the figures that members report to each other for people who look at
// the whole cluster from one node. Package dashboard shows them.
package figures
