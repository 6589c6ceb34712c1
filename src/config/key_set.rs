//! The key sets of `[jwt]`: read from a file, or fetched from an https URL.
//!
//! A URL is fetched when the configuration first names it, and then in the background, so that a
//! slow issuer does not delay reloads.

use std::{path::PathBuf, time::Instant};

use parking_lot::Mutex;

use super::jwt::JwtSection;
use crate::server::{
    fetch::{self, Authorities},
    input_file,
};
use tollgate_core::time::monotonic;

/// Maximum number of stored URLs: the one in use, and others that failed reloads have named.
const URLS_MAX: usize = 4;

/// The key sets of a process, the newest URL last.
#[derive(Debug, Default)]
pub(super) struct KeySets(Mutex<Vec<Fetched>>);

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
    /// Returns the document of a section. Fetches a new URL, and retries a failed first fetch after
    /// a pause; either can block for 10 s. The error names the key.
    pub(super) fn document(&self, section: &JwtSection) -> Result<Vec<u8>, String> {
        if !section.is_url() {
            return input_file::read(section.path()).map_err(|error| section.failed(&error));
        }
        let mut known = self.0.lock();
        if let Some(fetched) = known.iter_mut().find(|it| it.section.is_same_url(section)) {
            // The interval may have changed.
            fetched.section = section.clone();
            if fetched.document.is_ok() || !fetched.is_due() {
                return fetched.document.clone();
            }
        }
        drop(known);
        let document = fetched(section);
        let mut known = self.0.lock();
        known.retain(|it| !it.section.is_same_url(section));
        if known.len() >= URLS_MAX {
            known.remove(0);
        }
        known.push(Fetched {
            section: section.clone(),
            document: document.clone(),
            at: monotonic(),
            has_failed: document.is_err(),
        });
        document
    }

    /// Forgets all URLs except the one of the section in use.
    pub(super) fn keep(&self, section: Option<&JwtSection>) {
        let in_use = |it: &Fetched| section.is_some_and(|section| it.section.is_same_url(section));
        self.0.lock().retain(in_use);
    }

    /// Whether a URL is due to be fetched again.
    pub(super) fn are_due(&self) -> bool {
        self.0.lock().iter().any(|it| it.document.is_ok() && it.is_due())
    }

    /// Fetches a URL again if that is due. If the new document is unusable, the last one stays in
    /// use. Blocks for at most 10 s.
    pub(super) fn refresh(&self) {
        let due = |it: &&Fetched| it.document.is_ok() && it.is_due();
        let section = self.0.lock().iter().find(due).map(|it| it.section.clone());
        let Some(section) = section else { return };
        let document = fetched(&section);
        let mut known = self.0.lock();
        let last = known.iter_mut().find(|last| last.section.is_same_url(&section));
        let Some(last) = last else { return };
        (last.at, last.has_failed) = (monotonic(), document.is_err());
        match document {
            Ok(document) => last.document = Ok(document),
            Err(error) => {
                tracing::warn!(%error, "cannot fetch the key set; the last one stays in use");
            }
        }
    }
}

/// Fetches the document of a URL and checks it.
fn fetched(section: &JwtSection) -> Result<Vec<u8>, String> {
    let ca = section.jwks_ca();
    let authorities = Authorities::read(ca.map(PathBuf::as_path)).map_err(|error| match ca {
        Some(file) => format!("jwt.jwks_ca = \"{}\": {error}", file.display()),
        None => section.failed(&error),
    })?;
    let document =
        fetch::fetch(section.url(), authorities).map_err(|error| section.failed(&error))?;
    section.check_document(&document)?;
    Ok(document)
}
