//! Names of counters: the policy of a domain, and the key of a descriptor.

use std::fmt::Write;

use bytes::Bytes;
use ring::digest::{SHA256, digest};

use super::settings::Counting;
use crate::{
    names::{NAME_BYTES_MAX, Name},
    rate::TOGETHER,
};

/// Prefix of the policy of a domain that counts each descriptor on its own.
const PREFIX: &str = "envoy/";
/// Prefix of the key of a descriptor whose text is not a valid name.
const HASHED: &str = "sha256:";

/// Returns the policy of a domain, `envoy/DOMAIN` or `envoy-all/DOMAIN`, which Ban, Unban,
/// ResetRate, ListBans and WatchRates accept. Fails if the domain is too long or has control
/// characters.
pub fn policy_name(domain: &[u8], counting: Counting) -> Result<Name, &'static str> {
    let prefix = match counting {
        Counting::Each | Counting::Reports => PREFIX,
        Counting::AllOrNothing => TOGETHER,
    };
    Name::parse([prefix.as_bytes(), domain].concat().into())
}

/// Returns the key of a descriptor: its keys and values, joined by `_`. A key that is longer than a
/// name or has control characters is replaced by `sha256:` and its hash.
pub fn counter_name<'e>(entries: impl Iterator<Item = (&'e [u8], &'e [u8])>) -> Name {
    let mut joined = Vec::with_capacity(64);
    for (key, value) in entries {
        joined.extend_from_slice(key);
        joined.push(b'_');
        joined.extend_from_slice(value);
        joined.push(b'_');
    }
    joined.pop();
    let is_short = joined.len() <= NAME_BYTES_MAX && !joined.starts_with(HASHED.as_bytes());
    let joined = Bytes::from(joined);
    match Name::parse(joined.clone()) {
        Ok(name) if is_short => name,
        _ => hashed(&joined),
    }
}

/// Returns the hashed name of a key that is not a valid name.
#[allow(clippy::expect_used, reason = "71 bytes of ASCII are a name")]
fn hashed(key: &[u8]) -> Name {
    let mut text = HASHED.to_owned();
    for byte in digest(&SHA256, key).as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Name::parse(text.into()).expect("a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(entries: &[(&str, &str)]) -> String {
        let entries = entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        counter_name(entries).as_str().to_owned()
    }

    #[test]
    fn keys_are_readable_and_long_ones_are_hashed() {
        assert_eq!(name(&[("remote_address", "192.0.2.7")]), "remote_address_192.0.2.7");
        assert_eq!(name(&[("a", "b"), ("c", "")]), "a_b_c_");
        assert_eq!(name(&[("", "")]), "_");
        let long = "x".repeat(300);
        for key in [&long, "a\n", "sha256:0"] {
            let hashed = name(&[(key, "v")]);
            assert_eq!((hashed.len(), &hashed[..7]), (71, "sha256:"));
        }
        assert_eq!(name(&[]).len(), 71);
        assert_ne!(name(&[(&long, "1")]), name(&[(&long, "2")]));
        assert!(policy_name("d".repeat(251).as_bytes(), Counting::Each).is_err());
    }
}
