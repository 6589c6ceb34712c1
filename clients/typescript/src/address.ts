import { isIPv4, isIPv6 } from "node:net";

/** Bits of an IPv6 address that identify a caller by default: one host usually owns a whole /64. */
export const IPV6_PREFIX = 64;

/**
 * Returns the key of an address: `ip:192.0.2.7`, or the network of an IPv6 address,
 * `ip:2001:db8:1:2::/64`. An IPv4-mapped address counts as its IPv4 address. A text that is not an
 * address is appended to `ip:` unchanged.
 * @param ipv6Prefix bits of the network, 1 to 128; with 128, each address has its own key
 */
export function addressKey(address: string, ipv6Prefix = IPV6_PREFIX): string {
  if (!Number.isInteger(ipv6Prefix) || ipv6Prefix < 1 || ipv6Prefix > 128) {
    throw new RangeError(`ipv6Prefix is ${String(ipv6Prefix)}; expected 1 to 128`);
  }
  const [plain = ""] = address.split("%");
  if (isIPv4(plain) || !isIPv6(plain)) return `ip:${address}`;
  const groups = parse(plain);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const bytes = groups.slice(6).flatMap((group) => [group >> 8, group & 0xff]);
    return `ip:${bytes.join(".")}`;
  }
  const network = groups.map((group, index) => {
    const bits = Math.min(Math.max(ipv6Prefix - 16 * index, 0), 16);
    return group & (0xffff << (16 - bits));
  });
  const text = canonical(network.map((group) => group.toString(16)).join(":"));
  return ipv6Prefix === 128 ? `ip:${text}` : `ip:${text}/${String(ipv6Prefix)}`;
}

/** Returns the shortest text of an IPv6 address (RFC 5952), with hexadecimal groups only. */
function canonical(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}

/** Returns the eight groups of an IPv6 address. */
function parse(address: string): number[] {
  const [head = "", tail] = canonical(address).split("::");
  const numbers = (text: string): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const [first, last] = [numbers(head), numbers(tail ?? "")];
  return [...first, ...new Array<number>(8 - first.length - last.length).fill(0), ...last];
}
