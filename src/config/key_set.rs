//! The key sets of `[jwt]`: read from a file, or fetched from an https URL.
//!
//! A URL is fetched when the configuration first names it, and from then on in the background. So a
//! slow server of key sets delays no reload of other keys.

use std::{fs, path::PathBuf, time::Instant};

use parking_lot::Mutex;

use super::jwt::JwtSection;
use crate::{
    decision::time::monotonic,
    server::fetch::{self, Authorities},
};

/// The key sets of a process.
#[derive(Debug, Default)]
pub(super) struct KeySets(Mutex<Option<Fetched>>);

/// The last fetch of a URL.
#[derive(Debug, Clone)]
struct Fetched {
    section: JwtSection,
    /// The last usable document; the error if there is none.
    document: Result<Vec<u8>, String>,
    /// The time of the last fetch, and whether it failed.
    at: Instant,
    has_failed: bool,
}

impl Fetched {
    /// Whether the next fetch is due.
    fn is_due(&self) -> bool {
        self.at + self.section.interval(self.has_failed) <= monotonic()
    }
}

impl KeySets {
    /// The document of a section. Fetches a URL that is new, or whose last fetch failed a while ago
    /// and left no document; that can block for 10 s. The error names the key.
    pub(super) fn document(&self, section: &JwtSection) -> Result<Vec<u8>, String> {
        if !section.is_url() {
            return fs::read(section.path()).map_err(|error| section.failed(&error));
        }
        if let Some(fetched) = self.0.lock().as_mut().filter(|it| it.section.is_same_url(section)) {
            // The interval may have changed.
            fetched.section = section.clone();
            if fetched.document.is_ok() || !fetched.is_due() {
                return fetched.document.clone();
            }
        }
        let document = fetched(section);
        *self.0.lock() = Some(Fetched {
            section: section.clone(),
            document: document.clone(),
            at: monotonic(),
            has_failed: document.is_err(),
        });
        document
    }

    /// Fetches the URL again if that is due. A document that is not usable leaves the last one in
    /// use. Blocks for 10 s at most.
    pub(super) fn refresh(&self) {
        let due = |it: &Fetched| it.document.is_ok() && it.is_due();
        let Some(Fetched { section, .. }) = self.0.lock().clone().filter(due) else { return };
        let document = fetched(&section);
        let mut last = self.0.lock();
        let Some(last) = last.as_mut().filter(|last| last.section.is_same_url(&section)) else {
            return;
        };
        (last.at, last.has_failed) = (monotonic(), document.is_err());
        match document {
            Ok(document) => last.document = Ok(document),
            Err(error) => {
                tracing::warn!(%error, "the key set was not fetched; the last one stays in use");
            }
        }
    }
}

/// Fetches the document of a URL and checks it.
fn fetched(section: &JwtSection) -> Result<Vec<u8>, String> {
    let ca = section.jwks_ca();
    let authorities = Authorities::read(ca.map(PathBuf::as_path));
    let authorities = authorities.map_err(|error| match ca {
        Some(file) => format!("jwt.jwks_ca = \"{}\": {error}", file.display()),
        None => section.failed(&error),
    })?;
    let document = fetch::fetch(section.url(), authorities);
    let document = document.map_err(|error| section.failed(&error))?;
    section.check_document(&document)?;
    Ok(document)
}
