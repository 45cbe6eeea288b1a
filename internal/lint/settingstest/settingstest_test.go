package settingstest

import (
	"testing"
	"time"
)

type sample struct {
	Wait, Never time.Duration
	Size        int
	Ratio       float64
	Name        string
	Func        func()
}

const samplePage = "# Page\n\n## p.Other\n\n| `Wait` | `time.Duration` | 9 s | time |\n\n## p.S\n\n" +
	"| setting | type | default |\n|---|---|---|\n" +
	"| [`Wait`](#p-wait) | `time.Duration` | 5 s (`DefaultWait`); negative: never | time |\n" +
	"| `Never` | `time.Duration` | never | time |\n" +
	"| `Size` | `int` | 64 MiB | bytes |\n| `Ratio` | `float64` | 1.25 | ratio |\n| `Name` | `string` | \"a b\" | |\n" +
	"| `Func` | `func()` | no calls | |\n| `Gone` | `int` | 3 | |\n\n## p.Last\n\n| `Size` | `int` | 1 | |\n"

// Equal defaults are accepted, each other one is reported, and so is a section without rows.
func TestDefaultsAreCompared(t *testing.T) {
	right := sample{Wait: 5 * time.Second, Size: 64 << 20, Ratio: 1.25, Name: "a b"}
	if n, wrong := compareRows(samplePage, "p.S", right, nil); n != 5 || len(wrong) != 0 {
		t.Errorf("%d compared, %q", n, wrong)
	}
	other := sample{Wait: 4 * time.Second, Never: 1, Size: 64, Ratio: 1, Name: "ab"}
	if n, wrong := compareRows(samplePage, "p.S", other, nil); n != 5 || len(wrong) != 5 {
		t.Errorf("%d compared, %q", n, wrong)
	}
	if n, wrong := compareRows(samplePage, "p.S", other, []string{"Wait", "Never", "Size"}); n != 2 || len(wrong) != 2 {
		t.Errorf("%d compared, %q", n, wrong)
	}
	if n, _ := compareRows(samplePage, "p.None", right, nil); n != 0 {
		t.Errorf("%d compared of a section that is missing", n)
	}
}
