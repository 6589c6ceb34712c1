//! Accepted credentials that a connection remembers.

use std::{sync::Arc, time::Duration};

use tollgate_http::CertificateNames;

use super::{super::scope::Scope, callers::Caller, token};
use tollgate_core::names::Namespace;
use tollgate_telemetry::coarse;

/// What proves the identity of a caller. Not printable, because it contains secrets.
#[derive(Clone)]
pub(super) enum Credentials {
    /// The value of `authorization`.
    Authorization(Box<[u8]>),
    /// The names of the client certificate, if there is one.
    Certificate(Option<Arc<CertificateNames>>),
}

/// Accepted credentials and their caller.
pub(super) struct Memo {
    /// The generation of the callers that the credentials were accepted for.
    pub(super) generation: u64,
    pub(super) credentials: Credentials,
    /// When they expire, on the coarse clock.
    pub(super) until: Option<Duration>,
    pub(super) caller: Arc<Caller>,
    /// The namespace of the last call and its scope. One is enough, because all calls of a
    /// connection run on one thread.
    pub(super) scope: Option<(Namespace, Scope)>,
}

impl Memo {
    /// Whether the memo is for these credentials and still valid.
    pub(super) fn is_current(&self, generation: u64, authorization: Option<&[u8]>) -> bool {
        let is_same = match (&self.credentials, authorization) {
            // Compared in constant time, because a proxy may carry the calls of several callers.
            (Credentials::Authorization(known), Some(value)) => token::equal(known, value),
            (Credentials::Certificate(_), None) => true,
            _ => false,
        };
        is_same && self.is_valid(generation)
    }

    /// Whether the credentials are still valid.
    pub(super) fn is_valid(&self, generation: u64) -> bool {
        self.generation == generation && self.until.is_none_or(|until| coarse() < until)
    }

    /// Returns the scope of calls in a namespace, and whether it is anything else than all names of
    /// the default namespace.
    pub(super) fn scope(&mut self, namespace: &Namespace) -> (Scope, bool) {
        let caller = &self.caller;
        let is_limited = caller.names.is_some() || !namespace.is_default();
        let scope = match &self.scope {
            Some((known, scope)) if known == namespace => scope.clone(),
            _ => {
                let scope = Scope::new(&caller.name, namespace.clone(), caller.names.clone());
                self.scope = Some((namespace.clone(), scope.clone()));
                scope
            }
        };
        (scope, is_limited)
    }
}
