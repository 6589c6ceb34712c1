//! Failures of exports and imports, and the receiver of lines.

use std::{fmt, io};

use super::{super::embedded::OpenError, file::Unfit, line::Line};

/// Receives lines one by one; an error ends the export.
pub(crate) type Sink<'a> = dyn FnMut(Line) -> Result<(), Failure> + Send + 'a;

/// The reason why an export or import failed.
#[derive(Debug)]
pub enum Failure {
    /// The data directory cannot be used.
    Directory(OpenError),
    /// Redis cannot be used. The text says what to do.
    Redis(String),
    /// The stored state is damaged. The text says what to do.
    Damaged(String),
    /// The export file cannot be read or written.
    File(io::Error),
    /// The file is not a valid export.
    Unfit(Unfit),
    /// The target already contains state.
    Occupied(String),
    /// The lines that were read back differ from the written ones.
    Unverified(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Directory(error) => error.fmt(f),
            Failure::File(error) => error.fmt(f),
            Failure::Unfit(unfit) => unfit.fmt(f),
            Failure::Redis(why)
            | Failure::Damaged(why)
            | Failure::Occupied(why)
            | Failure::Unverified(why) => f.write_str(why),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure::Directory(error)
    }
}
