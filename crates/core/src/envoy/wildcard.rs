//! Values with `*`.

/// A pattern: a text with `*` anywhere, each for zero or more bytes.
#[derive(Debug)]
pub(super) struct Wildcard {
    /// The whole pattern, the key of its child.
    pub(super) pattern: Box<[u8]>,
    /// The parts between the stars; at least two.
    parts: Box<[Box<[u8]>]>,
}

impl Wildcard {
    /// Parses a pattern; `None` without a star.
    pub(super) fn new(pattern: &[u8]) -> Option<Wildcard> {
        let parts: Box<[Box<[u8]>]> = pattern.split(|byte| *byte == b'*').map(Into::into).collect();
        (parts.len() > 1).then(|| Wildcard { pattern: pattern.into(), parts })
    }

    /// Whether a text matches. The parts are found from the left, which finds a match if there is
    /// one.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let [first, middle @ .., last] = &*self.parts else { return false };
        let Some(rest) = text.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        for part in middle {
            match find(rest, part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Returns the first position of a part.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_anywhere_and_parts_do_not_overlap() {
        let matches = |pattern: &str, text: &str| {
            Wildcard::new(pattern.as_bytes()).unwrap().matches(text.as_bytes())
        };
        assert!(Wildcard::new(b"plain").is_none());
        for (pattern, text, expected) in [
            ("a*", "a", true),
            ("a*", "abc", true),
            ("a*", "b", false),
            ("*c", "abc", true),
            ("a*b", "ab", true),
            ("aa*aa", "aaa", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("a**c", "ac", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
