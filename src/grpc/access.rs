//! Authentication and authorization of calls: who may call what.
//!
//! A server without callers is open, and the check costs one comparison per call. With callers, a
//! call is authenticated by `authorization: Bearer TOKEN`, or else by the client certificate of its
//! connection. The service, the permission and the namespace are checked before the message is
//! read, and names where they are parsed.
//!
//! Each connection remembers the few credentials that it used last, so that a call costs a
//! comparison even on a connection from a proxy, which carries the calls of several callers.

mod admin;
mod audit;
mod callers;
#[cfg(feature = "console")]
mod console;
mod denial;
mod jwt;
mod memo;
mod pattern;
mod token;
mod watched;

use std::{
    cell::Cell,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderName},
};

use tollgate_http::CertificateNames;
use tonic::Status;

use super::{
    rpcs::{self, Rpc},
    scope::{Origin, Scope},
};
pub(super) use audit::{Audited, audit_floor};
use callers::Caller;
use denial::Denial;
use memo::{Credentials, Memo};
use tollgate_core::{names::Namespace, time::Clock};
use tollgate_telemetry::coarse;
pub(super) use watched::Watched;

pub use super::rpcs::{Permission, Permissions, Service, Services};
pub use callers::{CallerError, CallerSpec, Callers};
#[cfg(feature = "console")]
pub(in crate::grpc) use console::CONSOLE;
pub use jwt::{Jwt, JwtAlgorithm};
pub use token::{Digest, generate};

/// Path prefixes of all versions of health checks and reflection.
const HEALTH: &str = "/grpc.health.";
pub(super) const REFLECTION: &str = "/grpc.reflection.";
/// Maximum number of credentials that a connection remembers. Each call compares its own with all
/// of them, and a JWT has 1 to 2 kB.
const MEMOS_MAX: usize = 8;
/// The metadata key for the namespace of a call.
pub(super) const NAMESPACE: HeaderName = HeaderName::from_static("x-tollgate-namespace");

/// The callers of a server, which a reload replaces.
#[derive(Debug, Default)]
pub struct Access {
    /// Grows with each replacement; 0 while anyone may do anything.
    generation: AtomicU64,
    callers: ArcSwapOption<Callers>,
    /// A [`Reflection`] as a number; 0 for the default.
    reflection: AtomicU8,
}

/// Who may use reflection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflection {
    /// Everybody.
    Open = 1,
    /// Every caller, whatever its permissions. The default where callers are configured.
    Callers,
    /// Nobody.
    Off,
}

impl Access {
    /// Creates the access rules of a server. Without callers, anyone may do anything.
    pub fn new(callers: Option<Callers>, reflection: Option<Reflection>) -> Arc<Access> {
        let access = Access::default();
        access.set_reflection(reflection);
        if let Some(callers) = callers {
            access.replace(callers);
        }
        Arc::new(access)
    }

