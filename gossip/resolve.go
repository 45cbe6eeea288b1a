package gossip

import (
	"context"
	"net"
	"net/netip"
	"slices"
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
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-timer.C:
		}
		if addrs := n.resolveOnce(); len(addrs) > 0 {
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
func (n *Node) resolveOnce() []string {
	ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
	defer cancel()
	names := slices.Clone(n.cfg.ContactPoints)
	if n.cfg.ContactFunc != nil {
		more, err := n.cfg.ContactFunc(ctx)
		if err != nil && n.View() == nil {
			n.record("contact points cannot be listed", 0, 0, err.Error(), true)
		}
		names = append(names, more...)
	}
	var out []string
	for _, name := range names {
		addrs, err := resolveName(ctx, name)
		if err != nil && n.View() == nil {
			n.record("contact point does not resolve", 0, 0, name+": "+err.Error(), true)
		}
		out = append(out, addrs...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func resolveName(ctx context.Context, addr string) ([]string, error) {
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
	var out []string
	for _, ip := range ips {
		out = append(out, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return out, nil
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
