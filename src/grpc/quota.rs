//! Counts calls for their namespaces, and refuses those above a limit of `[[namespace]]`.

use hyper::http::Extensions;

use super::{load, scope::Scope};
use crate::{
    decision::{
        budget::{Held, NamespaceBudget},
        error::Error,
    },
    engine::Engine,
};

/// Counts a call until the result is dropped; `None` without limits. Calls that free capacity, or
/// keep what is held, are counted and never refused.
pub(super) fn enter(
    engine: &Engine,
    method: &str,
    extensions: &Extensions,
) -> Result<Option<Held>, Error> {
    let namespaces: &NamespaceBudget = engine.hub().namespaces();
    if namespaces.is_empty() {
        return Ok(None);
    }
    let prefix = extensions.get::<Scope>().map_or(&[][..], |scope| scope.namespace().prefix());
    namespaces.of(prefix).map(|used| used.call(load::is_freeing(method))).transpose()
}
