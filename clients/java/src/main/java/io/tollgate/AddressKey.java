package io.tollgate;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;

/**
 * Derives the keys of callers without a name from their addresses.
 *
 * <p>All addresses of an IPv6 network share a key, since one host usually owns a whole /64. An
 * IPv4-mapped address counts as its IPv4 address.
 */
public final class AddressKey {
  /** Bits of an IPv6 address that identify a caller by default. */
  public static final int IPV6_BITS = 64;

  private static final int ALL_BITS = 128;
  private static final int GROUPS = 8;

  private AddressKey() {}

  /** Returns the key of an address; IPv6 addresses are grouped by /64. */
  public static String of(String address) {
    return of(address, IPV6_BITS);
  }

  /**
   * Returns the key of an address: {@code ip:192.0.2.7}, or {@code ip:2001:db8:1:2::/64} with 64
   * bits. With 128 bits, each address has its own key. A text that is not an address is appended to
   * {@code ip:} unchanged. Fails with IllegalArgumentException unless the bits are 1 to 128.
   */
  public static String of(String address, int ipv6Bits) {
    if (ipv6Bits < 1 || ipv6Bits > ALL_BITS) {
      throw new IllegalArgumentException("ipv6Bits is " + ipv6Bits + ", expected 1 to 128");
    }
    int zone = address.indexOf('%');
    String plain = zone < 0 ? address : address.substring(0, zone);
    // Any other text would be looked up in the DNS.
    if (!plain.contains(":")) {
      return "ip:" + address;
    }
    InetAddress parsed;
    try {
      parsed = InetAddress.getByName(plain);
    } catch (UnknownHostException noAddress) {
      return "ip:" + address;
    }
    if (parsed instanceof Inet4Address) {
      return "ip:" + parsed.getHostAddress();
    }
    String network = text(groups(parsed.getAddress(), ipv6Bits));
    return ipv6Bits == ALL_BITS ? "ip:" + network : "ip:" + network + "/" + ipv6Bits;
  }

  /** Returns the groups of 16 bits of a network. */
  private static int[] groups(byte[] address, int bits) {
    int[] groups = new int[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
      int kept = Math.max(0, Math.min(16, bits - 16 * i));
      int group = (address[2 * i] & 0xff) << 8 | (address[2 * i + 1] & 0xff);
      groups[i] = group & (0xffff << (16 - kept));
    }
    return groups;
  }

  /** Formats the groups as in RFC 5952, which omits the first longest run of at least two zeros. */
  private static String text(int[] groups) {
    int start = -1;
    int length = 1;
    for (int i = 0; i < GROUPS; i++) {
      int end = i;
      while (end < GROUPS && groups[end] == 0) {
        end++;
      }
      if (end - i > length) {
        start = i;
        length = end - i;
      }
    }
    if (start < 0) {
      return joined(groups, 0, GROUPS);
    }
    return joined(groups, 0, start) + "::" + joined(groups, start + length, GROUPS);
  }

  private static String joined(int[] groups, int from, int to) {
    List<String> parts = new ArrayList<>();
    for (int i = from; i < to; i++) {
      parts.add(Integer.toHexString(groups[i]));
    }
    return String.join(":", parts);
  }
}
