package wiretest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
)

// recorder is a T that notes what fails. Fatalf does not end the caller, which is the last
// that it calls.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

// report is the message of the tests, of kind 1.
type report struct {
	Count uint32
	Name  string
}

const nameMax = 8

func codeReport(m *report, c *wire.Coder) {
	wire.Uvarint(c, &m.Count)
	c.String("name", &m.Name, nameMax)
}

func messages() *wire.Messages[*report] {
	return &wire.Messages[*report]{
		Kind: func(*report) byte { return 1 },
		Code: codeReport,
		New:  []func() *report{nil, func() *report { return &report{} }},
	}
}

func samples() []*report { return []*report{{Count: 300, Name: "a"}} }

func TestRightMessagesPass(t *testing.T) {
	Check(t, messages(), samples())
	Golden(t, messages(), samples())
}

// Each mistake in a protocol, or in its samples, fails with a text that names it.
func TestMistakesAreFound(t *testing.T) {
	for want, change := range map[string]func(*wire.Messages[*report]){
		"comes back as": func(s *wire.Messages[*report]) { // a field that is forgotten
			s.Code = func(m *report, c *wire.Coder) { wire.Uvarint(c, &m.Count) }
		},
		"3 of 5 bytes decode to": func(s *wire.Messages[*report]) { // a cut frame that has defaults
			s.Code = func(m *report, c *wire.Coder) {
				if wire.Uvarint(c, &m.Count); !c.Reading() || c.Left() > 0 {
					c.String("name", &m.Name, nameMax)
				}
			}
		},
		"of a later version comes back as": func(s *wire.Messages[*report]) { // trailing bytes that are an error
			s.Code = func(m *report, c *wire.Coder) {
				if codeReport(m, c); c.Left() > 0 {
					c.Fail(errors.New("trailing bytes"))
				}
			}
		},
		"kind 2: exists: true, has a sample: false": func(s *wire.Messages[*report]) {
			s.New = append(s.New, func() *report { return &report{} })
		},
		"the blank message of kind 2 is of kind 1": func(s *wire.Messages[*report]) {
			s.New = append(s.New, func() *report { return &report{} })
		},
		"kind 1: exists: false, has a sample: true": func(s *wire.Messages[*report]) { s.New = nil },
		"is encoded differently behind other bytes": func(s *wire.Messages[*report]) {
			calls := uint32(0)
			s.Code = func(m *report, c *wire.Coder) {
				if !c.Reading() {
					calls++
					m = &report{Count: m.Count + calls, Name: m.Name}
				}
				codeReport(m, c)
			}
		},
	} {
		s := messages()
		change(s)
		r := &recorder{}
		Check(r, s, samples())
		if all := strings.Join(r.failures, "\n"); !strings.Contains(all, want) {
			t.Errorf("Check does not find %q, but\n%.600s", want, all)
		}
	}
}

// A corrupted frame may decode to a message that its own frame does not carry in full.
func TestLossesBehindACorruptedByteAreFound(t *testing.T) {
	s := messages()
	s.Code = func(m *report, c *wire.Coder) {
		if !c.Reading() {
			m = &report{Count: min(m.Count, 300), Name: m.Name}
		}
		codeReport(m, c)
	}
	r := &recorder{}
	Check(r, s, samples())
	if len(r.failures) == 0 {
		t.Error("Check finds nothing")
	}
}

func TestGoldenFailsOnOtherBytes(t *testing.T) {
	t.Setenv(FreezeVariable, "")
	r := &recorder{}
	Golden(r, messages(), append(samples(), &report{}))
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "docs/HACKING.md") {
		t.Errorf("%q", r.failures)
	}
}

// A frozen frame must decode, and come back as it was.
func TestGoldenFailsOnFrozenFramesThatAreReadOtherwise(t *testing.T) {
	t.Setenv(FreezeVariable, "")
	for want, code := range map[string]func(m *report, c *wire.Coder){
		"wire: truncated": func(m *report, c *wire.Coder) {
			if codeReport(m, c); c.Reading() {
				codeReport(m, c)
			}
		},
		"comes back as": func(m *report, c *wire.Coder) {
			if codeReport(m, c); c.Reading() {
				m.Count++
			}
		},
	} {
		s, r := messages(), &recorder{}
		s.Code = code
		Golden(r, s, samples())
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], want) {
			t.Errorf("%q is not found, but %q", want, r.failures)
		}
	}
}

// The file of the newest version is written on demand only.
func TestFreezeWritesTheFile(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(FreezeVariable, "")
	r := &recorder{}
	if Golden(r, messages(), samples()); len(r.failures) != 2 || !strings.Contains(r.failures[0], FreezeVariable) {
		t.Errorf("without a file: %q", r.failures)
	}
	t.Setenv(FreezeVariable, "1")
	Golden(t, messages(), samples())
	t.Setenv(FreezeVariable, "")
	Golden(t, messages(), samples())
}

func FuzzReports(f *testing.F) {
	used := func(t *testing.T, m *report) {
		if len(m.Name) > nameMax {
			t.Errorf("a name of %d bytes is decoded", len(m.Name))
		}
	}
	Fuzz(f, messages(), samples(), used)
}
