// Package placement decides and records on which nodes shards run. It drives the cores
// internal/core/coordinator and internal/core/region.
//
// Drivers hold one TypeDriver for each entity type. A TypeDriver is one goroutine that steps
// the region core of its type, and on nodes of the type's role the coordinator core, and
// performs their effects in order. The Endpoint of the type sends messages and runs the
// entities: a TypeDriver opens and closes its routes, and starts and stops its shards.
//
// A Store keeps the records of coordinators in replicated memory. A Survey asks all members
// for their state of a type, for operators.
package placement
