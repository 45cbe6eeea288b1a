package discovery

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// Any host that reaches the port can cause errors of memberlist. They are counted, and
// fill no disk. Lines at debug level are written in full.
func TestErrorsOfMemberlistAreCountedAndBounded(t *testing.T) {
	var book strings.Builder
	var st Counters
	log := bridgeLog(slog.New(slog.NewTextHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug})), &st)
	for i := range 3 * loglimit.Burst {
		log.Printf("[ERR] memberlist: discarding packet with unacceptable label %q: from=10.0.0.9:1", fmt.Sprint(i))
		log.Printf("[ERR] memberlist: Decrypt packet failed: No installed keys could decrypt the message from=10.0.0.9:1")
		log.Printf("[ERR] memberlist: Failed to send ack: no route from=10.0.0.9:1")
		log.Printf("[DEBUG] memberlist: Stream connection from=10.0.0.9:1")
	}
	if n := strings.Count(book.String(), "level=INFO"); n != loglimit.Burst {
		t.Errorf("%d lines of complaints, want %d", n, loglimit.Burst)
	}
	if n := strings.Count(book.String(), "level=DEBUG"); n != 3*loglimit.Burst {
		t.Errorf("%d lines of debugging, want %d", n, 3*loglimit.Burst)
	}
	if n, m := st.PacketsNotOurs.Load(), st.Undecryptable.Load(); n != 3*loglimit.Burst || m != 3*loglimit.Burst {
		t.Errorf("%d are counted as not ours, %d as undecryptable", n, m)
	}
}
