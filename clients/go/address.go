package tollgate

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"google.golang.org/grpc/peer"
)

// IPv6Bits is the number of bits of an IPv6 address that identify a caller by default: one host
// usually owns a whole /64.
const IPv6Bits = 64

// AddressKey returns the key of an address, such as "ip:192.0.2.7". The addresses of an IPv6
// network of the given length have one key, such as "ip:2001:db8:1:2::/64"; with 128 bits each
// address has its own. An IPv4-mapped address counts as its IPv4 address. A text that is no
// address follows "ip:" unchanged. Lengths outside of 1 to 128 mean [IPv6Bits].
func AddressKey(address string, ipv6Bits int) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return "ip:" + address
	}
	parsed = parsed.Unmap().WithZone("")
	if ipv6Bits < 1 || ipv6Bits > 128 {
		ipv6Bits = IPv6Bits
	}
	if parsed.Is4() || ipv6Bits == 128 {
		return "ip:" + parsed.String()
	}
	return "ip:" + netip.PrefixFrom(parsed, ipv6Bits).Masked().String()
}

// ByAddress returns the key function of [Policy.Middleware] that names the caller by the address
// of its connection, see [AddressKey]. Behind a proxy that is the address of the proxy.
func ByAddress(ipv6Bits int) func(r *http.Request) string {
	return func(r *http.Request) string { return AddressKey(hostOf(r.RemoteAddr), ipv6Bits) }
}

// ByPeer is [ByAddress] for the interceptors of gRPC servers.
func ByPeer(ipv6Bits int) func(ctx context.Context, method string) string {
	return func(ctx context.Context, _ string) string {
		caller, known := peer.FromContext(ctx)
		if !known || caller.Addr == nil {
			return ""
		}
		return AddressKey(hostOf(caller.Addr.String()), ipv6Bits)
	}
}

// hostOf returns the host of "host:port", or the text if it has another form.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
