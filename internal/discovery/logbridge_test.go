package discovery

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// Any host that reaches the port can cause errors of memberlist. They are counted, and each kind
// is one line a minute. Lines at debug level are written in full.
func TestErrorsOfMemberlistAreCountedAndFolded(t *testing.T) {
	synctest.Test(t, testFolding)
}

func testFolding(t *testing.T) {
	const lines = 60
	var book strings.Builder
	var st Counters
	log := bridgeLog(slog.New(slog.NewTextHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug})), &st)
	for i := range lines {
		log.Printf("[ERR] memberlist: discarding packet with unacceptable label %q: from=10.0.0.9:1", fmt.Sprint(i))
		log.Printf("[ERR] memberlist: Decrypt packet failed: No installed keys could decrypt the message from=10.0.0.9:1")
		log.Printf("[ERR] memberlist: Failed to send ack: no route from=10.0.0.9:1")
		log.Printf("[DEBUG] memberlist: Stream connection from=10.0.0.9:1")
	}
	if n := strings.Count(book.String(), "level=INFO"); n != 3 {
		t.Errorf("%d lines of complaints, want one of each kind:\n%s", n, book.String())
	}
	<-time.After(loglimit.FoldPeriod)
	log.Printf("[ERR] memberlist: Failed to send ack: no route from=10.0.0.8:2")
	if want := fmt.Sprint("from=10.0.0.8:2\" lines_folded=", lines-1); !strings.Contains(book.String(), want) {
		t.Errorf("a minute later, no line with %q:\n%s", want, book.String())
	}
	if n := strings.Count(book.String(), "level=DEBUG"); n != lines {
		t.Errorf("%d lines of debugging, want %d", n, lines)
	}
	if n, m := st.PacketsNotOurs.Load(), st.Undecryptable.Load(); n != lines || m != lines {
		t.Errorf("%d are counted as not ours, %d as undecryptable", n, m)
	}
}
