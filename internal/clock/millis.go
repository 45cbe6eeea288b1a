package clock

import "time"

// ShowMillis returns a time in milliseconds of Unix time as text.
func ShowMillis(ms uint64) string {
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")
}
