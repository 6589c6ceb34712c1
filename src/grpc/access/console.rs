//! Access to the console.

use std::sync::Arc;

use hyper::HeaderMap;
use tollgate_console::ConsoleCaller;
use tonic::Status;

use super::{Access, Audited, Granted, Peer, Permission, asked_namespace, audit};
use crate::grpc::{rpcs, scope::Scope};
use tollgate_core::names::Namespace;

/// The caller in audit lines, and the actor, on a server without callers.
pub(in crate::grpc) const CONSOLE: &str = "console";

impl Access {
    /// Finds the caller who signs in to the console. The error is the reason, worded for the user.
    pub(crate) fn console_caller(&self, headers: &HeaderMap) -> Result<ConsoleCaller, String> {
        let memo = self.caller(headers).map_err(|denial| {
            audit::refused("", "", "console login", "", denial.reason());
            denial.status().message().to_owned()
        })?;
        let grants = &memo.caller.grants;
        let chooses_namespace = grants.len() > 1 || grants.iter().any(|(known, _)| known.is_none());
        Ok(ConsoleCaller { name: memo.caller.name.clone(), chooses_namespace })
    }

    /// Whether the credentials in the headers still belong to a caller.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        self.is_open() || self.caller(headers).is_ok()
    }

    /// Returns the namespace in which a caller may call an RPC, given the namespace that the
    /// headers request; `None` if it may not. Names are checked where they are parsed.
    pub(crate) fn permitted(&self, path: &str, headers: &HeaderMap) -> Option<Namespace> {
        if self.is_open() {
            return Some(Namespace::DEFAULT);
        }
        let asked = asked_namespace(headers).ok()?;
        let memo = self.caller(headers).ok()?;
        memo.caller.permit(rpcs::of(path)?, asked).ok()
    }

    /// Whether a caller may read the pages about all namespaces.
    pub(crate) fn permits_server(&self, headers: &HeaderMap) -> bool {
        self.is_open() || self.caller(headers).is_ok_and(|memo| memo.caller.reads_server())
    }

    /// Checks a call of the console as [`Access::check`] checks a gRPC call. Every call that is not
    /// a read gets an audit line, even on a server without callers.
    pub(in crate::grpc) fn check_console(
        self: &Arc<Access>,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Granted, Status> {
        let mut granted = if self.is_open() {
            Granted::default()
        } else {
            self.check(path, headers, &Peer::default())?
        };
        let Some(rpc) = rpcs::of(path).filter(|rpc| rpc.permission != Permission::Read) else {
            return Ok(granted);
        };
        if granted.audited.is_none() {
            let caller =
                if self.is_open() { CONSOLE.into() } else { granted.origin.caller().into() };
            let namespace: Namespace = granted.origin.namespace().clone();
            let scope = granted.scope.get_or_insert_with(Scope::default);
            granted.audited = Some(Box::new(Audited::new(rpc, caller, namespace, scope)));
        }
        granted.audited.as_mut().into_iter().for_each(|audited| audited.log_always());
        Ok(granted)
    }
}
