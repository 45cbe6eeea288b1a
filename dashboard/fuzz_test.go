package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequests sends a handler several requests, a line each: method, path with query, body; a
// line that begins with "+" has the header of actions. The handler answers each with a status of
// its own, guards every page, writes valid JSON, and acts only on requests with the header.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"GET / \nGET /page.js \nGET /draw.js \nGET /page.css \nGET /state?type=type-00 ",
		"GET /find?type=type-00&q=a \nGET /find?type=none&q=%00 \nGET /find?type=type-00&q=" + strings.Repeat("x", textMax+1) + " ",
		"GET /explain?type=type-00&shard=3 \nGET /explain?type=type-00&shard=-1 \nGET /explain?type=type-00&id=ada ",
		"GET /keys?role=&prefix=a \nHEAD / \nOPTIONS /place \nPOST /state ",
		`POST /place {"type":"type-00","shard":3,"node":"n1"}` + "\n+" + `POST /place {"type":"type-00","shard":3,"node":"n1"}`,
		`+POST /passivate {"type":"type-00","id":"ada"}` + "\n" + `+POST /passivate {"type":` + "\n+POST /drain x",
		"GET /../page/index.html \nGET //stream \nGET /%2e%2e/doc.go \nCONNECT / ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script string) {
		made := invent(2, 1, 4)
		h := newHub(made, Options{Streams: 2, AllowPlace: true, AllowPassivate: true, Logger: discarded()})
		pages := h.routes()
		for line := range strings.Lines(script) {
			line, acts := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "+")
			method, rest, _ := strings.Cut(line, " ")
			path, body, _ := strings.Cut(rest, " ")
			at, err := url.ParseRequestURI(path)
			if err != nil || strings.Contains(at.Path, "stream") {
				continue
			}
			r, err := http.NewRequest(method, at.String(), strings.NewReader(body))
			if err != nil {
				continue
			}
			if acts {
				r.Header.Set(actionHeader, "1")
			}
			placed, ended := made.placed, len(made.ended)
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			checkAnswer(t, line, w)
			if changed := len(made.ended) != ended || len(made.placed) != len(placed); changed && (!acts || method != http.MethodPost) {
				t.Errorf("%q has an effect", line)
			}
		}
	})
}

// checkAnswer checks what every answer has.
func checkAnswer(t *testing.T, line string, w *httptest.ResponseRecorder) {
	t.Helper()
	may := []int{http.StatusOK, http.StatusNoContent, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusBadRequest,
		http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusServiceUnavailable}
	head := w.Result().Header
	switch {
	case !slices.Contains(may, w.Code):
		t.Errorf("%q: status %d", line, w.Code)
	case head.Get("Content-Security-Policy") != policy || head.Get("X-Content-Type-Options") != "nosniff":
		t.Errorf("%q: header %v", line, head)
	case head.Get("Content-Type") == "application/json" && w.Body.Len() > 0 && !json.Valid(bytes.TrimSpace(w.Body.Bytes())):
		t.Errorf("%q: not JSON: %s", line, w.Body)
	}
}
