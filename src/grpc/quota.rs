//! Counts calls and connections for their namespaces, and refuses calls above a limit of
//! `[[namespace]]`.

use hyper::http::Extensions;

use super::{held::ConnectionBudget, rpcs::Rpc, scope::Scope};
use tollgate_core::{error::Error, names::Namespace};
use tollgate_engine::{
    Engine,
    budget::{Held, NamespaceBudget},
};

/// Counts a call until the result is dropped; `None` without limits. Calls that free capacity, or
/// keep what is held, are counted and never refused.
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

/// Counts a call of the console as [`enter`] does. It has no connection of its own.
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

/// Charges the requests of a batch to the calls per second of its namespace. [`enter`] has counted
/// the call as one, before their number was known.
pub(super) fn charge(engine: &Engine, namespace: &Namespace, requests: usize) {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    if !namespaces.is_empty()
        && let Some(used) = namespaces.of(namespace.prefix())
    {
        used.charge(u32::try_from(requests.saturating_sub(1)).unwrap_or(u32::MAX));
    }
}
