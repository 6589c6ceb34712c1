//! The token of a connection.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use tonic::{
    Code,
    metadata::{Ascii, MetadataValue},
};

use crate::Error;

type Callback =
    dyn Fn() -> Result<String, Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static;

/// Where the token of each call comes from.
#[derive(Clone)]
pub enum Token {
    /// This value.
    Value(String),
    /// A file, which is read again when it changes.
    File(PathBuf),
    /// A function, which is called before each attempt. It must not block for long.
    Callback(Arc<Callback>),
}

impl Token {
    /// Uses a function, which is called before each attempt. It must not block for long.
    pub fn callback<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        callback: impl Fn() -> Result<String, E> + Send + Sync + 'static,
    ) -> Token {
        Token::Callback(Arc::new(move || callback().map_err(Into::into)))
    }
}

impl fmt::Debug for Token {
    /// Never shows the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Value(_) => f.write_str("Value"),
            Token::File(path) => f.debug_tuple("File").field(path).finish(),
            Token::Callback(_) => f.write_str("Callback"),
        }
    }
}

/// The token of a connection, and the last content of its file.
#[derive(Debug)]
pub(crate) struct TokenSource {
    token: Option<Token>,
    read: Mutex<Option<(Stamp, MetadataValue<Ascii>)>>,
}

/// The attributes that change when a file is written or replaced.
type Stamp = (Option<SystemTime>, u64, u64);

impl TokenSource {
    /// Reads the token once, so that an invalid one is detected immediately.
    pub(crate) fn new(token: Option<Token>) -> Result<TokenSource, Error> {
        let source = TokenSource { token, read: Mutex::new(None) };
        if !matches!(source.token, Some(Token::Callback(_))) {
            source.authorization()?;
        }
        Ok(source)
    }

    /// Returns the value of the metadata `authorization`.
    pub(crate) fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>, Error> {
        match &self.token {
            None => Ok(None),
            Some(Token::Value(token)) => bearer(token, || "the option".to_owned()).map(Some),
            Some(Token::Callback(callback)) => {
                let token = callback().map_err(|error| {
                    Error::new(Code::Unauthenticated, format!("no token: {error}"))
                })?;
                bearer(&token, || "the answer of the callback".to_owned()).map(Some)
            }
            Some(Token::File(path)) => self.file(path).map(Some),
        }
    }

    fn file(&self, path: &Path) -> Result<MetadataValue<Ascii>, Error> {
        let failed = |error: io::Error| {
            Error::new(Code::InvalidArgument, format!("{}: {error}", path.display()))
        };
        let stamp = stamp(path).map_err(failed)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, value)) = &*read
            && *of == stamp
        {
            return Ok(value.clone());
        }
        let text = String::from_utf8(fs::read(path).map_err(failed)?).unwrap_or_default();
        let value = bearer(&text, || path.display().to_string())?;
        *read = Some((stamp, value.clone()));
        Ok(value)
    }
}

#[cfg(unix)]
fn stamp(path: &Path) -> io::Result<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified().ok(), metadata.len(), metadata.ino()))
}

#[cfg(not(unix))]
fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified().ok(), metadata.len(), 0))
}

/// The values that a header can contain.
pub(crate) const PRINTABLE: &str = "expected printable ASCII characters";

/// Creates the value of a header; `None` unless it is printable ASCII.
pub(crate) fn header(text: &str) -> Option<MetadataValue<Ascii>> {
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable.then(|| MetadataValue::try_from(text).ok()).flatten()
}

fn bearer(token: &str, name: impl Fn() -> String) -> Result<MetadataValue<Ascii>, Error> {
    let value = match token.trim() {
        "" => None,
        token => header(&format!("Bearer {token}")),
    };
    let none = || {
        let expected = format!("no token in {}: {PRINTABLE}", name());
        Error::bad_field("token", &expected)
    };
    let mut value = value.ok_or_else(none)?;
    // Debug output does not show it.
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, name: &str) -> PathBuf {
        let name = format!("tollgate-token-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_token_is_read_without_its_line_break_and_never_shown() {
        for (text, expected) in
            [("s3cret\n", Some("Bearer s3cret")), ("\n", None), ("a\nb", None), ("\u{fc}", None)]
        {
            let path = file(text, "read");
            let value = TokenSource::new(Some(Token::File(path.clone())))
                .and_then(|source| source.authorization());
            assert!(!format!("{value:?}").contains("s3cret"), "{value:?}");
            match expected {
                Some(expected) => assert_eq!(value.unwrap().unwrap(), expected),
                None => {
                    let error = value.unwrap_err();
                    assert!(error.message.contains("no token"));
                    assert_eq!(error.violations[0].field, "token");
                }
            }
            fs::remove_file(&path).unwrap();
            let gone = TokenSource::new(Some(Token::File(path)));
            assert!(gone.unwrap_err().message.contains("No such file"));
        }
        assert!(!format!("{:?}", Token::Value("s3cret".to_owned())).contains("s3cret"));
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let path = file("one", "changed");
        let source = TokenSource::new(Some(Token::File(path.clone()))).unwrap();
        assert_eq!(source.authorization().unwrap().unwrap(), "Bearer one");
        // A replaced file, as secrets of Kubernetes are.
        let other = file("two", "other");
        fs::rename(&other, &path).unwrap();
        assert_eq!(source.authorization().unwrap().unwrap(), "Bearer two");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_callback_gives_the_token_of_each_call() {
        let source = TokenSource::new(Some(Token::callback(|| Err::<String, _>("offline"))));
        let error = source.unwrap().authorization().unwrap_err();
        assert_eq!((error.code, &*error.message), ("UNAUTHENTICATED", "no token: offline"));
        let source = TokenSource::new(Some(Token::callback(|| Ok::<_, Error>("t".to_owned()))));
        assert_eq!(source.unwrap().authorization().unwrap().unwrap(), "Bearer t");
    }
}
