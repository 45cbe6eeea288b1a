package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

const (
	resolveSoon = time.Second
	resolveLate = 10 * time.Second
)

// resolveContacts sends the contact points to the loop: once if they are plain addresses,
// otherwise periodically, since names may resolve to new hosts.
func (n *Node) resolveContacts() {
	plain := n.cfg.JoinFunc == nil
	for _, p := range n.cfg.Join {
		plain = plain && isPlain(p)
	}
	if plain {
		n.inbox.Put(resolvedIn{slices.Clone(n.cfg.Join)})
		return
	}
	n.wg.Go(n.resolveLoop)
}

// resolving turns contact points into addresses, round after round. The goroutine
// of resolveLoop owns it.
type resolving struct {
	resolver gossip.Resolver
	// self is this node's advertised address.
	self string
	// warn logs a failure; causes holds each name's last cause, so that it is logged
	// once.
	warn   func(what, detail string)
	causes map[string]string
	// last holds the last resolved addresses of each name of the last round, listed the
	// last result of the function.
	last   map[string][]string
	listed []string
}

func (n *Node) newResolving() *resolving {
	return &resolving{
		resolver: n.cfg.Resolver, self: n.self.Addr,
		warn:   func(what, detail string) { n.recordEvent(what, 0, 0, detail, slog.LevelWarn) },
		causes: map[string]string{}, last: map[string][]string{},
	}
}

func (n *Node) resolveLoop() {
	timer := time.NewTimer(clock.Ahead(0))
	defer timer.Stop()
	r := n.newResolving()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-timer.C:
		}
		if addrs := r.resolveOnce(n.ctx, n.cfg.Join, n.cfg.JoinFunc); len(addrs) > 0 {
			n.inbox.Put(resolvedIn{addrs})
		}
		wait := resolveLate
		if n.View() == nil {
			wait = resolveSoon
		}
		timer.Reset(wait)
	}
}

// resolveOnce runs a round: it returns the addresses of the names. A name that does not resolve
// is logged and keeps its last addresses, so that a failed name server does not make a
// node lose its cluster.
func (r *resolving) resolveOnce(ctx context.Context, names []string, more func(context.Context) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	names = slices.Clone(names)
	if more != nil {
		extra, err := more(ctx)
		r.warnChanged("contact points cannot be listed", "", err)
		if err == nil {
			r.listed = extra
		}
		names = append(names, r.listed...)
	}
	var out []string
	last := map[string][]string{}
	for _, name := range names {
		addrs, err := r.lookUp(ctx, name)
		r.warnChanged("contact point does not resolve", name, err)
		if len(addrs) == 0 {
			addrs = r.last[name]
		}
		if !isPlain(name) {
			last[name] = addrs
		}
		out = append(out, addrs...)
	}
	r.last = last
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > contactPointsMax {
		r.warnChanged("contact points are too many", "", fmt.Errorf("%d; the first %d count", len(out), contactPointsMax))
		out = out[:contactPointsMax]
	}
	return out
}

// warnChanged logs a failure with a name, once per cause.
func (r *resolving) warnChanged(what, name string, err error) {
	cause := ""
	if err != nil {
		cause = strings.TrimPrefix(name+": "+err.Error(), ": ")
	}
	key := what + " " + name
	if cause == "" {
		delete(r.causes, key)
		return
	}
	if cause == r.causes[key] {
		return
	}
	if len(r.causes) > 2*contactPointsMax {
		clear(r.causes) // a JoinFunc may return ever new names
	}
	r.causes[key] = cause
	r.warn(what, cause)
}

// lookUp returns the addresses of a contact point. It may return some addresses together
// with an error about further ones.
func (r *resolving) lookUp(ctx context.Context, name string) ([]string, error) {
	if isPlain(name) {
		return []string{name}, nil
	}
	if srv, is := strings.CutPrefix(name, srvPrefix); is {
		return r.lookUpSRV(ctx, srv)
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
	return r.lookUpHost(ctx, host, port)
}

// lookUpHost returns the addresses of a host. If it has addresses of both families, only
// those of this node's own family count: otherwise one host would count as two contact
// points, of which one might never answer.
func (r *resolving) lookUpHost(ctx context.Context, host, port string) ([]string, error) {
	ips, err := r.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if own, err := netip.ParseAddrPort(r.self); err == nil {
		ips = ofFamily(ips, own.Addr().Unmap().Is4())
	}
	var out []string
	for _, ip := range ips {
		out = append(out, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return out, nil
}

// lookUpSRV returns the addresses of all targets, whatever their priority and
// weight: contact points are equals. The target "." means that there is none (RFC 2782).
func (r *resolving) lookUpSRV(ctx context.Context, name string) ([]string, error) {
	_, targets, failed := r.resolver.LookupSRV(ctx, "", "", name)
	var out []string
	for _, t := range targets {
		if t.Target == "." || t.Port == 0 {
			continue
		}
		addrs, err := r.lookUpHost(ctx, t.Target, strconv.Itoa(int(t.Port)))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("target %s: %w", t.Target, err))
		}
		out = append(out, addrs...)
	}
	return out, failed
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

// announceAddrs gives discovery the addresses to join: contact points, members, and former
// members.
func (n *Node) announceAddrs(l *loop) {
	if n.discovery == nil {
		return
	}
	var addrs []string
	for addr, p := range l.forming.points.byAddr {
		if p.listed || p.former {
			addrs = append(addrs, addr)
		}
	}
	if v := n.View(); v != nil {
		for i := range v.Members {
			addrs = append(addrs, v.Members[i].Addr)
		}
	}
	l.addFormer(&addrs)
	slices.Sort(addrs)
	n.discovery.SetAddrs(slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == n.self.Addr }))
}

// formerMax bounds the addresses of former members that are joined again.
const formerMax = 64

// addFormer adds the addresses of members of earlier views, so that a healed network
// reunites, and records the present ones for later.
func (l *loop) addFormer(addrs *[]string) {
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
