//! Counts calls and connections by namespace, and rejects calls above a limit of `[[namespace]]`.

use hyper::http::Extensions;

use super::{held::ConnectionBudget, rpcs::Rpc, scope::Scope};
use tollgate_core::{error::Error, names::Namespace};
use tollgate_engine::{
    Engine,
    budget::{Held, NamespaceBudget},
};

/// Counts a call until the result is dropped; returns `None` without limits. Calls that free
/// capacity or renew leases are counted but never rejected.
pub(super) fn enter(
    engine: &Engine,
    rpc: &Rpc,
    extensions: &Extensions,
    holding: &ConnectionBudget,
) -> Result<Option<Held>, Error> {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    if namespaces.is_empty() {
        return Ok(None);
    }
    let prefix = extensions.get::<Scope>().map_or(&[][..], |scope| scope.namespace().prefix());
    let Some(used) = namespaces.of(prefix) else { return Ok(None) };
    match holding.count_for(prefix, || used.connection()) {
        Err(error) if !rpc.frees_capacity => Err(error),
        _ => used.call(rpc.frees_capacity).map(Some),
    }
}

/// Counts a call of the console like [`enter`], but without a connection.
#[cfg(feature = "console")]
pub(super) fn enter_console(
    engine: &Engine,
    rpc: &Rpc,
    extensions: &Extensions,
) -> Result<Option<Held>, Error> {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    let prefix = extensions.get::<Scope>().map_or(&[][..], |scope| scope.namespace().prefix());
    match namespaces.of(prefix).filter(|_| !namespaces.is_empty()) {
        None => Ok(None),
        Some(used) => used.call(rpc.frees_capacity).map(Some),
    }
}

/// Charges the requests of a batch to the calls per second of its namespace. Before their number
/// was known, [`enter`] has counted the batch as one call.
pub(super) fn charge(engine: &Engine, namespace: &Namespace, requests: usize) {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    if !namespaces.is_empty()
        && let Some(used) = namespaces.of(namespace.prefix())
    {
        used.charge(u32::try_from(requests.saturating_sub(1)).unwrap_or(u32::MAX));
    }
}
