// Package server runs one node that hosts counters, with an HTTP API.
package server
