// Package wiretest tests all messages of a protocol by samples: one or more of each kind,
// with every field set.
package wiretest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
)

// Bound of what Decode may allocate: so many bytes for each byte of the frame, and some more
// for other goroutines of the test.
const (
	allocBytesPerByte = 64
	allocBytesBeside  = 64 << 10
)

// T is the part of a *testing.T that the checks use.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Check checks that the samples cover the kinds of s and survive their frames, and that s
// rejects what is no frame: each part of one, one with a byte too many, and unknown kinds.
func Check[M any](t T, s *wire.Messages[M], samples []M) {
	t.Helper()
	covered := map[byte]bool{}
	for _, m := range samples {
		covered[s.Kind(m)] = true
		checkFrame(t, s, m)
		checkCorrupted(t, s, m)
	}
	for kind := range 256 {
		k := byte(kind)
		if s.Has(k) != covered[k] {
			t.Errorf("kind %d: exists: %v, has a sample: %v", k, s.Has(k), covered[k])
		}
		if s.Has(k) && s.Kind(s.New[k]()) != k {
			t.Errorf("the blank message of kind %d is of kind %d", k, s.Kind(s.New[k]()))
		}
		if !s.Has(k) {
			checkUnknown(t, s, k)
		}
	}
}

func checkUnknown[M any](t T, s *wire.Messages[M], kind byte) {
	t.Helper()
	var limit *wire.LimitError
	_, err := s.Decode(append([]byte{kind}, make([]byte, 64)...))
	if s.Unknown != nil && !errors.Is(err, s.Unknown) || s.Unknown == nil && !errors.As(err, &limit) {
		t.Errorf("unknown kind %d: %v", kind, err)
	}
}

func checkFrame[M any](t T, s *wire.Messages[M], m M) {
	t.Helper()
	frame := s.Append(nil, m)
	if got, err := s.Decode(frame); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%T comes back as %+v, %v; want %+v", m, got, err, m)
	}
	if behind := s.Append([]byte("head"), m); string(behind) != "head"+string(frame) {
		t.Errorf("%T is encoded differently behind other bytes", m)
	}
	for n := range frame {
		if got, err := s.Decode(frame[:n]); err == nil {
			t.Errorf("%T: %d of %d bytes decode to %+v", m, n, len(frame), got)
		}
	}
	if _, err := s.Decode(append(frame, 0)); !errors.Is(err, wire.ErrTrailing) {
		t.Errorf("%T with a byte too many: %v", m, err)
	}
}

// checkCorrupted checks frames with one wrong byte.
func checkCorrupted[M any](t T, s *wire.Messages[M], m M) {
	t.Helper()
	frame := s.Append(nil, m)
	for i, was := range frame {
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff, was + 1, was - 1} {
			frame[i] = b
			if got, err := s.Decode(frame); err == nil {
				checkAgain(t, s, got)
			}
		}
		frame[i] = was
	}
}

// checkAgain checks that a decoded message survives its own frame.
func checkAgain[M any](t T, s *wire.Messages[M], m M) {
	t.Helper()
	if again, err := s.Decode(s.Append(nil, m)); err != nil || !reflect.DeepEqual(again, m) {
		t.Fatalf("%+v comes back as %+v, %v", m, again, err)
	}
}

// Golden compares the frames of the samples with a digest: the frames of one wire version
// never change.
func Golden[M any](t T, s *wire.Messages[M], samples []M, was string) {
	t.Helper()
	h := sha256.New()
	for _, m := range samples {
		h.Write(s.Append(nil, m))
	}
	if is := fmt.Sprintf("%x", h.Sum(nil)[:8]); is != was {
		t.Errorf("the frames of the samples have digest %s, not %s: if a format has changed, see docs/HACKING.md", is, was)
	}
}

// Fuzz decodes arbitrary frames, beginning with those of the samples. It checks that Decode
// does not panic and allocates in proportion to the frame, and that what it returns survives
// its own frame. use, if not nil, does with the message what a receiver does.
func Fuzz[M any](f *testing.F, s *wire.Messages[M], samples []M, use func(*testing.T, M)) {
	f.Helper()
	for _, m := range samples {
		f.Add(s.Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := s.Decode(frame)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(allocBytesPerByte*len(frame)+allocBytesBeside) {
			t.Fatalf("%d bytes allocated for a frame of %d", got, len(frame))
		}
		if err != nil {
			return
		}
		checkAgain(t, s, m)
		if use != nil {
			use(t, m)
		}
	})
}
