//! Names from requests, parsed once.

mod namespace;

use std::{fmt, str};

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

pub use namespace::{NAMESPACE_BYTES_MAX, Namespace};

use namespace::prefix_length;

/// The longest name in bytes, without its namespace.
pub const NAME_BYTES_MAX: usize = 256;

/// Separates the parts of a compound value. Names contain no control characters, so two different
/// compounds are never equal.
pub const SEPARATOR: u8 = 0x1f;

/// A name: 1 to 256 bytes of UTF-8 without control characters, in a namespace.
///
/// The name of a partition (a pool, a policy, a sequence, a lock, a sku, or a key without a policy)
/// carries the namespace of its caller: its bytes are `NAMESPACE \x1e LOCAL`, and in the default
/// namespace `LOCAL` alone. Callers see and send the local name only. Other names, such as those of
/// devices and tasks, are parts of a partition, and have no namespace.
///
/// It is a slice of the request message, or a buffer of its own with the namespace. State that
/// outlives the call must store a copy ([`Name::detached`] or the bytes), because the slice keeps
/// the whole message in memory.
///
/// Serialized as its bytes, and checked as [`Name::stored`] when deserialized.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes")]
pub struct Name(Bytes);

impl TryFrom<Bytes> for Name {
    type Error = &'static str;

    fn try_from(bytes: Bytes) -> Result<Name, &'static str> {
        Name::stored(bytes)
    }
}

impl Name {
    /// Parses a name as callers write it. The error describes valid names.
    pub fn parse(bytes: Bytes) -> Result<Name, &'static str> {
        match bytes.len() {
            0 => return Err("is required: 1 to 256 bytes of UTF-8"),
            1..=NAME_BYTES_MAX => {}
            _ => return Err("must be at most 256 bytes long"),
        }
        check_text(&bytes)?;
        Ok(Name(bytes))
    }

    /// Parses a stored name, which carries its namespace.
    pub fn stored(bytes: Bytes) -> Result<Name, &'static str> {
        let (namespace, local) = Namespace::split(&bytes);
        if namespace.is_empty() {
            return Name::parse(bytes);
        }
        Namespace::parse(namespace)?;
        Name::parse(bytes.slice_ref(local))?;
        Ok(Name(bytes))
    }

    /// Returns the same local name in this namespace.
    pub fn within(&self, namespace: &Namespace) -> Name {
        if namespace.is_default() {
            Name(self.local_bytes())
        } else {
            Name([namespace.prefix(), self.local()].concat().into())
        }
    }

    /// Returns the bytes of the name, with its namespace.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes of the name, with its namespace, without a copy.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Returns the bytes of the namespace with its end, see [`Namespace::prefix`], and of the local
    /// name: the name that callers see.
    pub fn split(&self) -> (&[u8], &[u8]) {
        self.0.split_at(prefix_length(&self.0))
    }

    /// Returns the bytes of the namespace with its end.
    pub fn prefix(&self) -> &[u8] {
        self.split().0
    }

    /// Returns the bytes of the local name.
    pub fn local(&self) -> &[u8] {
        self.split().1
    }

    /// Returns the bytes of the name, with its namespace. Costs no reference count, unlike
    /// [`Name::to_bytes`].
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Returns the bytes of the local name. Costs no reference count, unlike [`Name::local_bytes`].
    pub fn into_local_bytes(mut self) -> Bytes {
        let length = prefix_length(&self.0);
        self.0.advance(length);
        self.0
    }

    /// Returns the bytes of the local name, without a copy.
    pub fn local_bytes(&self) -> Bytes {
        self.0.slice(prefix_length(&self.0)..)
    }

    /// Returns a copy of the name in its own memory, for state that outlives the call.
    pub fn detached(&self) -> Name {
        Name(Bytes::copy_from_slice(&self.0))
    }

    /// Returns the namespace as text; empty for the default namespace.
    pub fn namespace(&self) -> &str {
        Namespace::text_of(&self.0)
    }

    /// Returns the local name as text.
    pub fn as_str(&self) -> &str {
        // `parse` has checked it. The empty default cannot occur; it would match no name.
        str::from_utf8(self.local()).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    /// Writes the namespace before the local name: `acme/"door"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            "" => {}
            namespace => write!(f, "{namespace}/")?,
        }
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    /// Writes the local name, because error messages are for callers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Checks a text of a request: valid UTF-8, no control characters.
pub fn check_text(bytes: &[u8]) -> Result<(), &'static str> {
    // The common case is printable ASCII. A fold without an early exit compiles to SIMD; `all` does
    // not.
    if bytes.iter().fold(true, |is_plain, byte| is_plain & (0x20..0x7f).contains(byte)) {
        return Ok(());
    }
    let text = str::from_utf8(bytes).map_err(|_| "must be valid UTF-8")?;
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<Name, &'static str> {
        Name::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn names_have_bounds() {
        let parse = |text: &str| name(text).is_ok();
        assert!(parse("*") && parse("{") && parse("a b") && parse("é") && parse(&"x".repeat(256)));
        assert!(!parse("") && !parse(&"x".repeat(257)) && !parse("a\n") && !parse("\u{85}"));
        assert!(!parse("acme\x1ea") && !parse("\x1ea") && !parse("a\x1e"));
        assert!(Name::parse(Bytes::from_static(b"\xff")).is_err());
    }

    #[test]
    fn a_name_is_distinct_in_each_namespace_and_displays_the_same() {
        let acme = Namespace::parse(b"acme").expect("a namespace");
        let alone = name("door").expect("a name");
        let of_acme = alone.within(&acme);
        assert_ne!(alone, of_acme);
        assert_eq!(of_acme.as_bytes(), b"acme\x1edoor");
        assert_eq!((of_acme.prefix(), of_acme.local()), (acme.prefix(), &b"door"[..]));
        assert_eq!((of_acme.as_str(), of_acme.to_string()), ("door", "door".to_owned()));
        assert_eq!(format!("{of_acme:?} {alone:?}"), "acme/\"door\" \"door\"");
        assert_eq!(of_acme.within(&Namespace::DEFAULT), alone);
        assert_eq!(alone.within(&Namespace::DEFAULT), alone);
        assert_eq!((alone.prefix(), alone.local()), (&b""[..], &b"door"[..]));
    }

    #[test]
    fn only_stored_names_are_read_back() {
        let stored = |text: &str| Name::stored(Bytes::copy_from_slice(text.as_bytes()));
        let longest = format!("{}\x1e{}", "n".repeat(64), "x".repeat(256));
        for text in ["door", "acme\x1edoor", &longest] {
            assert_eq!(stored(text).expect(text).as_bytes(), text.as_bytes());
        }
        let too_long = format!("acme\x1e{}", "x".repeat(257));
        for text in ["", "acme\x1e", "\x1edoor", "a b\x1edoor", "a\x1eb\x1ec", &too_long] {
            assert!(stored(text).is_err(), "{text:?}");
        }
    }
}
