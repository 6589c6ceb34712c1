//! Exit codes of the client commands, and for errors of an engine.

use std::process::ExitCode;

use tollgate_cli::exit::{DATA, IO, NO_INPUT, OCCUPIED, UNAVAILABLE, end};
pub(super) use tollgate_cli::exit::{REFUSED, USAGE, config, unavailable, unwritten};
use tollgate_engine::{
    embedded::OpenError,
    export::{Failure, Unfit},
};

/// Reports that the data directory cannot be used.
pub(super) fn data_dir(error: &OpenError) -> ExitCode {
    let code = match error {
        OpenError::Damaged(_) => DATA,
        OpenError::Unusable(_) => IO,
        OpenError::Taken(_) => UNAVAILABLE,
        OpenError::Missing(_) => NO_INPUT,
    };
    end(error, code)
}

/// Reports that an export or import has failed.
pub(super) fn transfer(failure: &Failure) -> ExitCode {
    let code = match failure {
        Failure::Directory(error) => return data_dir(error),
        Failure::Redis(_) => UNAVAILABLE,
        Failure::Unfit(Unfit::Unread(_)) => NO_INPUT,
        Failure::Damaged(_) | Failure::Unfit(_) | Failure::Unverified(_) => DATA,
        Failure::Occupied(_) => OCCUPIED,
        Failure::File(_) => IO,
    };
    end(failure, code)
}
