package sharding

import (
	"runtime"
	"testing"
)

// msgpack v5 allocates what a header declares: five bytes can ask for gigabytes.
func TestMsgpackIsBoundedByItsBytes(t *testing.T) {
	type list struct{ Items []uint64 }
	for name, p := range map[string][]byte{
		"array of 4 billion": {0xdd, 0xff, 0xff, 0xff, 0xff},
		"map of 4 billion":   {0xdf, 0xff, 0xff, 0xff, 0xff},
		"string of 4 GiB":    {0xdb, 0xff, 0xff, 0xff, 0xff},
		"bytes of 4 GiB":     {0xc6, 0xff, 0xff, 0xff, 0xff},
		"trailing bytes":     {0x90, 0x90},
		"nothing":            {},
		"array inside a map": {0x81, 0xa5, 'I', 't', 'e', 'm', 's', 0xdd, 0x7f, 0xff, 0xff, 0xff},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := (Msgpack[list]{}).Decode(p); err == nil {
			t.Errorf("%s: no error", name)
		}
		runtime.ReadMemStats(&after)
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 1<<20 {
			t.Errorf("%s: %d bytes allocated for %d bytes", name, grew, len(p))
		}
	}
}

func FuzzMsgpack(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'A', 0x01})
	f.Fuzz(func(t *testing.T, p []byte) {
		_, _ = (Msgpack[map[string][]string]{}).Decode(p)
		_, _ = (Msgpack[any]{}).Decode(p)
	})
}
