package clock

import "golang.org/x/sys/unix"

// Boot returns a Clock that keeps counting while the machine is suspended
// (CLOCK_BOOTTIME), and Runtime where the kernel has none. A suspended virtual
// machine must not believe that no time has passed: its leases have ended.
func Boot() Clock {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return Runtime()
	}
	return Func(func() Instant {
		var ts unix.Timespec
		// It worked above with the same arguments, and it cannot stop working.
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
		return Instant(ts.Nano())
	})
}
