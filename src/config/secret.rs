//! Keeps passwords out of logs, errors and terminals.

use std::{borrow::Cow, fmt, fs, path::Path};

use super::ConfigError;
use crate::engine::redis::address::Password;

/// The warning about a password in the arguments.
pub const IN_ARGUMENTS: &str = "the password of --engine is in the arguments, which every user \
    of this machine can read (ps): give the URL as TOLLGATE_ENGINE or in the configuration file, or \
    the password in --engine-password-file";

/// Words from here on may be tokens.
const TOKEN_BYTES_MIN: usize = 32;

/// Whether the URL of an engine contains a password.
pub fn has_password(engine: &str) -> bool {
    let rest = engine.split_once("://").map_or("", |(_, rest)| rest);
    let user = rest.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    user.is_some_and(|(_, password)| !password.is_empty()) || rest.contains("pass=")
}

/// Reads the password of an engine from a file, without the line break at its end. Fails if the
/// engine is not a Redis, or if its URL has a password already.
pub(super) fn read(path: &Path, engine: Option<&str>) -> Result<Password, ConfigError> {
    let failed = |reason: &dyn fmt::Display| {
        ConfigError::new(format!("engine_password_file = \"{}\": {reason}", path.display()))
    };
    match engine {
        None | Some("embedded") => {
            return Err(failed(&"applies to a Redis only; remove it, or give its URL in engine"));
        }
        Some(url) if has_password(url) => {
            return Err(failed(&"the URL in engine has a password already; remove one of them"));
        }
        Some(_) => {}
    }
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(failed(&"expected a password in the file")),
        password => Ok(Password(password.to_owned())),
    }
}

/// Removes passwords and tokens from an error of the TOML parser, which quotes lines of the file.
pub(super) fn masked(error: &str) -> String {
    error.split_inclusive('\n').map(|line| without_tokens(&masked_line(line))).collect()
}

/// Hides words that are as long as a token or a digest.
fn without_tokens(line: &str) -> String {
    let is_token = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let parts = line.split_inclusive(|letter| !is_token(letter));
    let hidden = parts.map(|part| match part.trim_end_matches(|letter| !is_token(letter)) {
        word if word.len() >= TOKEN_BYTES_MIN => format!("…{}", &part[word.len()..]),
        _ => part.to_owned(),
    });
    hidden.collect()
}

/// Hides more lines than necessary, because a quoted line may be a part of a longer value.
fn masked_line(line: &str) -> Cow<'_, str> {
    let quoted = line.split_once(" | ").filter(|(number, _)| number.trim().parse::<u32>().is_ok());
    let Some((number, quoted)) = quoted else { return Cow::Borrowed(line) };
    let is_secret = ["engine", "pass", "@", "token"].iter().any(|sign| quoted.contains(sign));
    if !is_secret {
        return Cow::Borrowed(line);
    }
    let key = quoted.split_once('=').map_or("", |(key, _)| key).trim_end();
    Cow::Owned(format!("{number} | {key} = …\n"))
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
        for quoted in [
            "engine = \"redis://user:secret@host",
            "engine = user:secret@host",
            "redis://user:secret@host\"\"\"",
            "sentinel_password = secret",
        ] {
            let error = format!("TOML parse error\n  |\n5 | {quoted}\n  | ^^^^\nexpected `@`\n");
            let masked = masked(&error);
            assert!(!masked.contains("secret"), "{masked}");
            assert_eq!(masked.lines().count(), error.lines().count());
            assert!(masked.ends_with("expected `@`\n"), "{masked}");
        }
        let harmless = "  |\n5 | listen = 5\n  | ^^^\nexpected `redis://[user:password@]host`\n";
        assert_eq!(masked(harmless), harmless);
        let token =
            "invalid type: string \"91XG7Vx4j95wrFJMAmlOcksds7wW1x9EOHWIwxE5VSM\", expected x\n";
        assert_eq!(masked(token), "invalid type: string \"…\", expected x\n");
    }
}
