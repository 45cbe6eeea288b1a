//go:build !linux

package clock

// Boot returns Runtime: this system offers no clock that counts suspend.
func Boot() Clock { return Runtime() }
