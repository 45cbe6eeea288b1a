package main

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/peerage-go/peerage"
)

func TestVersionPrintsVersionAndCommit(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"version"}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if got := out.String(); !strings.HasPrefix(got, "peerage "+peerage.Version+" (commit ") || strings.Count(got, "\n") != 1 {
		t.Errorf("printed %q", got)
	}
	var short bytes.Buffer
	if code := run([]string{"--version"}, &short, &errs); code != exitOK || short.String() != out.String() {
		t.Errorf("--version: exit code %d, %q", code, short.String())
	}
	if code := run([]string{"version", "extra"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), `unexpected argument "extra"`) {
		t.Errorf("an argument: exit code %d, %q", code, errs.String())
	}
	for _, tc := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "commit not recorded"},
		{&debug.BuildInfo{}, "commit not recorded"},
		{&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}}, "commit abc"},
		{&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}}}, "commit abc, with uncommitted changes"},
	} {
		if got := buildCommit(tc.info); got != tc.want {
			t.Errorf("buildCommit = %q, want %q", got, tc.want)
		}
	}
}
