// Package gossip is the vocabulary of membership: nodes, members, views and epochs, the
// policies that decide which part of a divided cluster continues, the causes and evidence of
// removals, and the events that a node reports about all of these.
//
// A service meets these types in the settings, events and status of package peerage. The
// package starts nothing and opens no socket: the protocol is internal/core/view, and
// internal/membership runs it over connections and memberlist.
package gossip
