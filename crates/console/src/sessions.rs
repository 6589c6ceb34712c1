//! Sessions: a random id in a cookie stands for a token, which never leaves this process.

use std::{collections::HashMap, fmt, time::Duration};

use hyper::header::HeaderValue;
use parking_lot::Mutex;
use ring::{
    digest::{Context, SHA256},
    rand::{SecureRandom, SystemRandom},
};

use super::quota::{Holder, Permit, Quota};
use tollgate_telemetry::coarse;

/// How long a session lasts.
pub(super) const AGE_MAX: Duration = Duration::from_secs(8 * 3600);
/// Maximum number of sessions. Another one ends the oldest session, or the oldest of its caller if
/// the caller's quota is reached.
const SESSIONS_MAX: usize = 1_000;
/// Bytes of an id.
const ID_BYTES: usize = 16;

/// The `authorization` header of a caller. `Debug` does not print it.
#[derive(Clone)]
pub(super) struct Token(HeaderValue);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Returns `None` if a header cannot contain the text.
    pub(super) fn new(text: &str) -> Option<Token> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", text.trim())).ok()?;
        value.set_sensitive(true);
        Some(Token(value))
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// Identifies the rights of a visitor. Visitors with the same token and namespace see the same
/// pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RightsId([u8; 32]);

impl RightsId {
    pub(super) fn new(token: Option<&Token>, namespace: &str) -> RightsId {
        let mut context = Context::new(&SHA256);
        context.update(token.map_or(&[][..], |token| token.0.as_bytes()));
        context.update(&[0]);
        context.update(namespace.as_bytes());
        let mut id = [0; 32];
        id.copy_from_slice(context.finish().as_ref());
        RightsId(id)
    }
}

/// A session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) token: Token,
    /// The namespace that its user chose; empty for the caller's own.
    pub(super) namespace: String,
    /// The start on the coarse clock.
    start: Duration,
}

/// All sessions of a server, by the id in the cookie.
#[derive(Debug)]
pub(super) struct Sessions {
    by_id: Mutex<ById>,
    quota: Quota,
}

type ById = HashMap<String, (Session, Permit)>;

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { by_id: Mutex::default(), quota: Quota::new(SESSIONS_MAX, "sessions") }
    }
}

impl Sessions {
    /// Starts a session for a caller. Returns its id; `None` if the operating system returns no
    /// random numbers.
    pub(super) fn start(&self, token: Token, caller: &Holder) -> Option<String> {
        let mut bytes = [0; ID_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.by_id.lock();
        sessions.retain(|_, (session, _)| session.is_current());
        let permit = match self.quota.acquire(caller) {
            Ok(permit) => permit,
            Err(_) => self.replaced(&mut sessions, caller)?,
        };
        let session = Session { token, namespace: String::new(), start: coarse() };
        sessions.insert(id.clone(), (session, permit));
        Some(id)
    }

    /// Ends the oldest session of a caller, or the oldest of all if the caller has none. Returns
    /// its permit.
    fn replaced(&self, sessions: &mut ById, caller: &Holder) -> Option<Permit> {
        let own = sessions.iter().filter(|(_, (_, permit))| permit.is_of(caller));
        let oldest = oldest(own).or_else(|| oldest(sessions.iter()))?;
        let (_, permit) = sessions.remove(&oldest)?;
        if permit.is_of(caller) {
            return Some(permit);
        }
        drop(permit);
        self.quota.acquire(caller).ok()
    }

    /// Returns the session with this id, unless it has ended.
    pub(super) fn get(&self, id: &str) -> Option<Session> {
        let sessions = self.by_id.lock();
        let session = sessions.get(id).map(|(session, _)| session);
        session.filter(|session| session.is_current()).cloned()
    }

    /// Chooses the namespace of a session.
    pub(super) fn choose(&self, id: &str, namespace: &str) {
        if let Some((session, _)) = self.by_id.lock().get_mut(id) {
            namespace.clone_into(&mut session.namespace);
        }
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.by_id.lock().remove(id);
    }
}

/// Returns the id of the oldest of these sessions.
fn oldest<'a>(
    sessions: impl Iterator<Item = (&'a String, &'a (Session, Permit))>,
) -> Option<String> {
    sessions.min_by_key(|(_, (session, _))| session.start).map(|(id, _)| id.clone())
}

impl Session {
    fn is_current(&self) -> bool {
        coarse().saturating_sub(self.start) < AGE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_end() {
        let sessions = Sessions::default();
        let token = Token::new("t").unwrap();
        let start = |caller: &str| sessions.start(token.clone(), &Some(caller.into())).unwrap();
        let (other, first) = (start("other"), start("greedy"));
        assert_eq!(first.len(), 2 * ID_BYTES);
        for (id, age) in [(&first, 1), (&other, 2)] {
            let earlier = coarse().saturating_sub(Duration::from_secs(age));
            sessions.by_id.lock().get_mut(id).unwrap().0.start = earlier;
        }
        let others: Vec<_> = (0..SESSIONS_MAX).map(|_| start("greedy")).collect();
        // Only the caller itself has lost sessions.
        assert!(sessions.get(&first).is_none() && sessions.get(&other).is_some());
        assert_eq!(sessions.by_id.lock().len(), 1 + SESSIONS_MAX / 2);
        let last = others.last().unwrap();
        assert!(sessions.get(last).is_some());
        sessions.end(last);
        assert!(sessions.get(last).is_none());
        assert!(Token::new("a\nb").is_none());
    }

    #[test]
    fn a_session_ends_after_its_longest_age() {
        let session =
            Session { token: Token::new("t").unwrap(), namespace: String::new(), start: coarse() };
        assert!(session.is_current());
        let start = coarse().checked_sub(AGE_MAX);
        // If the machine started less than 8 hours ago, the clock has no such reading.
        assert!(start.is_none_or(|start| !Session { start, ..session }.is_current()));
    }
}
