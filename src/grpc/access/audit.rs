//! Audit log lines (target `audit`): one for each `manage` call, each rejected call, and each floor
//! that moves a sequence.
//!
//! A hostile caller can cause rejections at any rate, so their lines are rate-limited, and the next
//! line counts the suppressed ones. Known and unknown callers have separate limits.

use std::{sync::Arc, time::Duration};

use hyper::{HeaderMap, header::HeaderName};
use tonic::Code;

use super::super::{
    rpcs::{Permission, Rpc},
    scope::{Origin, RecordedNames, Scope},
    status::code_name,
};
use tollgate_core::{names::Namespace, sequence::Sequence};
use tollgate_telemetry::{
    line_pace::LinePace,
    spans,
    text::{escaped, start},
};

/// Maximum number of lines about rejected calls in a period.
const LINES_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a caller's text in a line.
const TEXT_BYTES_MAX: usize = 256;
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The limits for unknown callers and for known ones.
static UNKNOWN: LinePace = LinePace::new(LINES_MAX, PERIOD);
static KNOWN: LinePace = LinePace::new(LINES_MAX, PERIOD);

/// Logs a rejected call. `caller` is empty if it is unknown; `namespace` and `verb` are then text
/// that the caller sent.
pub(super) fn refused(caller: &str, namespace: &str, verb: &str, name: &str, reason: &str) {
    let paced = if caller.is_empty() { &UNKNOWN } else { &KNOWN };
    let Some(suppressed) = paced.due() else { return };
    let [caller, namespace, verb, name] =
        [caller, namespace, verb, name].map(|text| start(text, TEXT_BYTES_MAX));
    let (caller, namespace) = (escaped(caller), escaped(namespace));
    let (verb, name) = (escaped(verb), escaped(name));
    let trace_id = spans::trace_id().map(tracing::field::display);
    tracing::warn!(
        target: "audit", trace_id, %caller, %namespace, %verb, %name, result = reason, suppressed,
        "refused"
    );
}

/// Logs a floor that has moved a sequence. `suppressed` counts the lines suppressed before it.
pub(in super::super) fn audit_floor(
    origin: &Origin,
    verb: &'static str,
    sequence: &Sequence,
    floor: u64,
    suppressed: u64,
) {
    let name = String::from_utf8_lossy(&sequence.local_name()).into_owned();
    let (caller, name) = (escaped(origin.caller()), escaped(&name));
    let namespace = origin.namespace().as_str();
    tracing::info!(
        target: "audit", %caller, namespace, verb, %name, floor, result = "OK", suppressed,
        "floor applied"
    );
}

/// A call whose end is logged: a `manage` call, or a call whose names are checked.
#[derive(Debug)]
pub(in super::super) struct Audited {
    rpc: &'static Rpc,
    /// Name of the caller.
    caller: Arc<str>,
    namespace: Namespace,
    /// The names in the request, which its parser records.
    named: RecordedNames,
    /// Whether the call has been answered. If it is dropped before, it is logged as cancelled.
    is_ended: bool,
    /// Whether the call is logged: it needs `manage`, or it is an action of the console.
    is_logged: bool,
}

impl Audited {
    /// Starts recording a call. Its names are recorded through the scope of the request.
    pub(super) fn new(
        rpc: &'static Rpc,
        caller: Arc<str>,
        namespace: Namespace,
        scope: &mut Scope,
    ) -> Audited {
        let is_logged = rpc.permission == Permission::Manage;
        Audited { rpc, caller, namespace, named: scope.record_names(), is_ended: false, is_logged }
    }

    /// Logs the call even if it needs only `use`.
    #[cfg(feature = "console")]
    pub(super) fn log_always(&mut self) {
        self.is_logged = true;
    }

    /// Logs the call, if it is to be logged, with the result in the headers of its answer.
    pub(in super::super) fn end(mut self, headers: &HeaderMap) {
        self.is_ended = true;
        let status = headers.get(STATUS);
        let code = status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
        if code == Code::PermissionDenied {
            let name = self.named.text();
            let (namespace, verb) = (self.namespace.as_str(), self.rpc.name);
            refused(&self.caller, namespace, verb, &name, "NAME_NOT_PERMITTED");
        } else {
            // Items of a batch are rejected one by one.
            let denied = self.named.denied();
            if !denied.is_empty() {
                let (namespace, verb) = (self.namespace.as_str(), self.rpc.name);
                refused(&self.caller, namespace, verb, &denied, "NAME_NOT_PERMITTED");
            }
            self.log(&code_name(code));
        }
    }

    /// Logs a `manage` call or an action of the console. These lines are never suppressed.
    fn log(&self, result: &str) {
        if self.is_logged {
            let name = self.named.text();
            let (caller, name) = (escaped(&self.caller), escaped(&name));
            let (namespace, verb) = (self.namespace.as_str(), self.rpc.name);
            tracing::info!(target: "audit", %caller, namespace, verb, %name, result, "managed");
        }
    }
}

/// A call that its caller has cancelled may still have been executed.
impl Drop for Audited {
    fn drop(&mut self) {
        if !self.is_ended {
            self.log(&code_name(Code::Cancelled));
        }
    }
}
