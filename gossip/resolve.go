package gossip

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	resolveSoon = time.Second
	resolveLate = 10 * time.Second
)

// resolveContacts tells the loop the contact points: once, when they are plain
// addresses, and otherwise again and again, since names come to mean other hosts.
func (n *Node) resolveContacts() {
	plain := n.cfg.ContactFunc == nil
	for _, p := range n.cfg.ContactPoints {
		plain = plain && isPlain(p)
	}
	if plain {
		n.inbox.put(resolvedIn{slices.Clone(n.cfg.ContactPoints)})
		return
	}
	n.wg.Go(n.resolveLoop)
}

func isPlain(addr string) bool {
	_, err := netip.ParseAddrPort(addr)
	return err == nil
}

func (n *Node) resolveLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	// Each name's last cause, so that an operator reads it once.
	causes := map[string]string{}
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-timer.C:
		}
		if addrs := n.resolveOnce(causes); len(addrs) > 0 {
			n.inbox.put(resolvedIn{addrs})
		}
		wait := resolveLate
		if n.View() == nil {
			wait = resolveSoon
		}
		timer.Reset(wait)
	}
}

// resolveOnce returns what resolves now. A name that does not resolve is warned of
// and left out: the next round tries again.
func (n *Node) resolveOnce(causes map[string]string) []string {
	failed := func(what, name string, err error) {
		cause := ""
		if err != nil {
			cause = err.Error()
		}
		if cause != causes[name] && cause != "" {
			n.record(what, 0, 0, strings.TrimPrefix(name+": "+cause, ": "), true)
		}
		causes[name] = cause
	}
	ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
	defer cancel()
	names := slices.Clone(n.cfg.ContactPoints)
	if n.cfg.ContactFunc != nil {
		more, err := n.cfg.ContactFunc(ctx)
		failed("contact points cannot be listed", "", err)
		names = append(names, more...)
	}
	var out []string
	for _, name := range names {
		addrs, err := resolveName(ctx, name, n.self.Addr)
		failed("contact point does not resolve", name, err)
		out = append(out, addrs...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// resolveName returns the addresses that a host:port stands for. Where a name has
// addresses of both families, those of the family that this node advertises count:
// the two would be taken for two contact points, and one of them might never answer.
func resolveName(ctx context.Context, addr, self string) ([]string, error) {
	if isPlain(addr) {
		return []string{addr}, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if own, err := netip.ParseAddrPort(self); err == nil {
		ips = ofFamily(ips, own.Addr().Unmap().Is4())
	}
	var out []string
	for _, ip := range ips {
		out = append(out, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return out, nil
}

// ofFamily returns the addresses of one family, or all if there are none of it.
func ofFamily(ips []netip.Addr, v4 bool) []netip.Addr {
	var out []netip.Addr
	for _, ip := range ips {
		if ip.Unmap().Is4() == v4 {
			out = append(out, ip)
		}
	}
	if len(out) == 0 {
		return ips
	}
	return out
}

// announce names to discovery the addresses to join: contact points, members,
// and those that were members a while ago.
func (n *Node) announce(l *loop) {
	if n.discovery == nil {
		return
	}
	var addrs []string
	for addr, p := range l.forming.points {
		if p.listed {
			addrs = append(addrs, addr)
		}
	}
	if v := n.View(); v != nil {
		for i := range v.Members {
			addrs = append(addrs, v.Members[i].Addr)
		}
	}
	l.former(&addrs)
	slices.Sort(addrs)
	n.discovery.setAddrs(slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == n.self.Addr }))
}

// formerMax bounds the addresses of former members that are joined again.
const formerMax = 64

// former adds the addresses of members of earlier views, so that a healed
// network finds together, and remembers the present ones for later.
func (l *loop) former(addrs *[]string) {
	for _, a := range *addrs {
		if !slices.Contains(l.addrs, a) {
			l.addrs = append(l.addrs, a)
		}
	}
	if extra := len(l.addrs) - formerMax - len(*addrs); extra > 0 {
		l.addrs = slices.Delete(l.addrs, 0, extra)
	}
	*addrs = append(*addrs, l.addrs...)
}
