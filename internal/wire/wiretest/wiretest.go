// Package wiretest tests all messages of a protocol by samples: one or more of each kind,
// with every field set.
package wiretest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
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

// Check checks that the samples cover the kinds of s and survive their frames, that s skips
// fields of later versions, and that it rejects what is no frame: each part of one, and
// unknown kinds.
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
		if _, err := s.Decode(append([]byte{k}, make([]byte, 64)...)); !s.Has(k) && !errors.Is(err, wire.ErrUnknownKind) {
			t.Errorf("unknown kind %d: %v", kind, err)
		}
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
	former := formerLengths(s, m)
	for n := range frame {
		if got, err := s.Decode(frame[:n]); err == nil && !former[n] {
			t.Errorf("%T: %d of %d bytes decode to %+v", m, n, len(frame), got)
		}
	}
	later := append(frame[:len(frame):len(frame)], "fields of a later version"...)
	if got, err := s.Decode(later); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%T of a later version comes back as %+v, %v; want %+v", m, got, err, m)
	}
}

// formerLengths returns the lengths of m's frame in the versions before the newest.
func formerLengths[M any](s *wire.Messages[M], m M) map[int]bool {
	lengths := map[int]bool{}
	for v := uint16(wire.Oldest); v < wire.Newest; v++ {
		lengths[len(ofVersion(s, v).Append(nil, m))] = true
	}
	return lengths
}

// ofVersion returns s as a build has it that speaks nothing above version v.
func ofVersion[M any](s *wire.Messages[M], v uint16) *wire.Messages[M] {
	of := *s
	of.Version = v
	return &of
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

// Golden checks the frames of the samples with Frozen.
func Golden[M any](t T, s *wire.Messages[M], samples []M) {
	t.Helper()
	frames := make([][]byte, len(samples))
	for i, m := range samples {
		frames[i] = s.Append(nil, m)
	}
	Frozen(t, frames, func(version uint16, frame []byte) ([]byte, error) {
		m, err := s.Decode(frame)
		if err != nil {
			return nil, err
		}
		return ofVersion(s, version).Append(nil, m), nil
	})
}

// FreezeVariable is the environment variable with which Frozen writes the file of the newest
// version.
const FreezeVariable = "PEERAGE_FREEZE"

// Frozen compares the frames of a package's samples with those in testdata/wire-N.txt, where N
// is the newest version: the frames of a version that a release speaks never change. For each
// version that this build speaks, again decodes each frame of its file, and encodes the message
// as that version does: the result must be the frame.
func Frozen(t T, frames [][]byte, again func(version uint16, frame []byte) ([]byte, error)) {
	t.Helper()
	if os.Getenv(FreezeVariable) != "" {
		writeFrozen(t, frames)
	}
	for v := uint16(wire.Oldest); v <= wire.Newest; v++ {
		frozen := readFrozen(t, v)
		if v == wire.Newest && !slices.EqualFunc(frozen, frames, bytes.Equal) {
			t.Errorf("the frames of the samples are not those of %s: if a format has changed, see docs/HACKING.md", frozenName(v))
		}
		for i, frame := range frozen {
			if got, err := again(v, frame); err != nil || !bytes.Equal(got, frame) {
				t.Errorf("%s: frame %d\n%x comes back as\n%x, %v", frozenName(v), i+1, frame, got, err)
			}
		}
	}
}

func frozenName(version uint16) string {
	return filepath.Join("testdata", fmt.Sprintf("wire-%d.txt", version))
}

// writeFrozen writes the frames of the newest version, one a line in hexadecimal digits.
func writeFrozen(t T, frames [][]byte) {
	t.Helper()
	var text bytes.Buffer
	for _, frame := range frames {
		fmt.Fprintf(&text, "%x\n", frame)
	}
	name := frozenName(wire.Newest)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text.Bytes(), 0o644)); err != nil {
		t.Errorf("%v", err)
	}
}

// readFrozen returns the frames of a version.
func readFrozen(t T, version uint16) (frames [][]byte) {
	t.Helper()
	text, err := os.ReadFile(frozenName(version))
	if err != nil {
		t.Errorf("%v: %s=1 writes the file", err, FreezeVariable)
	}
	for line := range bytes.Lines(text) {
		frame, err := hex.DecodeString(string(bytes.TrimSpace(line)))
		if err != nil {
			t.Errorf("%s: %v", frozenName(version), err)
		}
		frames = append(frames, frame)
	}
	return frames
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
