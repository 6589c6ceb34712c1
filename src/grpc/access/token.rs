//! Tokens: 256 random bits, of which the server knows only the SHA-256 digest.
//!
//! A fast hash without salt is enough, because nobody can try 2^256 tokens. This holds only for
//! random tokens, so digests of well-known words are rejected. A leaked configuration gives nobody
//! access.

use std::{
    fmt::{self, Write},
    hint::black_box,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};

/// Bytes of a digest.
const BYTES: usize = 32;

/// Words that are not tokens. Their digests are rejected.
const WEAK: [&str; 14] = [
    "",
    "test",
    "token",
    "secret",
    "password",
    "changeme",
    "change-me",
    "admin",
    "tollgate",
    "1234",
    "12345678",
    "foobar",
    "example",
    "TOKEN",
];

/// The SHA-256 digest of a token.
#[derive(Clone, Copy)]
pub struct Digest([u8; BYTES]);

/// Does not print the digest, which does not belong in logs.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

impl Digest {
    /// Computes the digest of a token.
    pub fn compute(token: &[u8]) -> Digest {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(digest(&SHA256, token).as_ref());
        Digest(bytes)
    }

    /// Parses 64 hexadecimal digits. Fails for the digest of a weak token. The error does not quote
    /// the text, which may be the token itself.
    pub fn parse(text: &str) -> Result<Digest, &'static str> {
        const SHAPE: &str = "expected 64 hexadecimal digits: the SHA-256 digest of a token, as \
                             `tollgate token` prints it";
        if text.len() != 2 * BYTES {
            return Err(SHAPE);
        }
        let mut bytes = [0; BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(SHAPE);
            *byte = (digit(digits[0])? << 4 | digit(digits[1])?) as u8;
        }
        let parsed = Digest(bytes);
        let is_uniform = bytes.iter().all(|byte| *byte == bytes[0]);
        if is_uniform || WEAK.iter().any(|word| parsed.equals(&Digest::compute(word.as_bytes()))) {
            return Err("this is the digest of a weak token; create a new one with `tollgate \
                token`");
        }
        Ok(parsed)
    }

    /// Returns the digest in hexadecimal digits.
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(2 * BYTES);
        for byte in self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Compares in constant time.
    pub(super) fn equals(&self, other: &Digest) -> bool {
        equal(&self.0, &other.0)
    }
}

/// Compares two secrets in a time that depends only on their length.
pub(super) fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && black_box(one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

/// Generates a token of 256 random bits in base64url. Fails if the operating system returns no
/// random numbers.
pub fn generate() -> Result<String, &'static str> {
    let mut bytes = [0; BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "the operating system returned no random numbers")?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_and_weak_ones_refused() {
        let token = generate().unwrap();
        assert_eq!(token.len(), 43);
        assert_ne!(generate().unwrap(), token);
        let digest = Digest::compute(token.as_bytes());
        for text in [digest.hex(), digest.hex().to_uppercase()] {
            assert!(Digest::parse(&text).unwrap().equals(&digest));
        }
        let known = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(Digest::compute(b"test").hex(), known);
        let uniform = "0".repeat(64);
        for weak in [known, &uniform, &Digest::compute(b"").hex()] {
            assert!(Digest::parse(weak).is_err_and(|error| error.contains("weak")), "{weak}");
        }
        for bad in ["", &known[..40], &"g".repeat(64), &"é".repeat(32), &format!("{known}0")] {
            assert!(Digest::parse(bad).is_err_and(|error| error.contains("64")), "{bad}");
        }
    }

    #[test]
    fn secrets_are_compared_exactly() {
        assert!(equal(b"", b"") && equal(b"ab", b"ab"));
        assert!(!equal(b"ab", b"aB") && !equal(b"ab", b"abc") && !equal(b"xb", b"ab"));
    }
}
