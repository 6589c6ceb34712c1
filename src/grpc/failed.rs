//! Log lines of failed calls.
//!
//! A caller or a failing store can repeat a failure at any rate. Lines are therefore limited for
//! each RPC, code and reason, and the next line counts the suppressed ones. Calls that fail
//! authentication or authorization have audit lines instead.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{scope::Origin, status::code_name, traces::is_fault};
use tollgate_telemetry::{line_pace::LinePaces, spans, text};

/// Maximum number of lines about one kind of failure per period.
const LINES_MAX: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of kinds. The server defines RPCs and reasons, so callers cannot create kinds.
const KINDS_MAX: usize = 512;
/// Maximum number of bytes of a message in a line, since it may quote a name from the request.
const MESSAGE_BYTES_MAX: usize = 256;

/// The RPC, the code and the reason of a failure.
type Kind = (&'static str, &'static str, i32, String);

static PACES: LinePaces<Kind> = LinePaces::new(LINES_MAX, PERIOD, KINDS_MAX);

/// Logs a failed call: a fault of the server as a warning, an error of its caller at debug.
#[cold]
pub(super) fn log(service: &'static str, method: &'static str, origin: &Origin, status: &Status) {
    let code = status.code();
    let is_warning = is_fault(code) && code != Code::Unimplemented;
    if !is_warning && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let reason = status.get_details_error_info().map_or_else(String::new, |info| info.reason);
    let Some(suppressed) = PACES.due((service, method, code as i32, reason.clone())) else {
        return;
    };
    let method = format_args!("{service}/{method}");
    let (code, trace_id) = (code_name(code), spans::trace_id().map(tracing::field::display));
    let (caller, namespace) = (text::escaped(origin.caller()), origin.namespace().as_str());
    let error = text::escaped(text::start(status.message(), MESSAGE_BYTES_MAX));
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                trace_id, %method, code, reason, %caller, namespace, suppressed, %error,
                "a call has failed"
            )
        };
    }
    if is_warning { line!(warn) } else { line!(debug) }
}
