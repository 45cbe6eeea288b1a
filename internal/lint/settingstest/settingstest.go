// Package settingstest compares the defaults of settings with docs/CONFIGURATION.md, which is
// made from their comments.
package settingstest

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	row    = regexp.MustCompile("^\\| \\[?`([A-Za-z]+)`[^|]*\\| `[^|]*` \\| ([^|]*) \\|")
	number = regexp.MustCompile(`^([0-9][0-9,]*(?:\.[0-9]+)?)(?: (ms|s|min|h|days|KiB|MiB|GiB)\b)?`)
)

// units are the factors of units. Durations count nanoseconds.
var units = map[string]float64{
	"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	"ms": float64(time.Millisecond), "s": float64(time.Second), "min": float64(time.Minute), "h": float64(time.Hour), "days": 24 * float64(time.Hour),
}

// CompareDefaults compares the numbers and texts of a struct, with its defaults filled in,
// with the defaults that the page states under title. Rows of other settings are skipped,
// and those of except, whose defaults are set elsewhere. At least one must remain.
func CompareDefaults(t testing.TB, page, title string, filled any, except ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	compared, wrong := compareRows(string(text), title, filled, except)
	for _, w := range wrong {
		t.Errorf("%s: %s", title, w)
	}
	if compared == 0 {
		t.Errorf("%s has no row of %s: the comparison is broken", page, title)
	}
}

// compareRows returns how many rows it compared, and a sentence for each that is wrong.
func compareRows(page, title string, filled any, except []string) (compared int, wrong []string) {
	_, section, _ := strings.Cut(page, "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	v := reflect.ValueOf(filled)
	for _, line := range strings.Split(section, "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil || slices.Contains(except, m[1]) {
			continue
		}
		f := v.FieldByName(m[1])
		is, ok := valueOf(f)
		if !ok {
			continue
		}
		compared++
		if states := stated(m[2]); states != is {
			wrong = append(wrong, "the page states "+m[2]+" for "+m[1]+", the code has "+is)
		}
	}
	return compared, wrong
}

// valueOf returns a number or a text in a form that can be compared.
func valueOf(f reflect.Value) (string, bool) {
	switch {
	case !f.IsValid():
	case f.CanInt():
		return format(float64(f.Int())), true
	case f.CanUint():
		return format(float64(f.Uint())), true
	case f.CanFloat():
		return format(f.Float()), true
	case f.Kind() == reflect.String && f.Len() == 0:
		return "0", true
	case f.Kind() == reflect.String:
		return strconv.Quote(f.String()), true
	}
	return "", false
}

// stated returns the default of a row in the same form. A default in words is a zero value.
func stated(cell string) string {
	cell = strings.Trim(cell, "`")
	if m := number.FindStringSubmatch(cell); m != nil {
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		if err == nil {
			return format(n * units[m[2]])
		}
	}
	if strings.HasPrefix(cell, `"`) && cell != `""` {
		return cell
	}
	return "0"
}

func format(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
