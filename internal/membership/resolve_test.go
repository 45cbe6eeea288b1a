package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// nameServer is a Resolver whose records a test changes.
type nameServer struct {
	mu    sync.Mutex
	hosts map[string][]string
	srv   map[string][]string // "target:port"
	down  error
}

func (s *nameServer) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	var out []netip.Addr
	for _, ip := range s.hosts[host] {
		out = append(out, netip.MustParseAddr(ip))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

func (s *nameServer) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return "", nil, s.down
	}
	var out []*net.SRV
	for i, t := range s.srv[name] {
		var port uint16
		target, text, _ := strings.Cut(t, ":")
		_, _ = fmt.Sscan(text, &port)
		out = append(out, &net.SRV{Target: target, Port: port, Priority: uint16(i)})
	}
	if len(out) == 0 {
		return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return name, out, nil
}

// set runs f with the records in hand.
func (s *nameServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func TestContactPointsResolve(t *testing.T) {
	dns := &nameServer{
		hosts: map[string][]string{"v4": {"10.0.0.2", "10.0.0.1"}, "both": {"10.0.0.3", "fd00::3"}, "v6": {"fd00::6"}, "mapped": {"::ffff:10.0.0.9"}},
		srv:   map[string][]string{"_p._tcp.x": {"v4:71", "both:72", "gone:73"}, "none": {".:0"}, "noport": {"v4:0"}},
	}
	for _, test := range []struct {
		name, self, want, err string
	}{
		{"10.9.9.9:1", "10.0.0.1:1", "10.9.9.9:1", ""},
		{"v4:7", "10.0.0.1:1", "10.0.0.1:7 10.0.0.2:7", ""},
		{"both:7", "10.0.0.1:1", "10.0.0.3:7", ""},
		{"both:7", "[fd00::1]:1", "[fd00::3]:7", ""},
		{"v6:7", "10.0.0.1:1", "[fd00::6]:7", ""},
		{"mapped:7", "10.0.0.1:1", "10.0.0.9:7", ""},
		{"gone:7", "10.0.0.1:1", "", "gone:7: lookup gone: no such host"},
		{"v4", "10.0.0.1:1", "", "missing port"},
		{"srv:_p._tcp.x", "10.0.0.1:1", "10.0.0.1:71 10.0.0.2:71 10.0.0.3:72", "target gone: lookup gone: no such host"},
		{"srv:none", "10.0.0.1:1", "", ""},
		{"srv:noport", "10.0.0.1:1", "", ""},
		{"srv:gone", "10.0.0.1:1", "", "no such host"},
	} {
		warned := ""
		r := &resolving{resolver: dns, self: test.self, causes: map[string]string{}, last: map[string][]string{},
			warn: func(_, detail string) { warned += detail }}
		for range 2 {
			if got := strings.Join(r.resolveOnce(context.Background(), []string{test.name}, nil), " "); got != test.want {
				t.Errorf("%s from %s stands for %q, want %q", test.name, test.self, got, test.want)
			}
		}
		if !strings.Contains(warned, test.err) || test.err == "" && warned != "" || strings.Count(warned, "no such host") > 1 {
			t.Errorf("%s: the operator is told %q, want once %q", test.name, warned, test.err)
		}
	}
}

func TestANameServerThatIsDownChangesNothing(t *testing.T) {
	dns := &nameServer{hosts: map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}}}
	warned := 0
	r := &resolving{resolver: dns, self: "10.0.0.9:1", causes: map[string]string{}, last: map[string][]string{},
		warn: func(string, string) { warned++ }}
	names := []string{"a:1", "b:1"}
	look := func(want ...string) {
		t.Helper()
		if got := r.resolveOnce(context.Background(), names, nil); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	look("10.0.0.1:1", "10.0.0.2:1")
	dns.set(func() { delete(dns.hosts, "b") })
	look("10.0.0.1:1", "10.0.0.2:1")
	dns.set(func() { dns.down = errors.New("server misbehaving") })
	look("10.0.0.1:1", "10.0.0.2:1")
	look("10.0.0.1:1", "10.0.0.2:1")
	dns.set(func() { dns.down, dns.hosts["b"] = nil, []string{"10.0.0.3"} })
	look("10.0.0.1:1", "10.0.0.3:1")
	if warned != 3 {
		t.Errorf("%d warnings, want one of a and two of b", warned)
	}
}

