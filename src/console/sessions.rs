//! Sessions: a random id in a cookie stands for a token, which stays in this process.

use std::{collections::HashMap, fmt, time::Duration};

use hyper::header::HeaderValue;
use parking_lot::Mutex;
use ring::{
    digest::{Context, SHA256},
    rand::{SecureRandom, SystemRandom},
};

use crate::decision::time::coarse;

/// How long a session lasts.
pub(super) const AGE_MAX: Duration = Duration::from_secs(8 * 3600);
/// The most sessions; a further one ends the oldest.
const SESSIONS_MAX: usize = 1_000;
/// Bytes of an id.
const ID_BYTES: usize = 16;

/// The value of `authorization` of a caller. `Debug` does not print it.
#[derive(Clone)]
pub(super) struct Token(HeaderValue);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// `None` for a text that no header can contain.
    pub(super) fn new(text: &str) -> Option<Token> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", text.trim())).ok()?;
        value.set_sensitive(true);
        Some(Token(value))
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// Identifies the rights of a visitor: visitors with the same token in the same namespace see the
/// same pages.
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
    /// The namespace that its user chose; empty for that of the caller.
    pub(super) namespace: String,
    /// The start on the coarse clock.
    start: Duration,
}

/// All sessions of a server, by the id in the cookie.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Starts a session. Returns its id; `None` if the system has no random numbers.
    pub(super) fn start(&self, token: Token) -> Option<String> {
        let mut bytes = [0; ID_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| session.is_current());
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.start);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.into_iter().for_each(|id| drop(sessions.remove(&id)));
        }
        let session = Session { token, namespace: String::new(), start: coarse() };
        sessions.insert(id.clone(), session);
        Some(id)
    }

    /// The session of an id, unless it has ended.
    pub(super) fn get(&self, id: &str) -> Option<Session> {
        self.0.lock().get(id).filter(|session| session.is_current()).cloned()
    }

    /// Chooses the namespace of a session.
    pub(super) fn choose(&self, id: &str, namespace: &str) {
        if let Some(session) = self.0.lock().get_mut(id) {
            namespace.clone_into(&mut session.namespace);
        }
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &str) {
        self.0.lock().remove(id);
    }
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
        let first = sessions.start(token.clone()).unwrap();
        assert_eq!(first.len(), 2 * ID_BYTES);
        assert!(sessions.get(&first).is_some());
        sessions.0.lock().get_mut(&first).unwrap().start = Duration::ZERO;
        let others: Vec<_> =
            (0..SESSIONS_MAX).map(|_| sessions.start(token.clone()).unwrap()).collect();
        assert!(sessions.get(&first).is_none());
        assert_eq!(sessions.0.lock().len(), SESSIONS_MAX);
        sessions.end(&others[7]);
        assert!(sessions.get(&others[7]).is_none());
        assert!(Token::new("a\nb").is_none());
    }

    #[test]
    fn a_session_ends_after_its_longest_age() {
        let session =
            Session { token: Token::new("t").unwrap(), namespace: String::new(), start: coarse() };
        assert!(session.is_current());
        let start = coarse().checked_sub(AGE_MAX);
        // A machine that started less than 8 hours ago has no earlier reading.
        assert!(start.is_none_or(|start| !Session { start, ..session }.is_current()));
    }
}
