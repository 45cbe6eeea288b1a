package membership

import (
	"time"
)

// Rejecting networks with real processes and CrashEvidence full: no process may run twice,
// even if a device on the path answers in another's name. rejections are the rules of the
// router against what a sends to b, in the language of nftables.
type rejection struct {
	name  string
	rules []string
	// oneWay leaves the direction from the minority to the majority alone, dropFirst lets
	// packets vanish before they are rejected.
	oneWay, dropFirst bool
}

const (
	resetTCP  = "meta l4proto tcp reject with tcp reset"
	resetSYNs = "tcp flags & (syn | ack) == syn reject with tcp reset"
	dropUDP   = "meta l4proto udp drop"
)

func rejections() []rejection {
	return []rejection{
		{name: "tcp reset both ways", rules: []string{resetTCP, "reject"}},
		{name: "tcp reset both ways, udp dropped", rules: []string{resetTCP, dropUDP}},
		{name: "tcp reset both ways, udp let through", rules: []string{resetTCP}},
		{name: "tcp reset one way", rules: []string{resetTCP, "reject"}, oneWay: true},
		{name: "drop, then tcp reset", rules: []string{resetTCP, "reject"}, dropFirst: true},
		{name: "tcp reset of new connections", rules: []string{resetSYNs, dropUDP}},
		{name: "prohibited by icmp", rules: []string{"reject with icmp admin-prohibited"}},
		{name: "host unreachable by icmp", rules: []string{"reject with icmp host-unreachable"}},
		{name: "port unreachable by icmp", rules: []string{"reject with icmp port-unreachable"}},
	}
}

// rejectedOnTheWay: the majority continues, and nothing runs twice (the lab compares leases
// and views at its end), for all answers of the router, in any name.
func rejectedOnTheWay(l *lab, ps []*proc, r rejection) {
	minority, majority := ps[:2], ps[2:]
	ways := func(rules []string) (out []string) {
		for _, rule := range rules {
			if !r.oneWay {
				out = append(out, "ip saddr "+ips(minority)+" ip daddr "+ips(majority)+" "+rule)
			}
			out = append(out, "ip saddr "+ips(majority)+" ip daddr "+ips(minority)+" "+rule)
		}
		return out
	}
	if r.dropFirst {
		l.wall(ways([]string{"drop"})...)
		pass(1500 * time.Millisecond)
	}
	l.wall(ways(r.rules)...)
	l.until(lately, "the majority holds leases, or all do", func() bool {
		return majority[0].leased() && majority[1].leased() && majority[2].leased()
	})
	pass(5 * time.Second)
	l.wall()
	l.t.Logf("one cluster %v after the healing", l.settled(ps...))
}

// rejectedInFull: the documented case. Firewalls on the hosts themselves reject TCP and
// UDP, which cannot be distinguished from dead processes: both sides may continue, and
// one yields when they meet.
func rejectedInFull(l *lab, ps []*proc) {
	l.parted = true
	a, b := ps[:2], ps[2:]
	for _, side := range [][2][]*proc{{a, b}, {b, a}} {
		for _, p := range side[0] {
			l.firewall(p, "ip saddr "+ips(side[1])+" "+resetTCP, "ip saddr "+ips(side[1])+" reject")
		}
	}
	l.t.Logf("the larger side goes on after %v", l.settled(b...))
	pass(5 * time.Second)
	l.t.Logf("the smaller side goes on: %v", settled(a))
	for _, p := range ps {
		l.firewall(p)
	}
	l.t.Logf("one cluster %v after the healing", l.settled(ps...))
}

// firewall replaces the rules of the firewall on a process's own host.
func (l *lab) firewall(p *proc, rules ...string) {
	l.t.Helper()
	script := "table inet own\ndelete table inet own\ntable inet own {\nchain c {\ntype filter hook input priority 0;\n"
	for _, r := range rules {
		script += r + "\n"
	}
	if err := p.host.tool("nft", script+"}\n}"); err != nil {
		l.t.Fatal(err)
	}
}
