//! The scope of a request: its caller, its namespace, and the names that the caller may use.

use std::sync::Arc;

use hyper::http::Extensions;
use parking_lot::Mutex;

use tollgate_core::{
    globs::Globs,
    names::{Name, Namespace},
};

/// The scope of a request, in its extensions. A request without one may use all names of the
/// default namespace, because no callers are configured or its caller is not limited to some names;
/// such a request pays nothing for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    rights: Option<Arc<Rights>>,
    /// The names in the call, if they are recorded.
    named: Option<RecordedNames>,
}

/// Records the names of a call's partitions, for its audit line.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordedNames(Arc<Mutex<RecordedSets>>);

#[derive(Debug, Default)]
struct RecordedSets {
    names: Vec<Name>,
    /// Names in single items of the call that its caller may not use.
    denied: Vec<Name>,
}

impl RecordedNames {
    /// Returns the names, separated by commas.
    pub(super) fn text(&self) -> String {
        joined(&self.0.lock().names)
    }

    /// Returns the names of rejected items, separated by commas.
    pub(super) fn denied(&self) -> String {
        joined(&self.0.lock().denied)
    }
}

fn joined(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(",")
}

/// Adds a name, unless the list contains it or is full.
fn add(names: &mut Vec<Name>, name: &Name) {
    if names.len() < NAMES_RECORDED_MAX && !names.contains(name) {
        names.push(name.clone());
    }
}

/// The caller and the namespace of a call, for log lines and spans; empty without callers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin(Option<Arc<Rights>>);

impl Origin {
    /// Returns the name of the caller; empty if it is unknown.
    pub(super) fn caller(&self) -> &str {
        self.0.as_ref().map_or("", |rights| &rights.caller)
    }

    /// Returns the namespace of the call.
    pub(super) fn namespace(&self) -> &Namespace {
        self.0.as_ref().map_or(&DEFAULT, |rights| &rights.namespace)
    }
}

/// Maximum number of names that are recorded for a call.
const NAMES_RECORDED_MAX: usize = 4;

/// The namespace of requests without a scope.
static DEFAULT: Namespace = Namespace::DEFAULT;

#[derive(Debug)]
struct Rights {
    caller: Box<str>,
    namespace: Namespace,
    /// The globs of permitted names; `None` permits all.
    names: Option<Arc<Globs>>,
}

impl Scope {
    /// Creates the scope of a caller in a namespace. `names` are the globs of the local names that
    /// it may use; `None` permits all.
    pub(crate) fn new(caller: &str, namespace: Namespace, names: Option<Arc<Globs>>) -> Scope {
        let rights = Arc::new(Rights { caller: caller.into(), namespace, names });
        Scope { rights: Some(rights), named: None }
    }

    /// Starts recording the names in the call.
    pub(super) fn record_names(&mut self) -> RecordedNames {
        self.named.get_or_insert_default().clone()
    }

    /// Records a name in the call.
    pub(super) fn record(&self, name: &Name) {
        if let Some(RecordedNames(recorded)) = &self.named {
            add(&mut recorded.lock().names, name);
        }
    }

    /// Records a name because of which one item of the call is rejected.
    pub(super) fn record_denied(&self, name: &Name) {
        if let Some(RecordedNames(recorded)) = &self.named {
            add(&mut recorded.lock().denied, name);
        }
    }

    /// Removes the scope from the extensions of a request.
    pub(super) fn take(extensions: &mut Extensions) -> Scope {
        extensions.remove().unwrap_or_default()
    }

    /// Returns the caller and the namespace.
    pub(super) fn origin(&self) -> Origin {
        Origin(self.rights.clone())
    }

    /// Returns the name of the caller; empty without callers.
    pub(crate) fn caller(&self) -> &str {
        self.rights.as_ref().map_or("", |rights| &rights.caller)
    }

    /// Returns the namespace of the request.
    pub(crate) fn namespace(&self) -> &Namespace {
        self.rights.as_ref().map_or(&DEFAULT, |rights| &rights.namespace)
    }

    /// Whether the caller may use the local name of a pool, policy, sequence, lock or sku, or of a
    /// key without a policy.
    pub(crate) fn permits(&self, name: &Name) -> bool {
        let names = self.rights.as_ref().and_then(|rights| rights.names.as_ref());
        names.is_none_or(|names| names.first(name).is_some())
    }

    /// Returns the name in the namespace of the request.
    pub(super) fn name(&self, local: Name) -> Name {
        match &self.rights {
            None => local,
            Some(rights) => local.within(&rights.namespace),
        }
    }
}
