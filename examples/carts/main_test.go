package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/peerage-go/peerage"
)

// Two nodes; what is put into a cart at one is there at the other, also when the first
// has gone.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, atA, err := startNode(ctx, peerage.Config{Name: "a"})
	check(err)
	defer a.Close()
	b, atB, err := startNode(ctx, peerage.Config{Name: "b", Join: []string{a.Self().Addr}, BootstrapExpect: 1})
	check(err)
	defer b.Close()
	check(a.WaitReady(ctx))
	check(b.WaitReady(ctx))

	request := func(to http.Handler, method, path string) {
		w := httptest.NewRecorder()
		to.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	request(atA, "POST", "/carts/ada/tea")
	request(atB, "POST", "/carts/ada/tea")
	request(atB, "POST", "/carts/bob/milk")
	check(a.Shutdown(ctx))
	request(atB, "GET", "/carts/ada")
	request(atB, "GET", "/carts/bob")
	request(atB, "DELETE", "/carts/bob")
	request(atA, "GET", "/carts/ada")
	// Output:
	// 200 {"tea":1}
	// 200 {"tea":2}
	// 200 {"milk":1}
	// 200 {"tea":2}
	// 200 {"milk":1}
	// 200 {}
	// 503 sharding: node is stopping
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
