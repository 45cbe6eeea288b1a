package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/peerage-go/peerage/internal/wire"
)

// TestErrorsOfHandshakesHaveKinds checks how the end of a handshake is classified.
func TestErrorsOfHandshakesHaveKinds(t *testing.T) {
	for err, want := range map[error]Failure{
		errSecret: FailSecret, errSealed: FailSecret, errNotOurs: FailNotOurs, &malformedError{io.EOF}: FailMalformed,
		&wire.LimitError{}: FailOversize, os.ErrDeadlineExceeded: FailTimeout, context.DeadlineExceeded: FailTimeout, errBusy: FailBusy,
		io.EOF: FailHungUp, io.ErrUnexpectedEOF: FailHungUp, context.Canceled: FailHungUp, syscall.ECONNRESET: FailHungUp, syscall.EPIPE: FailHungUp,
		&tlsError{errors.New("bad")}: FailTLS, &tlsError{io.EOF}: FailHungUp, errors.New("any"): FailOther,
	} {
		if got := classify(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestStrangersLearnLittle checks that what is sent to a stranger names the kind of the refusal, and
// neither nodes, nor settings' values, nor the cluster.
func TestStrangersLearnLittle(t *testing.T) {
	texts := map[string]Failure{}
	for code := range failures {
		r := (&refusal{code: code, reason: "secret", setting: "lease"}).brief(wire.Versions{Oldest: 3, Newest: 4})
		if r.code != code || strings.Contains(r.reason, "secret") || r.reason == "" {
			t.Errorf("%v: %+v", code, r)
		}
		switch code {
		case FailVersion:
			if !strings.Contains(r.reason, "3") || !strings.Contains(r.reason, "4") {
				t.Errorf("versions are not named: %q", r.reason)
			}
		case FailSetting:
			if !strings.Contains(r.reason, "lease") {
				t.Errorf("the setting is not named: %q", r.reason)
			}
		}
		if other, ok := texts[r.reason]; ok && !strings.HasPrefix(r.reason, "refused") {
			t.Errorf("%v and %v are told apart by nothing: %q", other, code, r.reason)
		}
		texts[r.reason] = code
	}
}

// TestSettingsMustBeEqual checks which differences of two descriptions make two nodes incompatible.
func TestSettingsMustBeEqual(t *testing.T) {
	id := func(cluster string, newest uint16, settings ...string) *identity {
		out := &identity{cluster: cluster, settings: map[string]string{}}
		out.Versions.Newest = newest
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			out.settings[name] = value
		}
		return out
	}
	for name, c := range map[string]struct {
		here, there *identity
		want        Failure // FailOther for none
		setting     string
	}{
		"equal":                       {id("c", 1, "a=1", "b="), id("c", 1, "b=", "a=1"), FailOther, ""},
		"another cluster":             {id("c", 1), id("d", 1), FailCluster, ""},
		"another value":               {id("c", 1, "a=1", "b=2"), id("c", 1, "a=1", "b=3"), FailSetting, "b"},
		"the first that differs":      {id("c", 1, "a=1", "b=2"), id("c", 1, "a=2", "b=3"), FailSetting, "a"},
		"absent":                      {id("c", 1, "a=1"), id("c", 1), FailSetting, "a"},
		"absent there, but empty":     {id("c", 1, "a="), id("c", 1), FailSetting, "a"},
		"absent in another version":   {id("c", 1), id("c", 2, "a=1"), FailOther, ""},
		"another value, other newest": {id("c", 1, "a=1"), id("c", 2, "a=2"), FailSetting, "a"},
	} {
		for _, r := range []*refusal{incompatible(c.here, c.there), incompatible(c.there, c.here)} {
			if r == nil && c.want == FailOther {
				continue
			}
			if r == nil || r.code != c.want || r.setting != c.setting {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// TestTheFirstSettingByNameIsReported checks that of several settings that differ both sides report the first by
// name, each time: an operator compares the logs of two nodes.
func TestTheFirstSettingByNameIsReported(t *testing.T) {
	here, there := &identity{settings: map[string]string{}}, &identity{settings: map[string]string{}}
	for _, name := range []string{"e", "c", "b", "d", "f"} {
		here.settings[name], there.settings[name] = "1", "2"
	}
	here.settings["g"], there.settings["a"] = "1", "1"
	for range 20 {
		for _, r := range []*refusal{incompatible(here, there), incompatible(there, here)} {
			if r == nil || r.setting != "a" {
				t.Fatalf("reports %+v", r)
			}
		}
	}
}
