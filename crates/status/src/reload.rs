//! The interface for reloading the configuration, which `config` implements and ReloadConfig calls.

use std::{fmt, pin::Pin, sync::Arc};

/// The configuration of a server, which can be replaced while calls run.
pub trait Reload: fmt::Debug + Send + Sync {
    /// Reads and checks all files and replaces the configuration in one step, or only returns the
    /// differences with `dry_run`. Completes even if its caller is cancelled.
    fn reload(self: Arc<Self>, dry_run: bool) -> Reloading;

    /// Returns the values in use by key. Secrets are masked.
    fn values(&self) -> Vec<(String, String)>;
}

/// A running reload.
pub type Reloading = Pin<Box<dyn Future<Output = Result<Reloaded, ReloadError>> + Send>>;

/// The result of a successful reload or dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// The differences by key.
    pub differences: Vec<Difference>,
    /// The hash of the configuration file.
    pub hash: String,
}

/// A key whose value differs. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The key, such as `pool["ar:*"].capacity`.
    pub key: String,
    /// The value in use; empty if the key is not set.
    pub old: String,
    /// The value in the file; empty if the key is not set.
    pub new: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &str| match value {
            "" => "not set".to_owned(),
            value => value.to_owned(),
        };
        write!(f, "{}: old = {}, new = {}", self.key, shown(&self.old), shown(&self.new))
    }
}

/// The reason why a reload changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadError {
    /// The server has no configuration file.
    NoFile,
    /// A file cannot be read or is invalid.
    Invalid(InvalidConfig),
    /// These keys take effect only when the server starts.
    NeedsRestart(Vec<Difference>),
    /// The reload ended unexpectedly.
    Failed,
}

/// An error in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvalidConfig {
    /// File, line, key and reason, for people. No secrets.
    pub message: String,
    /// The file; empty if no file is at fault.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: usize,
    /// The key; empty if it is not known.
    pub key: String,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::NoFile => f.write_str(
                "the server was started without a configuration file; restart it with --config \
                 FILE",
            ),
            ReloadError::Invalid(error) => f.write_str(&error.message),
            ReloadError::NeedsRestart(differences) => {
                f.write_str(
                    "keys have changed that take effect only at the start; undo the changes, or \
                     restart the server: ",
                )?;
                let all: Vec<String> = differences.iter().map(Difference::to_string).collect();
                f.write_str(&all.join("; "))
            }
            ReloadError::Failed => f.write_str("the reload has ended unexpectedly; check the log"),
        }
    }
}

impl std::error::Error for ReloadError {}
