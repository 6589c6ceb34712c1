//! An action that runs when the message of an answer is sent.

use std::{fmt, sync::Arc};

use tonic::Response;

/// An action that runs when the message of an answer is sent, stored in the extensions of the
/// response.
///
/// If the caller disconnects before that, the action is dropped without being run. A value that the
/// action owns can therefore distinguish the two cases, for instance to revoke a grant that nobody
/// has received.
#[derive(Clone)]
pub struct OnSent(Arc<dyn Fn() + Send + Sync>);

impl OnSent {
    /// Creates an action, which runs at most once.
    pub fn new(action: impl Fn() + Send + Sync + 'static) -> OnSent {
        OnSent(Arc::new(action))
    }

    /// Adds the action to a response.
    #[must_use]
    pub fn attach<T>(self, mut response: Response<T>) -> Response<T> {
        response.extensions_mut().insert(self);
        response
    }

    pub(crate) fn run(self) {
        (self.0)();
    }
}

impl fmt::Debug for OnSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnSent")
    }
}
