//! Access to the admin pages and to the console.

use std::sync::Arc;

use hyper::HeaderMap;
use tonic::Status;

use super::{
    Access, Audited, Credentials, Denial, Granted, Memo, Peer, Permission, Service,
    asked_namespace, audit, authorization, callers::Caller, rpc,
};
use crate::grpc::scope::Scope;
use tollgate_core::names::Namespace;

/// The caller in audit lines, and the actor, of a server without callers.
pub(in crate::grpc) const CONSOLE: &str = "console";

/// A caller that has signed in to the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleCaller {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it may choose its namespace.
    pub chooses_namespace: bool,
}

impl Access {
    /// Checks the token in the headers of a request for an admin page. Its caller needs the
    /// permission `read` in every namespace, and no globs of names. The error is whether the token
    /// is valid, and the reason.
    pub fn check_admin(&self, headers: &HeaderMap) -> Result<(), (bool, String)> {
        let refused = |denial: Denial| {
            audit::refused("", "", "admin pages", "", denial.reason());
            (false, denial.status().message().to_owned())
        };
        let memo = self.caller(headers).map_err(refused)?;
        match memo.caller.reads_server() {
            true => Ok(()),
            false => {
                let denial = Denial::Service(Service::Admin);
                audit::refused(&memo.caller.name, "", "admin pages", "", denial.reason());
                Err((true, "requires a caller that may read in every namespace".to_owned()))
            }
        }
    }

    /// Authenticates the credentials in headers, without a check of rights. The error is the reason.
    fn caller(&self, headers: &HeaderMap) -> Result<Memo, Denial> {
        let value = authorization(headers)?.ok_or(Denial::Missing)?;
        let credentials = Credentials::Authorization(value.into());
        self.authenticate(credentials, self.generation())
    }

    /// Finds the caller of a console. The error is the reason, in words for the user.
    pub(crate) fn console_caller(&self, headers: &HeaderMap) -> Result<ConsoleCaller, String> {
        let memo = self.caller(headers).map_err(|denial| {
            audit::refused("", "", "console login", "", denial.reason());
            denial.status().message().to_owned()
        })?;
        let grants = &memo.caller.grants;
        let chooses_namespace = grants.len() > 1 || grants.iter().any(|(known, _)| known.is_none());
        Ok(ConsoleCaller { name: memo.caller.name.clone(), chooses_namespace })
    }

    /// Whether the credentials in headers are still those of a caller.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        self.is_open() || self.caller(headers).is_ok()
    }

    /// The namespace in which a caller may use an rpc, for the namespace that the headers ask for;
    /// `None` if it may not. Its names are checked where they are parsed.
    pub(crate) fn permitted(&self, path: &str, headers: &HeaderMap) -> Option<Namespace> {
        if self.is_open() {
            return Some(Namespace::DEFAULT);
        }
        let asked = asked_namespace(headers).ok()?;
        let memo = self.caller(headers).ok()?;
        memo.caller.permit(rpc::of(path)?, asked).ok()
    }

    /// Whether a caller may read the pages about all namespaces.
    pub(crate) fn permits_server(&self, headers: &HeaderMap) -> bool {
        self.is_open() || self.caller(headers).is_ok_and(|memo| memo.caller.reads_server())
    }

    /// Checks a call of the console as [`Access::check`] checks one of gRPC. Every call that is no
    /// read gets an audit line, also on a server without callers.
    pub(in crate::grpc) fn check_console(
        self: &Arc<Access>,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Granted, Status> {
        let mut granted = match self.is_open() {
            true => Granted::default(),
            false => self.check(path, headers, &Peer::default())?,
        };
        let Some(rpc) = rpc::of(path).filter(|rpc| rpc.permission != Permission::Read) else {
            return Ok(granted);
        };
        if granted.audited.is_none() {
            let caller = match self.is_open() {
                true => CONSOLE.into(),
                false => granted.origin.caller().into(),
            };
            let namespace: Namespace = granted.origin.namespace().clone();
            let scope = granted.scope.get_or_insert_with(Scope::default);
            granted.audited = Some(Box::new(Audited::new(rpc, caller, namespace, scope)));
        }
        granted.audited.as_mut().into_iter().for_each(|audited| audited.log_always());
        Ok(granted)
    }
}

impl Caller {
    /// Whether it may read in every namespace, and has no globs of names.
    fn reads_server(&self) -> bool {
        let may_read = self.grants.iter().any(|(namespace, permissions)| {
            namespace.is_none() && permissions.contain(Permission::Read)
        });
        may_read && self.services.contain(Service::Admin) && self.names.is_none()
    }
}
