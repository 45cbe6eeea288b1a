package script

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/sim/seed"
)

func TestScriptsAreReadAsTheyWereWritten(t *testing.T) {
	policies := map[string]bool{}
	for n := range uint64(400) {
		s := &Script{Comment: "S3: two\nlines\n", Seed: n, Config: seed.Draw(&seed.Options{Seed: n}), ViewsOnly: n%2 == 0}
		if n%3 > 0 {
			s.Faults = []Fault{}
		}
		if n%3 == 2 {
			s.Faults = []Fault{{1, 1500 * time.Microsecond, "crash"}, {7, time.Second, "strike at: move begun"}}
		}
		text := s.String()
		got, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", n, err, text)
		}
		if got.String() != text || !reflect.DeepEqual(got.Config, s.Config) || !reflect.DeepEqual(got.Faults, s.Faults) || got.ViewsOnly != s.ViewsOnly || got.Seed != n {
			t.Fatalf("seed %d: read as\n%s\nwant\n%s", n, got, text)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "Policy ") {
				policies[strings.Fields(line)[1]] = true
			}
		}
	}
	if len(policies) != 3 {
		t.Errorf("only policies %v were written", policies)
	}
}

func TestWrongScriptsAreRefusedWithTheirLine(t *testing.T) {
	good := (&Script{Seed: 1, Config: seed.Draw(&seed.Options{Seed: 1})}).String()
	for line, want := range map[string]string{
		"seed x": `"seed x"`, "Colour 3": "no such setting", "Ending never": "none of", "Policy luck": "partition policy",
		"Lease fast": "invalid duration", "fault 1": "a number, a time and a kind", "fault a 1s crash": "invalid syntax",
	} {
		if _, err := Parse(good + line + "\n"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := Parse("seed 3\n"); err == nil {
		t.Error("a script without nodes was read")
	}
}
