package guard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"recalld/memory"
)

// places are the names that the server answers to and the pages that may call.
type places struct {
	hosts   []string // lower case, without port
	origins []string // lower case scheme://host[:port]
}

func newPlaces(hosts, origins []string) (places, error) {
	p := places{hosts: []string{"localhost", "127.0.0.1", "::1"}}
	for _, h := range hosts {
		name := strings.ToLower(h)
		if name == "" || strings.ContainsAny(name, "*/@ ") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return places{}, &memory.FieldError{Field: "--allow-host", Problem: memory.Shape(h) + " is not the name of a host", Limit: "a name or an address, without scheme, port or *", Next: "write it as in memory.example"}
		}
		p.hosts = append(p.hosts, name)
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || usualPort(u) || strings.Contains(u.Host, "*") || u.Scheme+"://"+u.Host != strings.TrimSuffix(o, "/") {
			return places{}, &memory.FieldError{Field: "--allow-origin", Problem: memory.Shape(o) + " is not an origin", Limit: "http or https, a host, and a port where it is not the usual one; no *, not null", Next: "write it as in https://console.example"}
		}
		p.origins = append(p.origins, strings.ToLower(u.Scheme+"://"+u.Host))
	}
	return p, nil
}

// usualPort reports whether an origin names the port that browsers leave out.
func usualPort(u *url.URL) bool {
	return u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
}

// host reports whether the Host of a request is the server's. A page that lets
// its own name point here (DNS rebinding) sends that name. An address must be
// the one that the connection came in on.
func (p places) host(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if slices.Contains(p.hosts, host) {
		return true
	}
	asked, err := netip.ParseAddr(host)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && asked.Unmap() == at.Addr().Unmap()
}

// origin reports whether the page that sent a request may. It returns the
// origin when that is another one than the server's own; programs send none.
func (p places) origin(r *http.Request) (foreign string, ok bool) {
	values := r.Header.Values("Origin")
	switch len(values) {
	case 0:
		return "", true
	case 1:
	default:
		return "", false
	}
	origin := strings.ToLower(values[0])
	if slices.Contains(p.origins, origin) {
		return values[0], true
	}
	scheme, host, found := strings.Cut(origin, "://")
	return "", found && (scheme == "http" || scheme == "https") && host == strings.ToLower(r.Host)
}
