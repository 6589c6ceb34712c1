//! Builds keys, and parses them.

use tollgate_core::push_key;

/// Builds keys under a prefix.
#[derive(Debug, Clone)]
pub(in super::super) struct KeyBuilder {
    prefix: String,
}

/// The parts of a key.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Named {
    /// The capability, such as `admission`.
    pub(in super::super) capability: Vec<u8>,
    /// The partition's name, decoded.
    pub(in super::super) name: Vec<u8>,
    /// The rest of the key after the hash tag.
    pub(in super::super) part: Vec<u8>,
}

impl KeyBuilder {
    pub(in super::super) fn new(prefix: &str) -> KeyBuilder {
        KeyBuilder { prefix: prefix.to_owned() }
    }

    /// Returns the MATCH pattern for all keys. A prefix contains no special characters of patterns.
    pub(in super::super) fn pattern(&self) -> String {
        format!("{}:{{*", self.prefix)
    }

    /// Returns the MATCH pattern for the keys of this part of partitions that start with `start`.
    /// It can also match other keys.
    pub(in super::super) fn pattern_of(
        &self,
        capability: &str,
        start: &[u8],
        part: &str,
    ) -> Vec<u8> {
        let mut stem = Vec::new();
        push_key(&mut stem, &self.prefix, capability, start, &[]);
        let end = format!("}}:{part}");
        let open = stem.strip_suffix(b"}:").unwrap_or(&stem);
        let mut pattern = Vec::with_capacity(open.len() + 1 + end.len());
        for &byte in open {
            if b"*?[]\\".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        pattern.extend_from_slice(end.as_bytes());
        pattern
    }

    /// Returns the marker key, which exists during an import.
    pub(super) fn marker(&self) -> Vec<u8> {
        format!("{}:import", self.prefix).into_bytes()
    }

    /// Returns the prefix of a key up to the end of its hash tag; `None` for another prefix.
    fn tag<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let close = key.iter().position(|byte| *byte == b'}')?;
        key.starts_with(format!("{}:{{", self.prefix).as_bytes()).then_some(&key[..=close])
    }

    /// Parses a key; `None` for keys of another application.
    pub(in super::super) fn parse(&self, key: &[u8]) -> Option<Named> {
        let tag = self.tag(key)?;
        let part = key[tag.len()..].strip_prefix(b":")?.to_vec();
        let inner = &tag[self.prefix.len() + 2..tag.len() - 1];
        let colon = inner.iter().position(|byte| *byte == b':')?;
        let capability = inner[..colon].to_vec();
        Some(Named { capability, name: decoded(&inner[colon + 1..])?, part })
    }
}

/// Decodes a name: `%25` becomes `%`, and `%7D` becomes `}`.
fn decoded(name: &[u8]) -> Option<Vec<u8>> {
    let (mut text, mut rest) = (Vec::with_capacity(name.len()), name);
    while let [byte, more @ ..] = rest {
        rest = match (byte, more) {
            (b'%', [b'2', b'5', more @ ..]) => {
                text.push(b'%');
                more
            }
            (b'%', [b'7', b'D', more @ ..]) => {
                text.push(b'}');
                more
            }
            (b'%', _) => return None,
            _ => {
                text.push(*byte);
                more
            }
        };
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let keys = KeyBuilder::new("t:x");
        for name in ["a", "a}b%", "%7D", "{", "p/05", "\u{1f}user:7"] {
            let mut key = Vec::new();
            push_key(&mut key, "t:x", "rate", name.as_bytes(), &[b"usage:", b"a}:b"]);
            let (capability, name) = (b"rate".to_vec(), name.as_bytes().to_vec());
            let part = b"usage:a}:b".to_vec();
            assert_eq!(keys.parse(&key), Some(Named { capability, name, part }));
        }
        let pattern = |start: &[u8]| keys.pattern_of("lock", start, "lock");
        assert_eq!(pattern(b""), b"t:x:{lock:*}:lock");
        assert_eq!(pattern(b"a}*[?\\"), br"t:x:{lock:a%7D\*\[\?\\*}:lock");
        assert_eq!(keys.parse(b"t:y:{rate:a}:usage"), None);
        assert_eq!(keys.parse(b"t:x:{rate:a}"), None);
    }
}
