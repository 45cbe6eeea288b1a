// Package metrics exports what the layers count to Prometheus. It holds no
// numbers of its own but the histograms: everything else is read from the layers
// when it is scraped. Names and meanings stand in docs/METRICS.md, which a test
// compares with what is exported.
package metrics
