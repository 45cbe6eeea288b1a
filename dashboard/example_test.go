package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/dashboard"
)

// A service mounts the dashboard behind its own authentication.
func ExampleHandler() {
	node, err := peerage.New(peerage.Config{Name: "a"})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	mux := http.NewServeMux()
	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", dashboard.Handler(node, dashboard.Options{})))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/dashboard/state", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"text":"in no cluster"`))
	// Output: 200 true
}
