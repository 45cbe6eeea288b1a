// Package residency keeps entities running that need no message to live: remembered entities,
// singletons and the workers of daemons. It is the shell of internal/core/residency, which
// decides.
package residency
