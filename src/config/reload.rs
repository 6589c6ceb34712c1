//! Reload of the callers: of `[[caller]]`, `[jwt]` and its key set. Other keys of the file need a
//! restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{ConfigError, TlsOptions, access, caller, read};
use crate::{
    grpc::access::{Access, Callers},
    server::reload::{Follower, Reload},
};

/// The callers of a configuration file.
#[derive(Debug)]
pub struct CallersFile {
    path: PathBuf,
    has_client_ca: bool,
    access: Arc<Access>,
}

/// The texts of the files; the errors of those that cannot be read.
pub(crate) type Texts = Vec<Result<Vec<u8>, io::ErrorKind>>;

impl CallersFile {
    /// Follows the callers of a file. `tls` are the settings of the server.
    pub fn new(path: &Path, tls: Option<&TlsOptions>, access: Arc<Access>) -> CallersFile {
        let has_client_ca = tls.is_some_and(|tls| tls.files.client.is_some());
        CallersFile { path: path.to_owned(), has_client_ca, access }
    }

    /// Reads the texts. Read them before the configuration, so that [`CallersFile::follow`] notices
    /// a change during the start.
    pub fn texts(path: &Path) -> Texts {
        let text = |path: &Path| fs::read(path).map_err(|error| error.kind());
        let keys = super::parse(path).ok().and_then(|file| file.jwt);
        let keys = keys.map(|jwt| text(jwt.jwks()));
        [text(path)].into_iter().chain(keys).collect()
    }

    /// Replaces the callers whenever the texts change. `known` are those that were loaded last.
    /// Never completes. Fails if there is no SIGHUP. Must be called in a tokio runtime.
    pub async fn follow(self, known: Texts) -> io::Result<()> {
        Follower::new(&known)?.follow(Arc::new(self)).await;
        Ok(())
    }

    fn load(&self) -> Result<Option<Callers>, ConfigError> {
        let read = read(&self.path, caller::Keys::Read)?;
        access::check(&self.path, &read.file, read.callers.is_some(), self.has_client_ca)?;
        if read.callers.is_none() && !self.access.is_open() {
            return Err(ConfigError(format!(
                "{}: no [[caller]] is left, which would let everybody in; restart the server to do \
                 that",
                self.path.display()
            )));
        }
        Ok(read.callers)
    }
}

impl Reload for CallersFile {
    type Contents = Texts;

    fn read(&self) -> Texts {
        CallersFile::texts(&self.path)
    }

    fn replace(&self, _: &Texts) {
        match self.load() {
            Ok(None) => {}
            Ok(Some(callers)) => {
                self.access.replace(callers);
                tracing::info!("the callers were reloaded");
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    "the callers were not reloaded; the previous ones stay in use"
                );
            }
        }
    }
}
