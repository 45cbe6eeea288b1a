//go:build !unix

package server

import "time"

// processorTime returns 0: it is measured on Unix only.
func processorTime() time.Duration { return 0 }
