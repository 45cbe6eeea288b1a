// Package metrics exports the counts of all layers to Prometheus. Only the histograms are
// kept here; every other value is read from its layer at each scrape. docs/METRICS.md
// lists names and meanings; a test compares it with the exported metrics.
package metrics
