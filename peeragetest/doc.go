// Package peeragetest runs a cluster in one test: several nodes of a service in one
// process, on a network in memory, with faults by call.
//
//	func TestCartsSurviveACrash(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			c := peeragetest.Start(t, 3, startNode) // the service's own function
//			putTea(t, c.Node("a").Service)
//			c.Node("a").Crash()
//			c.WaitUntil(time.Second, "the cart answers at b", func() bool { ... })
//			c.AssertSingleInstance()
//		})
//	}
//
// Start calls a function of the service for each node. It gets the settings of the node,
// and returns the node with any value that the test needs from it, Node.Service: a
// sharding.Region, an http.Handler, a struct of several. So a test runs the code that
// production runs, with all messages encoded as between processes (Config.Strict).
//
// # Virtual and real time
//
// In a bubble of testing/synctest, all time is virtual: a wait costs only the work that the
// nodes do meanwhile, and a bound such as "within 500 ms" does not depend on the speed of
// the machine. Outside a bubble the same test runs in real time. Call Start inside the
// bubble. Everything that a node's service uses must then work in a bubble: no real
// sockets, and no goroutine that outlives the test.
//
// # Faults
//
// Node.Crash, Restart, Stop, Pause, Resume, Cut and Slow, Cluster.Split and Heal, and
// Drain of the peerage.Node itself. Cluster.Network offers the rest: loss, jitter,
// duplication, firewalls, loss of power.
//
// # Names
//
// Nodes are called a, b, c, and so on. These names are their contact points, as host names
// are in production, and Config.Resolver resolves them without DNS.
//
// # Waits and assertions
//
// Wait methods check a condition until it holds or a bound is exceeded; in virtual time
// they let the time pass. A failure describes each node as it is then. When the test ends
// and has failed, for whatever reason, the last log lines of each node are logged. Methods
// that can end the test (all that wait) must be called from the goroutine of the test.
//
// # Seeds
//
// One seed feeds the network, the nodes and Cluster.Rand. It is random, and logged. The
// environment variable PEERAGETEST_SEED sets it. It repeats what was drawn, but not the
// order in which the runtime schedules goroutines.
package peeragetest
