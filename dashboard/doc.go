// Package dashboard serves a web page that shows a whole cluster from any of its nodes:
// members by seniority with leases and links, the shards of each type and where they run,
// entities, rates and latencies, failovers and moves with the time of each step, events,
// and the replicated data.
//
//	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", dashboard.Handler(node, dashboard.Options{})))
//
// The page is embedded, loads nothing from other hosts, and is kept current by server-sent
// events. While at least one page is open, the node queries all members about once a second,
// and after each event. Without open pages the handler costs nothing but a subscription.
//
// The package does not listen anywhere and asks for no password. The page shows names,
// addresses, ids of entities and keys: put your own authentication in front. It is
// read-only unless an option of Options allows more.
package dashboard
