//! Reload of the callers: of `[[caller]]`, `[jwt]` and its key set, and of the limits of
//! `[[namespace]]`. Other keys of the file need a restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Config, ConfigError, access, jwt::KeySetCheck, namespace, read};
use crate::{
    decision::budget::NamespaceRule,
    engine::Engine,
    grpc::access::{Access, Callers},
    server::reload::{Follower, Reload},
};

/// The callers of a configuration file.
#[derive(Debug)]
pub struct CallersFile {
    path: PathBuf,
    has_client_ca: bool,
    access: Arc<Access>,
    engine: Arc<Engine>,
    /// The number of servers that share the calls per second of a namespace.
    servers: u32,
}

/// The texts of the files; the errors of those that cannot be read.
pub(crate) type Texts = Vec<Result<Vec<u8>, String>>;

impl CallersFile {
    /// Follows the callers of a file that was read as `config`, and the limits of the namespaces of
    /// the engine.
    pub fn new(path: &Path, config: &Config, engine: Arc<Engine>) -> CallersFile {
        let has_client_ca = config.tls.as_ref().is_some_and(|tls| tls.files.client.is_some());
        let (access, servers) = (config.access.clone(), config.servers);
        CallersFile { path: path.to_owned(), has_client_ca, access, engine, servers }
    }

    /// Reads the texts. Read them before the configuration, so that [`CallersFile::follow`] notices
    /// a change during the start.
    pub fn texts(path: &Path) -> Texts {
        let text = fs::read(path).map_err(|error| error.to_string());
        let jwt = super::parse(path).ok().and_then(|file| file.jwt);
        [text].into_iter().chain(jwt.map(|jwt| jwt.document())).collect()
    }

    /// Replaces the callers whenever the texts change. `known` are those that were loaded last.
    /// Never completes. Fails if there is no SIGHUP. Must be called in a tokio runtime.
    pub async fn follow(self, known: Texts) -> io::Result<()> {
        Follower::new(&known)?.follow(Arc::new(self)).await;
        Ok(())
    }

    fn load(&self) -> Result<(Option<Callers>, Vec<NamespaceRule>), ConfigError> {
        let read = read(&self.path, KeySetCheck::Read)?;
        access::check(&self.path, &read.file, read.callers.is_some(), self.has_client_ca)?;
        if read.callers.is_none() && !self.access.is_open() {
            return Err(ConfigError(format!(
                "{}: no [[caller]] is left, which would let everybody in; restart the server to do \
                 that",
                self.path.display()
            )));
        }
        let namespaces = namespace::rules(&read.file.namespace).map_err(ConfigError)?;
        Ok((read.callers, namespaces))
    }

    /// Replaces the limits of namespaces.
    fn limit(&self, rules: &[NamespaceRule]) {
        let budget = self.engine.hub().namespaces();
        if budget.is_empty() && rules.is_empty() {
            return;
        }
        match budget.set(rules, self.servers) {
            Ok(()) => tracing::info!("the limits of namespaces were reloaded"),
            Err(error) => tracing::error!(%error, "the limits of namespaces were not reloaded"),
        }
    }
}

impl Reload for CallersFile {
    type Contents = Texts;

    fn read(&self) -> Texts {
        CallersFile::texts(&self.path)
    }

    fn replace(&self, _: &Texts) {
        match self.load() {
            Ok((callers, namespaces)) => {
                self.limit(&namespaces);
                if let Some(callers) = callers {
                    self.access.replace(callers);
                    tracing::info!("the callers were reloaded");
                }
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
