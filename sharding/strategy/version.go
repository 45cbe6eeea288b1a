package strategy

import (
	"cmp"
	"strings"
)

// CompareVersions compares two releases of the application: -1, 0 or 1 if a is older than,
// equal to, or newer than b. Versions are compared part by part; any character but a letter
// or digit separates parts. Two numbers compare by value, all other parts as text, and a
// number precedes text. The version with more parts is newer, so "" is the oldest, and
// "1.10" is newer than "1.9". A pre-release is no special case.
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a = nextPart(a)
		y, b = nextPart(b)
		if c := comparePart(x, y); c != 0 {
			return c
		}
	}
	return 0
}

func nextPart(v string) (part, rest string) {
	v = strings.TrimLeftFunc(v, isSeparator)
	if i := strings.IndexFunc(v, isSeparator); i >= 0 {
		return v[:i], v[i:]
	}
	return v, ""
}

func isSeparator(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
}

func comparePart(x, y string) int {
	if x == "" || y == "" {
		return cmp.Compare(len(x), len(y))
	}
	nx, ny := isNumber(x), isNumber(y)
	switch {
	case nx && ny:
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	case nx:
		return -1
	case ny:
		return 1
	}
	return cmp.Compare(x, y)
}

func isNumber(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}
