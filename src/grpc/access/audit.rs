//! Audit lines, target `audit`: one for each `manage` call and one for each refusal.
//!
//! A hostile caller can cause refusals at any pace, so their lines are limited; the next line
//! counts the suppressed ones. Refusals of known and of unknown callers have limits of their own.

use std::{mem, sync::Arc, time::Duration};

use hyper::{HeaderMap, header::HeaderName};
use parking_lot::Mutex;
use tonic::Code;

use super::{
    super::{
        scope::{NotedNames, Scope},
        status::code_name,
    },
    rpc::{Permission, Rpc},
};
use crate::decision::{
    names::Namespace,
    text::{escaped, start},
    time::coarse,
};

/// Lines about refusals in a period.
const LINES_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);
/// The most bytes of a caller's text in a line.
const TEXT_BYTES_MAX: usize = 256;
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Refusals of callers that are not known, and of known ones.
static UNKNOWN: Paced = Paced::new();
static KNOWN: Paced = Paced::new();

/// The limit on one kind of line.
struct Paced(Mutex<AuditPace>);

struct AuditPace {
    /// Start of the period on the coarse clock.
    start: Duration,
    /// The lines of the period so far.
    lines: u32,
    /// The lines that were suppressed since the last one.
    suppressed: u64,
}

impl Paced {
    const fn new() -> Paced {
        Paced(Mutex::new(AuditPace { start: Duration::ZERO, lines: 0, suppressed: 0 }))
    }

    /// Returns how many lines were suppressed since the last one, if a line may be logged.
    fn due(&self, now: Duration) -> Option<u64> {
        let mut pace = self.0.lock();
        if now.saturating_sub(pace.start) >= PERIOD {
            (pace.start, pace.lines) = (now, 0);
        }
        if pace.lines >= LINES_MAX {
            pace.suppressed += 1;
            return None;
        }
        pace.lines += 1;
        Some(mem::take(&mut pace.suppressed))
    }
}

/// Logs a refusal. `caller` is empty if it is not known; `namespace` and `verb` are texts of the
/// caller then.
pub(super) fn refused(caller: &str, namespace: &str, verb: &str, name: &str, reason: &str) {
    let paced = if caller.is_empty() { &UNKNOWN } else { &KNOWN };
    let Some(suppressed) = paced.due(coarse()) else { return };
    let [caller, namespace, verb, name] =
        [caller, namespace, verb, name].map(|text| start(text, TEXT_BYTES_MAX));
    let (caller, namespace) = (escaped(caller), escaped(namespace));
    let (verb, name) = (escaped(verb), escaped(name));
    tracing::warn!(
        target: "audit", %caller, %namespace, %verb, %name, result = reason, suppressed, "refused"
    );
}

/// A call whose end is logged: a `manage` call, or a call whose names are checked.
#[derive(Debug)]
pub(in super::super) struct Audited {
    rpc: Rpc,
    /// The name of the caller.
    caller: Arc<str>,
    namespace: Namespace,
    /// The names in the request, which its parser notes.
    named: NotedNames,
    /// Whether the call has an answer. Otherwise it is logged as cancelled.
    is_ended: bool,
}

impl Audited {
    /// Begins a call. Its names are noted in the scope of the request.
    pub(super) fn new(
        rpc: Rpc,
        caller: Arc<str>,
        namespace: Namespace,
        scope: &mut Scope,
    ) -> Audited {
        Audited { rpc, caller, namespace, named: scope.note_names(), is_ended: false }
    }

    /// Logs the call, if it is one to log, with the headers of its answer.
    pub(in super::super) fn end(mut self, headers: &HeaderMap) {
        self.is_ended = true;
        let status = headers.get(STATUS);
        let code = status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
        if code == Code::PermissionDenied {
            let name = self.named.text();
            let (namespace, verb) = (self.namespace.as_str(), self.rpc.name);
            refused(&self.caller, namespace, verb, &name, "NAME_NOT_PERMITTED");
        } else {
            self.log(&code_name(code));
        }
    }

    /// Logs a `manage` call. The number of such lines is not limited, so that none is lost.
    fn log(&self, result: &str) {
        if self.rpc.permission == Permission::Manage {
            let name = self.named.text();
            let (caller, name) = (escaped(&self.caller), escaped(&name));
            let (namespace, verb) = (self.namespace.as_str(), self.rpc.name);
            tracing::info!(target: "audit", %caller, namespace, verb, %name, result, "managed");
        }
    }
}

/// A call that its caller has cancelled may have been executed.
impl Drop for Audited {
    fn drop(&mut self) {
        if !self.is_ended {
            self.log(&code_name(Code::Cancelled));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_with_a_count() {
        let (paced, now) = (Paced::new(), Duration::from_secs(100));
        for _ in 0..LINES_MAX {
            assert_eq!(paced.due(now), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(paced.due(now), None);
        }
        assert_eq!(paced.due(now + PERIOD), Some(5));
        assert_eq!(paced.due(now + PERIOD), Some(0));
    }
}
