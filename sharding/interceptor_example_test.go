package sharding_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/sharding"
)

// An interceptor of a gateway puts the caller's token into a header, one of the home checks it.
func ExampleInterceptor() {
	type tokenKey struct{}
	authorize := sharding.Interceptor{
		Send: func(ctx context.Context, _ *sharding.Call, next func(context.Context) error) error {
			if token, ok := ctx.Value(tokenKey{}).(string); ok {
				ctx = sharding.WithHeaders(ctx, map[string]string{"token": token})
			}
			return next(ctx)
		},
		Handle: func(ctx *sharding.Context, _ *sharding.Call, next func(context.Context) error) error {
			if ctx.Header("token") != "open sesame" {
				return errors.New("not allowed")
			}
			return next(ctx)
		},
	}
	accounts, ctx, done := alone(sharding.Type[Deposit, Balance]{
		Name: "account", Interceptors: []sharding.Interceptor{authorize},
		New: func(string) sharding.Entity[Deposit, Balance] { return &Account{} },
	})
	defer done()
	fmt.Println(accounts.Ask(ctx, "alice", Deposit{100}))
	fmt.Println(accounts.Ask(context.WithValue(ctx, tokenKey{}, "open sesame"), "alice", Deposit{100}))
	// Output:
	// {0} not allowed
	// {100} <nil>
}

// A Call names the entity and the operation, and has the request and the response.
func ExampleCall() {
	logged := sharding.Interceptor{
		Send: func(ctx context.Context, c *sharding.Call, next func(context.Context) error) error {
			err := next(ctx)
			fmt.Println(c.Op, c.Type, c.ID, c.Request(), c.Response(), err)
			return err
		},
	}
	accounts, ctx, done := alone(sharding.Type[Deposit, Balance]{
		Name: "account", Interceptors: []sharding.Interceptor{logged},
		New: func(string) sharding.Entity[Deposit, Balance] { return &Account{} },
	})
	defer done()
	_, _ = accounts.Ask(ctx, "alice", Deposit{100})
	_, _ = accounts.Ask(ctx, "alice", Deposit{-500})
	// Output:
	// ask account alice {100} {100} <nil>
	// ask account alice {-500} {0} not enough
}

// A handler reads the headers that a caller attached to its message.
func ExampleWithHeaders() {
	greeters, ctx, done := alone(sharding.Type[string, string]{
		Name: "greeter",
		New: func(string) sharding.Entity[string, string] {
			return sharding.Func(func(ctx *sharding.Context, name string) (string, error) {
				if ctx.Header("language") == "fr" {
					return "bonjour " + name, nil
				}
				return "hello " + name, nil
			})
		},
	})
	defer done()
	fmt.Println(greeters.Ask(ctx, "door", "Alice"))
	fmt.Println(greeters.Ask(sharding.WithHeaders(ctx, map[string]string{"language": "fr"}), "door", "Alice"))
	// Output:
	// hello Alice <nil>
	// bonjour Alice <nil>
}
