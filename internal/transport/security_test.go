package transport

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// TestSecurityPage holds SECURITY.md to the code: the limits are those in force,
// and the tests exist.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{}.withDefaults()
	for what, limit := range map[string]string{
		"StrangersMax":         fmt.Sprint(c.StrangersMax),
		"from one source (Str": fmt.Sprint(c.StrangersPerSourceMax),
		"HandshakeTimeout":     c.HandshakeTimeout.String(),
		"a hello or answer":    fmt.Sprint(helloBytesMax),
		"AcceptedMax":          fmt.Sprint(c.AcceptedMax),
		"of peers (PeersMax":   fmt.Sprint(c.PeersMax),
		"remembered (Forg":     fmt.Sprint(c.ForgottenMax),
		"bound to keys":        fmt.Sprint(c.PeersMax + c.ForgottenMax),
		"newest incarnation":   fmt.Sprint(c.PeersMax + c.ForgottenMax),
		"HalfFrameBytesMax":    fmt.Sprint(c.HalfFrameBytesMax),
		"bulk frame":           fmt.Sprintf("%d, %d, %d", c.Control.FrameBytesMax, c.Message.FrameBytesMax, c.Bulk.FrameBytesMax),
		"queued for one":       fmt.Sprintf("%d, %d, %d", c.Control.QueueBytesMax, c.Message.QueueBytesMax, c.Bulk.QueueBytesMax),
		"PacketsMax":           fmt.Sprint(c.PacketsMax),
		"StreamsMax":           fmt.Sprint(c.StreamsMax),
		"UnackedTimeout":       unackedDefault.String(),
		"certificate file":     fmt.Sprint(certificateBytesMax),
	} {
		row := regexp.MustCompile(`(?m)^\|[^|]*` + regexp.QuoteMeta(what) + `[^|]*\| ` + limit + ` \|$`)
		if !row.Match(page) {
			t.Errorf("no row says that %q has the limit %s", what, limit)
		}
	}
	if want := fmt.Sprintf("of each kind at most one per %d s", loglimit.FoldPeriod/time.Second); !strings.Contains(string(page), want) {
		t.Errorf("the page does not say %q", want)
	}
	tests := testsOfTheProject(t)
	for _, name := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1) {
		if !tests[string(name[1])] {
			t.Errorf("there is no %s", name[1])
		}
	}
}

func testsOfTheProject(t *testing.T) map[string]bool {
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