func TestAFunctionThatFailsChangesNothing(t *testing.T) {
	warned := 0
	r := &resolving{self: "10.0.0.9:1", causes: map[string]string{}, last: map[string][]string{},
		warn: func(string, string) { warned++ }}
	for _, err := range []error{nil, errors.New("no API"), errors.New("no API"), nil} {
		more := func(context.Context) ([]string, error) {
			if err != nil {
				return nil, err
			}
			return []string{"10.0.0.1:1"}, nil
		}
		if got := r.resolveOnce(context.Background(), []string{"10.0.0.2:1"}, more); len(got) != 2 {
			t.Errorf("after %v: %v", err, got)
		}
	}
	if warned != 1 {
		t.Errorf("%d warnings", warned)
	}
}

func TestTooManyContactPointsAreCut(t *testing.T) {
	dns := &nameServer{hosts: map[string][]string{}}
	for i := range 2000 {
		dns.hosts["all"] = append(dns.hosts["all"], fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	warned := 0
	r := &resolving{resolver: dns, self: "10.0.0.9:1", causes: map[string]string{}, last: map[string][]string{},
		warn: func(string, string) { warned++ }}
	if got := r.resolveOnce(context.Background(), []string{"all:1"}, nil); len(got) != contactPointsMax || warned != 1 {
		t.Errorf("%d contact points and %d warnings", len(got), warned)
	}
}

// named returns settings with contact points by name.
func named(dns gossip.Resolver, expect int, points ...string) Config {
	cfg := testConfig()
	cfg.Join, cfg.Resolver, cfg.BootstrapExpect = points, dns, expect
	return cfg
}

func TestFormingByNames(t *testing.T) {
	for point, dns := range map[string]*nameServer{
		"peers.example:7101":        {hosts: map[string][]string{"peers.example": {"10.0.0.3", "10.0.0.1", "10.0.0.2"}}},
		"srv:_peerage._tcp.example": {hosts: map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "c": {"10.0.0.3"}}, srv: map[string][]string{"_peerage._tcp.example": {"b:7101", "a:7101", "c:7101"}}},
	} {
		t.Run(strings.ReplaceAll(point, ":", " "), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				for _, a := range memAddrs(3) {
					c.add(a, named(dns, 3, point))
				}
				t.Logf("one view after %v", c.settled(10*time.Second, c.nodes...))
			})
		})
	}
}

// Records appear with their hosts: names are looked up at every round, with and without a
// view.
func TestNamesAreLookedUpAgain(t *testing.T) {
	inBubble(t, func(c *cluster) {
		const point, name = "srv:_peerage._tcp.example", "_peerage._tcp.example"
		dns := &nameServer{hosts: map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "c": {"10.0.0.3"}}, srv: map[string][]string{}}
		a, b := c.add("10.0.0.1:7101", named(dns, 2, point)), c.add("10.0.0.2:7101", named(dns, 2, point))
		pass(5 * time.Second)
		if a.View() != nil || b.View() != nil {
			t.Fatal("formed without contact points")
		}
		dns.set(func() { dns.srv[name] = []string{"a:7101"} })
		pass(5 * time.Second)
		if a.View() != nil || b.View() != nil {
			t.Fatal("formed of one, 2 are expected")
		}
		dns.set(func() { dns.srv[name] = []string{"a:7101", "b:7101"} })
		t.Logf("one view %v after the second record", c.settled(10*time.Second, a, b))
		dns.set(func() { dns.srv[name] = []string{"c:7101"} })
		c.until(20*time.Second, "looked up again with a view", func() bool {
			return slices.ContainsFunc(a.Status().Contact, func(x ContactStatus) bool { return x.Addr == "10.0.0.3:7101" })
		})
	})
}
