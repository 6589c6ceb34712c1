//! Counts calls and connections by namespace, and rejects calls above a limit of `[[namespace]]`.

use std::cell::RefCell;

use hyper::http::Extensions;
use tollgate_http::Route;

use super::scope::Scope;
use tollgate_core::{error::Error, names::Namespace};
use tollgate_engine::{
    Engine,
    budget::{Held, NamespaceBudget, NamespaceUse},
};

/// The prefix of the namespace that a connection counts for, if namespaces have limits.
#[derive(Debug, Default)]
pub(super) struct ConnectionQuota(RefCell<Option<(Box<[u8]>, Held)>>);

impl ConnectionQuota {
    /// Counts the connection for the namespace of its last call. Fails if the namespace has its
    /// maximum of connections.
    fn count_for(&self, prefix: &[u8], used: &NamespaceUse) -> Result<(), Error> {
        let mut namespace = self.0.borrow_mut();
        if namespace.as_ref().is_none_or(|(known, _)| **known != *prefix) {
            *namespace = Some((prefix.into(), used.connection()?));
        }
        Ok(())
    }
}

/// Returns the prefix of the namespace of a call.
pub(super) fn prefix(extensions: &Extensions) -> &[u8] {
    extensions.get::<Scope>().map_or(&[], |scope| scope.namespace().prefix())
}

/// Counts a call until the result is dropped; returns `None` without limits. Calls that free
/// capacity or renew leases are counted but never rejected.
pub(super) fn admit(
    engine: &Engine,
    route: &Route,
    extensions: &Extensions,
    connection: &ConnectionQuota,
) -> Result<Option<Held>, Error> {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    if namespaces.is_empty() {
        return Ok(None);
    }
    let prefix = prefix(extensions);
    let Some(used) = namespaces.of(prefix) else { return Ok(None) };
    match connection.count_for(prefix, &used) {
        Err(error) if !route.frees_capacity => Err(error),
        _ => used.call(route.frees_capacity).map(Some),
    }
}

/// Counts a call within the process like [`admit`], but without a connection.
#[cfg(any(feature = "console", test, fuzzing))]
pub(super) fn admit_in_process(
    engine: &Engine,
    route: &Route,
    extensions: &Extensions,
) -> Result<Option<Held>, Error> {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    match namespaces.of(prefix(extensions)).filter(|_| !namespaces.is_empty()) {
        None => Ok(None),
        Some(used) => used.call(route.frees_capacity).map(Some),
    }
}

/// Charges the requests of a batch to the calls per second of its namespace. Before their number
/// was known, [`admit`] has counted the batch as one call.
pub(super) fn charge(engine: &Engine, namespace: &Namespace, requests: usize) {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    if !namespaces.is_empty()
        && let Some(used) = namespaces.of(namespace.prefix())
    {
        used.charge(u32::try_from(requests.saturating_sub(1)).unwrap_or(u32::MAX));
    }
}
