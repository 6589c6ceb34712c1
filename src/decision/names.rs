//! Names from requests, parsed once, and the only builder of Redis keys.

use std::{fmt, str};

use bytes::Bytes;

/// The longest name in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Separates the parts of a compound value. Names contain no control characters, so two different
/// compounds are never equal.
pub const SEPARATOR: u8 = 0x1f;

/// A name: 1 to 256 bytes of UTF-8 without control characters.
///
/// It is a slice of the request message. State that outlives the call must store a copy
/// ([`Name::detached`] or the bytes), because the slice keeps the whole message in memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Bytes);

impl Name {
    /// Parses a name. The error describes valid names.
    pub fn parse(bytes: Bytes) -> Result<Name, &'static str> {
        match bytes.len() {
            0 => return Err("is required: 1 to 256 bytes of UTF-8"),
            1..=NAME_BYTES_MAX => {}
            _ => return Err("must be at most 256 bytes long"),
        }
        check_text(&bytes)?;
        Ok(Name(bytes))
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of the name, without a copy.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// A copy of the name in its own memory, for state that outlives the call.
    pub fn detached(&self) -> Name {
        Name(Bytes::copy_from_slice(&self.0))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // `parse` has checked it. The empty default cannot occur; it would match no name.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
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

/// Appends the key `prefix:{capability:name}:part` to `buffer`.
///
/// The braces are the Redis hash tag, so all keys of one name share a hash slot. `%` and `}` in the
/// name are percent-encoded. The first `}` therefore ends the name, no two names build the same
/// key, and names spread over the slots.
pub fn push_key(buffer: &mut Vec<u8>, prefix: &str, capability: &str, name: &[u8], part: &[&[u8]]) {
    push_stem(buffer, prefix, capability, name);
    for bytes in part {
        buffer.extend_from_slice(bytes);
    }
}

/// Appends the part of a key that all keys of a name have in common: `prefix:{capability:name}:`.
pub(super) fn push_stem(buffer: &mut Vec<u8>, prefix: &str, capability: &str, name: &[u8]) {
    buffer.extend_from_slice(prefix.as_bytes());
    buffer.extend_from_slice(b":{");
    buffer.extend_from_slice(capability.as_bytes());
    buffer.push(b':');
    // Nearly all names need no encoding; a fold without an early exit compiles to SIMD.
    if name.iter().fold(true, |is_plain, byte| is_plain & (*byte != b'%') & (*byte != b'}')) {
        buffer.extend_from_slice(name);
    } else {
        for &byte in name {
            match byte {
                b'%' => buffer.extend_from_slice(b"%25"),
                b'}' => buffer.extend_from_slice(b"%7D"),
                _ => buffer.push(byte),
            }
        }
    }
    buffer.extend_from_slice(b"}:");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, part: &str) -> String {
        let mut buffer = Vec::new();
        push_key(&mut buffer, "t", "admission", name.as_bytes(), &[part.as_bytes()]);
        String::from_utf8(buffer).expect("keys of text are text")
    }

    #[test]
    fn names_that_look_like_keys_build_keys_of_their_own() {
        let names = ["a", "a}", "a%7D", "{", "}", "a}b", "*", "a:b", "a}:task:x", "%", "%25"];
        for (i, one) in names.iter().enumerate() {
            for other in &names[i + 1..] {
                assert_ne!(key(one, "task:x"), key(other, "task:x"));
            }
        }
        assert_ne!(key("a", "task:x}:leases"), key("a}:task:x", "leases"));
    }

    #[test]
    fn the_hash_tag_is_the_whole_name() {
        assert_eq!(key("a}b", "leases"), "t:{admission:a%7Db}:leases");
    }

    #[test]
    fn names_have_bounds() {
        let parse = |text: &str| Name::parse(Bytes::copy_from_slice(text.as_bytes())).is_ok();
        assert!(parse("*") && parse("{") && parse("a b") && parse("é") && parse(&"x".repeat(256)));
        assert!(!parse("") && !parse(&"x".repeat(257)) && !parse("a\n") && !parse("\u{85}"));
        assert!(Name::parse(Bytes::from_static(b"\xff")).is_err());
    }
}
