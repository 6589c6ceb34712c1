//! The scope of a request: the caller, its namespace, and the names that it may use.

use std::sync::Arc;

use hyper::http::Extensions;
use parking_lot::Mutex;

use tollgate_core::{
    globs::Globs,
    names::{Name, Namespace},
};

/// The scope of a request, in its extensions. A request without one may use all names of the
/// default namespace: no caller is configured, or its caller has no globs of names. It costs such a
/// request nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    rights: Option<Arc<Rights>>,
    /// The names of the call, if they are noted.
    named: Option<NotedNames>,
}

/// The names of a call's partitions, for its audit line.
#[derive(Debug, Clone, Default)]
pub(super) struct NotedNames(Arc<Mutex<NotedSets>>);

#[derive(Debug, Default)]
struct NotedSets {
    names: Vec<Name>,
    /// Names of single items of the call that its caller may not use.
    denied: Vec<Name>,
}

impl NotedNames {
    /// The names, with commas between them.
    pub(super) fn text(&self) -> String {
        joined(&self.0.lock().names)
    }

    /// The names of denied items, with commas between them; empty without any.
    pub(super) fn denied(&self) -> String {
        joined(&self.0.lock().denied)
    }
}

fn joined(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(",")
}

/// Adds a name, unless it is there or there are enough.
fn add(names: &mut Vec<Name>, name: &Name) {
    if names.len() < NAMES_NOTED_MAX && !names.contains(name) {
        names.push(name.clone());
    }
}

/// The caller and the namespace of a call, for log lines and spans. Empty without callers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin(Option<Arc<Rights>>);

impl Origin {
    /// The name of the caller; empty if it is not known.
    pub(super) fn caller(&self) -> &str {
        self.0.as_ref().map_or("", |rights| &rights.caller)
    }

    /// The namespace of the call.
    pub(super) fn namespace(&self) -> &Namespace {
        self.0.as_ref().map_or(&DEFAULT, |rights| &rights.namespace)
    }
}

/// The most names of a call that are noted.
const NAMES_NOTED_MAX: usize = 4;

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
    /// The scope of a caller in a namespace. `names` are the globs of the local names that it may
    /// use, `None` for all.
    pub(crate) fn new(caller: &str, namespace: Namespace, names: Option<Arc<Globs>>) -> Scope {
        let rights = Arc::new(Rights { caller: caller.into(), namespace, names });
        Scope { rights: Some(rights), named: None }
    }

    /// Starts to note the names of the call.
    pub(super) fn note_names(&mut self) -> NotedNames {
        self.named.get_or_insert_default().clone()
    }

    /// Notes a name of the call.
    pub(super) fn note(&self, name: &Name) {
        if let Some(NotedNames(noted)) = &self.named {
            add(&mut noted.lock().names, name);
        }
    }

    /// Notes a name for which one item of the call is denied.
    pub(super) fn note_denied(&self, name: &Name) {
        if let Some(NotedNames(noted)) = &self.named {
            add(&mut noted.lock().denied, name);
        }
    }

    /// Takes the scope out of the extensions of a request.
    pub(super) fn take(extensions: &mut Extensions) -> Scope {
        extensions.remove().unwrap_or_default()
    }

    /// The caller and the namespace.
    pub(super) fn origin(&self) -> Origin {
        Origin(self.rights.clone())
    }

    /// The name of the caller; empty without callers.
    pub(crate) fn caller(&self) -> &str {
        self.rights.as_ref().map_or("", |rights| &rights.caller)
    }

    /// The namespace of the request.
    pub(crate) fn namespace(&self) -> &Namespace {
        self.rights.as_ref().map_or(&DEFAULT, |rights| &rights.namespace)
    }

    /// Whether the caller may use the local name of a pool, policy, sequence, lock or sku, or of a
    /// key without a policy.
    pub(crate) fn permits(&self, name: &Name) -> bool {
        let names = self.rights.as_ref().and_then(|rights| rights.names.as_ref());
        names.is_none_or(|names| names.first(name).is_some())
    }

    /// The name in the namespace of the request.
    pub(super) fn name(&self, local: Name) -> Name {
        match &self.rights {
            None => local,
            Some(rights) => local.within(&rights.namespace),
        }
    }
}
