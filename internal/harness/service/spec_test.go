package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `
name: votes
command: [./votes, -http, "{http}"]
ready: /readyz
keeps: copies
copies: 3
counter: {keys: 16, add: "POST /votes/{key}", value: votes}
`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReadFindsTheProgramBesideItsFile(t *testing.T) {
	file := write(t, good)
	s, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Command[0] != filepath.Join(filepath.Dir(file), "votes") || s.Keys() != 16 || s.File != file || s.Copies != 3 {
		t.Errorf("%+v", s)
	}
}

func TestReadReportsAllMistakes(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(good, "name: votes", "", 1):             "name is missing",
		strings.Replace(good, `"{http}"`, "x", 1):               "no {http}",
		strings.Replace(good, "/readyz", "readyz", 1):           "ready is",
		strings.Replace(good, "keeps: copies", "keeps: it", 1):  "keeps is",
		strings.Replace(good, "copies: 3", "", 1):               "copies is 0",
		strings.Replace(good, "POST /votes/{key}", "/votes", 1): "counter.add is",
		strings.Replace(good, "keys: 16", "keys: 0", 1):         "keys is 0",
		strings.Replace(good, "ready:", "reddy:", 1):            "reddy",
		good + "register: {keys: 1, write: PUT, read: GET}\n":   "a counter or a register",
		"name: x\n":                "command is missing",
		strings.Repeat("#", 2<<20): "more than",
	} {
		if _, err := Read(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

func TestNumbersInAnswers(t *testing.T) {
	for _, c := range []struct {
		body, field string
		want        uint64
		ok          bool
	}{
		{`{"votes": 3}`, "votes", 3, true}, {"7\n", "", 7, true}, {`{"a": {"b": 12}}`, "a.b", 12, true},
		{`{"votes": "3"}`, "votes", 0, false}, {`{"votes": 3}`, "count", 0, false}, {`[]`, "a", 0, false}, {"oh", "", 0, false}, {`{"votes": -1}`, "votes", 0, false},
	} {
		if got, err := numberAt([]byte(c.body), c.field); got != c.want || (err == nil) != c.ok {
			t.Errorf("%s at %q: %d, %v", c.body, c.field, got, err)
		}
	}
}
