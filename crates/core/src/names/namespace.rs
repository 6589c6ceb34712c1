//! Namespaces: separate sets of names in one store.

use std::{fmt, str};

use bytes::Bytes;

/// The longest namespace in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 64;

/// Ends the namespace in a name. Requests contain no control characters, so no caller can write it.
const END: u8 = 0x1e;

/// A namespace: 1 to 64 bytes of `a-z A-Z 0-9 . _ -`, or the default namespace, which is empty.
///
/// Names of different namespaces never collide: the bytes of a name begin with its namespace
/// ([`super::Name`]), and so does everything that is derived from them. In the default namespace
/// the bytes are the name alone. A clone copies no bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Namespace {
    /// The namespace and [`END`]; empty for the default namespace.
    prefix: Bytes,
}

impl Namespace {
    /// The default namespace.
    pub const DEFAULT: Namespace = Namespace { prefix: Bytes::new() };

    /// Parses a namespace; the empty text is the default one. The error describes valid namespaces.
    pub fn parse(text: &[u8]) -> Result<Namespace, &'static str> {
        if text.is_empty() {
            return Ok(Namespace::DEFAULT);
        }
        let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        if text.len() > NAMESPACE_BYTES_MAX || !text.iter().all(is_valid) {
            return Err("must be 1 to 64 bytes of a-z, A-Z, 0-9, `.`, `_` and `-`");
        }
        Ok(Namespace { prefix: [text, &[END]].concat().into() })
    }

    /// Returns the namespace of a partition, and the rest of the partition.
    pub fn split(partition: &[u8]) -> (&[u8], &[u8]) {
        let (prefix, rest) = partition.split_at(prefix_length(partition));
        (prefix.strip_suffix(&[END]).unwrap_or_default(), rest)
    }

    /// Returns the namespace of a partition as text, for log lines; empty for the default
    /// namespace.
    pub fn text_of(partition: &[u8]) -> &str {
        str::from_utf8(Namespace::split(partition).0).unwrap_or_default()
    }

    /// Returns the bytes that a partition begins with because of its namespace, see
    /// [`Namespace::prefix`].
    pub fn prefix_of(partition: &[u8]) -> &[u8] {
        &partition[..prefix_length(partition)]
    }

    /// Whether the start of a partition, up to the end of a part, is only the prefix of a
    /// namespace. Compares one byte: no name contains the end of a namespace.
    pub(crate) fn is_prefix(start: &[u8]) -> bool {
        start.last().is_none_or(|byte| *byte == END)
    }

    /// Whether a partition is of this namespace.
    pub fn contains(&self, partition: &[u8]) -> bool {
        Namespace::prefix_of(partition) == self.prefix
    }

    /// Whether it is the default namespace.
    pub fn is_default(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Returns the namespace as text; empty for the default namespace.
    pub fn as_str(&self) -> &str {
        // `parse` has checked it.
        Namespace::text_of(&self.prefix)
    }

    /// Returns the bytes that all partitions of the namespace begin with, and no others; empty for
    /// the default namespace.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the length of the namespace at the start of a partition, with its end; 0 for the default
/// namespace.
pub(super) fn prefix_length(partition: &[u8]) -> usize {
    let start = &partition[..partition.len().min(NAMESPACE_BYTES_MAX + 1)];
    // Nearly all names are of the default namespace; a fold without an early exit compiles to SIMD.
    if start.iter().fold(true, |is_default, byte| is_default & (*byte != END)) {
        return 0;
    }
    start.iter().position(|byte| *byte == END).map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_bounds() {
        let longest = "x".repeat(NAMESPACE_BYTES_MAX);
        for text in ["", "acme", "a.b_c-D9", &longest] {
            let namespace = Namespace::parse(text.as_bytes()).expect(text);
            assert_eq!(namespace.as_str(), text);
            assert_eq!(namespace.is_default(), text.is_empty());
        }
        for text in ["*", "a b", "a/b", "a:b", "é", "a\x1e", "\x1e", &format!("{longest}x")] {
            assert!(Namespace::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_partition_is_split_at_the_end_of_its_namespace() {
        let longest = "x".repeat(NAMESPACE_BYTES_MAX);
        for (partition, namespace, rest) in [
            ("door", "", "door"),
            ("acme\x1edoor", "acme", "door"),
            ("acme\x1e", "acme", ""),
            ("", "", ""),
            (&format!("{longest}\x1edoor"), &longest, "door"),
            // Longer than a namespace: no partition that Tollgate writes.
            (&format!("{longest}x\x1edoor"), "", &format!("{longest}x\x1edoor")),
        ] {
            let split = Namespace::split(partition.as_bytes());
            assert_eq!(split, (namespace.as_bytes(), rest.as_bytes()), "{partition}");
        }
    }
}