    /// Replaces all callers. Calls that start afterwards are checked against the new ones.
    pub fn replace(&self, callers: Callers) {
        self.callers.store(Some(Arc::new(callers)));
        // Stored after the callers, so that a thread that sees the new generation also sees them.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Replaces who may use reflection; `None` for the default.
    pub fn set_reflection(&self, reflection: Option<Reflection>) {
        self.reflection.store(reflection.map_or(0, |it| it as u8), Ordering::Relaxed);
    }

    /// Whether anyone may do anything.
    pub fn is_open(&self) -> bool {
        self.generation() == 0
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn reflects(&self, to: Reflection) -> bool {
        self.reflection.load(Ordering::Relaxed) == to as u8
    }

    /// Whether the server has no reflection.
    pub(super) fn hides_reflection(&self) -> bool {
        self.reflects(Reflection::Off)
    }

    /// Whether an RPC needs no credentials.
    fn is_public(&self, path: &str) -> bool {
        path.starts_with(HEALTH) || self.reflects(Reflection::Open) && path.starts_with(REFLECTION)
    }

    /// Authenticates a call and checks its rights. `peer` remembers its credentials.
    pub(super) fn check(
        self: &Arc<Access>,
        path: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Granted, Status> {
        if self.is_public(path) {
            return Ok(Granted::default());
        }
        self.granted(path, headers, peer).map_err(|RefusedCall { denial, caller }| {
            let namespace = headers.get(NAMESPACE).and_then(|it| it.to_str().ok());
            let caller = caller.as_deref().unwrap_or_default();
            let namespace = namespace.unwrap_or_default();
            audit::refused(caller, namespace, verb(path), "", denial.reason());
            denial.status()
        })
    }

    fn granted(
        self: &Arc<Access>,
        path: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Granted, RefusedCall> {
        let authorization = authorization(headers)?;
        let generation = self.generation();
        let mut memos = peer.memos.take();
        let known = memos.iter().position(|memo| memo.is_current(generation, authorization));
        match known {
            // The credentials of the last call stay in front, since most connections have one
            // caller.
            Some(known) => memos[..=known].rotate_right(1),
            None => {
                memos.retain(|memo| memo.is_valid(generation));
                let authenticated = self.authenticated(authorization, peer, generation);
                match authenticated {
                    Ok(memo) => {
                        memos.truncate(MEMOS_MAX - 1);
                        memos.insert(0, memo);
                    }
                    Err(denial) => {
                        peer.memos.set(memos);
                        return Err(denial.into());
                    }
                }
            }
        }
        let granted = self.authorize(&mut memos[0], path, headers);
        peer.memos.set(memos);
        granted
    }

    /// Authenticates a call whose credentials the connection does not remember.
    fn authenticated(
        &self,
        authorization: Option<&[u8]>,
        peer: &Peer,
        generation: u64,
    ) -> Result<Memo, Denial> {
        let credentials = match authorization {
            Some(value) => Credentials::Authorization(value.into()),
            None => Credentials::Certificate(peer.certificate.clone()),
        };
        self.authenticate(credentials, generation)
    }

    fn authenticate(&self, credentials: Credentials, generation: u64) -> Result<Memo, Denial> {
        let now = Clock::system().now().0 / 1_000_000;
        let callers = self.callers.load();
        let callers = callers.as_deref().ok_or(Denial::Ended)?;
        let (caller, until) = match &credentials {
            Credentials::Authorization(value) => callers.find_by_token(bearer(value)?, now)?,
            Credentials::Certificate(Some(names)) => (callers.find_by_certificate(names)?, None),
            Credentials::Certificate(None) => return Err(Denial::Missing),
        };
        let until = until.map(|until| coarse() + Duration::from_secs(until.saturating_sub(now)));
        Ok(Memo { generation, credentials, until, caller, scope: None })
    }

    /// Checks the rights of a caller.
    fn authorize(
        self: &Arc<Access>,
        memo: &mut Memo,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Granted, RefusedCall> {
        // The service answers a call of an unknown RPC with an error.
        let Some(rpc) = rpcs::of(path) else { return Ok(Granted::default()) };
        let refused = |denial| RefusedCall { denial, caller: Some(memo.caller.name.clone()) };
        let asked = asked_namespace(headers).map_err(refused)?;
        let namespace = memo.caller.permit(rpc, asked).map_err(refused)?;
        let watched = rpc.is_watch.then(|| Watched::new(self, memo, rpc, namespace.clone()));
        let (mut scope, is_limited) = memo.scope(&namespace);
        let origin = scope.origin();
        if rpc.permission != Permission::Manage && memo.caller.names.is_none() {
            // The scope names the caller in the log line about a floor of NextSequence.
            let scope = (is_limited || rpc.name == "NextSequence").then_some(scope);
            return Ok(Granted { scope, origin, watched, audited: None });
        }
        let audited = Audited::new(rpc, memo.caller.name.clone(), namespace, &mut scope);
        Ok(Granted { scope: Some(scope), origin, watched, audited: Some(Box::new(audited)) })
    }
}

/// Returns the RPC of a URL path, for a log line.
fn verb(path: &str) -> &str {
    rpcs::of(path).map_or(path, |rpc| rpc.name)
}

/// Returns the value of `authorization`. Fails if it is repeated, because a proxy may have checked
/// the other one.
fn authorization(headers: &HeaderMap) -> Result<Option<&[u8]>, Denial> {
    only(headers, AUTHORIZATION).ok_or(Denial::Malformed)
}

/// Returns the namespace that the headers request. Fails if it is repeated.
fn asked_namespace(headers: &HeaderMap) -> Result<Option<&[u8]>, Denial> {
    only(headers, NAMESPACE).ok_or(Denial::NamespaceMalformed("must be one value"))
}

/// Returns the value of a header, if it is present; `None` if it is repeated.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<Option<&[u8]>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.as_bytes());
    values.next().is_none().then_some(value)
}

/// Extracts the token from a value of `authorization`.
fn bearer(value: &[u8]) -> Result<&[u8], Denial> {
    let (scheme, token) = value.split_at_checked(7).ok_or(Denial::Malformed)?;
    let token = token.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty() {
        Ok(token)
    } else {
        Err(Denial::Malformed)
    }
}

/// The peer of a connection: its certificate, and the credentials that it has used last.
#[derive(Default)]
pub(super) struct Peer {
    certificate: Option<Arc<CertificateNames>>,
    /// At most [`MEMOS_MAX`], the most recently used first.
    memos: Cell<Vec<Memo>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Peer {
    pub(super) fn new(certificate: Option<Arc<CertificateNames>>) -> Peer {
        Peer { certificate, memos: Cell::default() }
    }
}

/// A call that is allowed.
#[derive(Default)]
pub(super) struct Granted {
    /// The scope of the request; `None` for all names of the default namespace.
    pub(super) scope: Option<Scope>,
    /// The caller, for log lines and spans.
    pub(super) origin: Origin,
    /// The right to a stream.
    pub(super) watched: Option<Watched>,
    /// Logs the end of the call.
    pub(super) audited: Option<Box<Audited>>,
}

/// A call that is rejected.
struct RefusedCall {
    denial: Denial,
    /// The name of the caller, if it is known.
    caller: Option<Arc<str>>,
}

impl From<Denial> for RefusedCall {
    fn from(denial: Denial) -> RefusedCall {
        RefusedCall { denial, caller: None }
    }
}

impl Caller {
    /// Checks the rights of a call to `AdminService`. Since it concerns all namespaces, callers
    /// that are limited to some names, or to a namespace other than the default one, are rejected.
    fn permit_admin(
        &self,
        permission: Permission,
        asked: Option<&[u8]>,
    ) -> Result<Namespace, Denial> {
        let of_server =
            |known: &Option<Namespace>| known.as_ref().is_none_or(Namespace::is_default);
        let mut grants = self.grants.iter().filter(|(known, _)| of_server(known)).peekable();
        if grants.peek().is_none() || self.names.is_some() {
            return Err(Denial::Service(Service::Admin));
        }
        // These calls ignore the namespace, but a malformed one is an error in any call.
        asked.map(Namespace::parse).transpose().map_err(Denial::NamespaceMalformed)?;
        if grants.any(|(_, permissions)| permissions.contain(permission)) {
            Ok(Namespace::DEFAULT)
        } else {
            Err(Denial::Permission(permission))
        }
    }

    /// Checks the rights of a call and determines its namespace; `asked` is the namespace that it
    /// requests.
    fn permit(&self, rpc: &Rpc, asked: Option<&[u8]>) -> Result<Namespace, Denial> {
        if !self.services.contain(rpc.service) {
            return Err(Denial::Service(rpc.service));
        }
        if rpc.service == Service::Admin {
            return self.permit_admin(rpc.permission, asked);
        }
        let namespace = match (&*self.grants, asked) {
            ([(Some(only), _)], None) => only.clone(),
            ([(Some(only), _)], Some(asked)) if asked == only.as_str().as_bytes() => only.clone(),
            ([(Some(_), _)], Some(_)) => return Err(Denial::Namespace),
            (_, None) => Namespace::DEFAULT,
            (_, Some(asked)) => Namespace::parse(asked).map_err(Denial::NamespaceMalformed)?,
        };
        let in_namespace =
            |known: &Option<Namespace>| known.as_ref().is_none_or(|it| *it == namespace);
        let mut grants = self.grants.iter().filter(|(known, _)| in_namespace(known)).peekable();
        if grants.peek().is_none() {
            return Err(Denial::Namespace);
        }
        if grants.any(|(_, permissions)| permissions.contain(rpc.permission)) {
            Ok(namespace)
        } else {
            Err(Denial::Permission(rpc.permission))
        }
    }
}

#[cfg(test)]
mod tests;
