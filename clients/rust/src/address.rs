//! Keys for callers without a name: their addresses.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that identify a caller: one host usually owns a whole /64.
pub const IPV6_BITS: u32 = 64;

/// Returns the key of an address: `ip:192.0.2.7`, or the network of an IPv6 address,
/// `ip:2001:db8:1:2::/64`.
///
/// `ipv6_bits` is usually [`IPV6_BITS`]. With 128 or more each address has its own key. An
/// IPv4-mapped address counts as its IPv4 address.
///
/// ```
/// # use tollgate_client::{IPV6_BITS, address_key};
/// let key = |text: &str| address_key(text.parse().unwrap(), IPV6_BITS);
/// assert_eq!(key("2001:db8:1:2::7"), "ip:2001:db8:1:2::/64");
/// assert_eq!(key("::ffff:192.0.2.7"), "ip:192.0.2.7");
/// ```
pub fn address_key(address: IpAddr, ipv6_bits: u32) -> String {
    match address.to_canonical() {
        IpAddr::V6(address) if ipv6_bits < 128 => {
            let host = u128::MAX.checked_shr(ipv6_bits).unwrap_or_default();
            let network = Ipv6Addr::from_bits(address.to_bits() & !host);
            format!("ip:{network}/{ipv6_bits}")
        }
        address => format!("ip:{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j28_the_addresses_of_a_network_have_one_key() {
        let key = |text: &str, bits| address_key(text.parse().unwrap(), bits);
        for host in 1..=40_u32 {
            let address = format!("2001:db8:1:2:{host:x}::{host:x}");
            assert_eq!(key(&address, IPV6_BITS), "ip:2001:db8:1:2::/64");
        }
        assert_eq!(key("2001:db8:1:2fe::3", 56), "ip:2001:db8:1:200::/56");
        assert_eq!(key("2001:db8:1:2::3", 128), "ip:2001:db8:1:2::3");
        assert_eq!(key("2001:db8::", 0), "ip:::/0");
        assert_eq!(key("::ffff:192.0.2.7", 48), "ip:192.0.2.7");
        assert_eq!(key("192.0.2.7", 48), "ip:192.0.2.7");
    }
}
