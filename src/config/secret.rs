//! Keeps passwords out of logs, errors and terminals.

use std::{fmt, path::Path};

use super::ConfigError;
use crate::server::input_file;
use tollgate_engine::redis::address::Password;

/// The warning about a password in the arguments.
pub const IN_ARGUMENTS: &str = "the password of --engine is in the arguments, which every user \
    of this machine can read (ps): give the URL as TOLLGATE_ENGINE or in the configuration file, or \
    the password in --engine-password-file";

/// Words of at least this length may be tokens.
const TOKEN_BYTES_MIN: usize = 32;

/// Whether the URL of an engine contains a password.
pub fn has_password(engine: &str) -> bool {
    let rest = engine.split_once("://").map_or("", |(_, rest)| rest);
    let user = rest.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    user.is_some_and(|(_, password)| !password.is_empty()) || rest.contains("pass=")
}

/// Reads the password of an engine from a file, without the line break at its end. Fails if the
/// engine is not a Redis, or if its URL already contains a password.
pub(super) fn read_password(path: &Path, engine: Option<&str>) -> Result<Password, ConfigError> {
    let failed = |reason: &dyn fmt::Display| {
        ConfigError::new(format!("engine_password_file = \"{}\": {reason}", path.display()))
    };
    match engine {
        None | Some("embedded") => {
            return Err(failed(&"applies only to Redis; remove it, or set engine to a Redis URL"));
        }
        Some(url) if has_password(url) => {
            return Err(failed(&"the URL in engine already has a password; remove one of them"));
        }
        Some(_) => {}
    }
    let text = input_file::read_text(path).map_err(|error| failed(&error))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(failed(&"expected a password in the file")),
        password => Ok(Password(password.to_owned())),
    }
}

/// Removes values and tokens from an error message of the TOML parser.
pub(super) fn masked(message: &str) -> String {
    let around = message.split_once("string \"").and_then(|(before, rest)| {
        rest.rsplit_once("\", expected").map(|(_, expected)| (before, expected))
    });
    match around {
        Some((before, expected)) => {
            format!("{}string, expected{}", without_tokens(before), without_tokens(expected))
        }
        None => without_tokens(message),
    }
}

/// Masks words that are as long as a token or a digest.
fn without_tokens(line: &str) -> String {
    let is_token = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let parts = line.split_inclusive(|letter| !is_token(letter));
    let hidden = parts.map(|part| match part.trim_end_matches(|letter| !is_token(letter)) {
        word if word.len() >= TOKEN_BYTES_MIN => format!("…{}", &part[word.len()..]),
        _ => part.to_owned(),
    });
    hidden.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h12_passwords_of_urls_are_found() {
        for url in [
            "redis://:secret@host",
            "redis://user:secret@host:6379/1",
            "rediss+sentinel://user:se@cret@a:1,b:2/name",
            "redis+unix:///run/redis.sock?user=u&pass=secret",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in ["embedded", "redis://host:6379", "redis://user@host:6379", "redis://u:@host"] {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn h12_errors_quote_no_password() {
        for (message, expected) in [
            (
                "invalid type: string \"redis://user:se\\\"cret@host\", expected u32",
                "invalid type: string, expected u32",
            ),
            (
                "token_sha256 = 91XG7Vx4j95wrFJMAmlOcksds7wW1x9EOHWIwxE5VSM: expected x",
                "token_sha256 = …: expected x",
            ),
            ("unclosed table, expected `]`", "unclosed table, expected `]`"),
        ] {
            assert_eq!(masked(message), expected);
        }
    }
}
