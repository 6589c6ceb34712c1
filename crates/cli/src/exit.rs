//! Exit codes of the process, from sysexits.h.

use std::{fmt::Display, process::ExitCode};

use super::print::warn;

/// The table of exit codes for `--help`.
pub const TABLE: &str = "\
Exit status:
    0  success: served until a signal, allowed, issued, printed, exported or imported
    1  refused: a rate, stock, a task, a floor that is not above the last number, a lock that
       another owner holds, a reload that needs a restart, or something you did not confirm;
       a fleet exceeded the cap, the limit or the stock; or a server is NOT_SERVING
   64  the command line is invalid
   65  a data directory or an export is damaged, or the imported entries do not match the
       export
   66  a data directory or an export does not exist or cannot be read
   69  the server does not answer or answers with an error; the address, the Redis or the
       data directory of a server is not available
   73  the target of an import is not empty
   74  a data directory or a file cannot be used or written
   75  a lock was lost before its command ended
   78  the configuration is invalid, or its Redis failed the preflight check or contains an
       unfinished import
  126  the command of `tollgate lock` cannot be executed
  127  the command of `tollgate lock` does not exist
Any other status is that of the command of `tollgate lock`, or 128 plus the number of a signal.";

/// The command line is invalid.
pub const USAGE: u8 = 64;
/// A data directory or an export is damaged.
pub const DATA: u8 = 65;
/// A data directory or an export does not exist or cannot be read.
pub const NO_INPUT: u8 = 66;
/// A server, an address, a Redis or a data directory is unavailable.
pub const UNAVAILABLE: u8 = 69;
/// The target of an import is not empty.
pub const OCCUPIED: u8 = 73;
/// A data directory or a file cannot be used or written.
pub const IO: u8 = 74;
const CONFIG: u8 = 78;

/// A call was refused, or a server is NOT_SERVING.
pub const REFUSED: u8 = 1;

/// A lock was lost before its command ended. EX_TEMPFAIL, because a later attempt may succeed.
pub const LOST: u8 = 75;

/// Reports that the configuration is invalid.
pub fn config(error: &impl Display) -> ExitCode {
    end(error, CONFIG)
}

/// Reports that a server, an address or a Redis is unreachable, or has failed.
pub fn unavailable(error: &impl Display) -> ExitCode {
    end(error, UNAVAILABLE)
}

/// Reports that a file cannot be written.
pub fn unwritten(error: &impl Display) -> ExitCode {
    end(error, IO)
}

/// Reports an error and returns its exit code.
pub fn end(error: &impl Display, code: u8) -> ExitCode {
    // If standard error cannot be written, the exit code still says what matters.
    warn(&error.to_string());
    ExitCode::from(code)
}
