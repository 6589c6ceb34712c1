//! Streams end when the credentials of their caller expire, or when its rights change.
//!
//! A unary call is checked when it begins. A stream can last for months, so its right is checked
//! again: callers can be reloaded, and a JWT expires. The check repeats the authentication only if
//! the callers changed or the credentials expired since the last check.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use tokio::time::sleep;
use tonic::Status;

use super::{
    Access,
    denial::Denial,
    memo::{Credentials, Memo},
};
use crate::grpc::rpcs::Rpc;
use tollgate_core::names::Namespace;

/// Time between two checks of a stream.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The right to a stream. In the extensions of its request.
#[derive(Clone)]
pub(in super::super) struct Watched(Arc<Right>);

/// The credentials and the rights with which a stream was opened.
struct Right {
    access: Arc<Access>,
    /// The credentials of the call. They are authenticated again.
    credentials: Credentials,
    /// The RPC of the stream.
    rpc: &'static Rpc,
    /// The namespace that the call asked for.
    namespace: Namespace,
    /// The globs of the names that the caller may use.
    patterns: Vec<String>,
}

impl Watched {
    /// The right of a caller that was just admitted.
    pub(super) fn new(
        access: &Arc<Access>,
        memo: &Memo,
        rpc: &'static Rpc,
        namespace: Namespace,
    ) -> Watched {
        Watched(Arc::new(Right {
            access: access.clone(),
            credentials: memo.credentials.clone(),
            rpc,
            namespace,
            patterns: memo.caller.patterns.clone(),
        }))
    }

    /// Returns the stream. It ends with UNAUTHENTICATED once the right is lost.
    pub(in super::super) fn guard<M>(
        self,
        events: impl Stream<Item = Result<M, Status>> + Send,
    ) -> impl Stream<Item = Result<M, Status>> + Send
    where
        M: Send,
    {
        let lost = Box::pin(async move { self.0.lost().await });
        stream::unfold((Box::pin(events), Some(lost)), |(mut events, lost)| async move {
            let mut lost = lost?;
            tokio::select! {
                biased;
                () = &mut lost => Some((Err(Denial::Ended.status()), (events, None))),
                event = events.next() => event.map(|event| (event, (events, Some(lost)))),
            }
        })
    }
}

impl Right {
    /// Completes when the right is lost.
    async fn lost(&self) {
        let mut memo: Option<Memo> = None;
        loop {
            sleep(CHECK_EVERY).await;
            let generation = self.access.generation();
            if memo.as_ref().is_some_and(|memo| memo.is_valid(generation)) {
                continue;
            }
            match self.access.authenticate(self.credentials.clone(), generation) {
                Ok(again) if self.is_held_by(&again) => memo = Some(again),
                _ => return,
            }
        }
    }

    /// Whether the caller may still watch the same. Other globs end the stream, even if they still
    /// permit its name: the stream does not know which name it is for.
    fn is_held_by(&self, memo: &Memo) -> bool {
        let asked = self.namespace.as_str().as_bytes();
        memo.caller.patterns == self.patterns && memo.caller.permit(self.rpc, Some(asked)).is_ok()
    }
}
