//! Ends streams when the credentials of their caller expire, or when the caller's rights change.
//!
//! A unary call is checked once, when it begins. A stream can last for months, during which callers
//! are reloaded and JWTs expire, so it is checked repeatedly. The check authenticates again only if
//! the callers have changed or the credentials have expired since the last one.

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

/// Interval between two checks of a stream.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The right to a stream, which is passed in the extensions of its request.
#[derive(Clone)]
pub(in super::super) struct Watched(Arc<Right>);

/// The credentials and the rights with which a stream was opened.
struct Right {
    access: Arc<Access>,
    /// The credentials of the call, for authenticating it again.
    credentials: Credentials,
    /// The RPC of the stream.
    rpc: &'static Rpc,
    /// The namespace that the call requested.
    namespace: Namespace,
    /// The globs of the names that the caller may use.
    patterns: Vec<String>,
}

impl Watched {
    /// Creates the right of a caller that has just been authorized.
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

    /// Wraps a stream, which then ends with UNAUTHENTICATED once the right is lost.
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

    /// Whether the caller still has the same rights. Any change of its globs ends the stream, even
    /// if they still permit its name, because the name is not known here.
    fn is_held_by(&self, memo: &Memo) -> bool {
        let asked = self.namespace.as_str().as_bytes();
        memo.caller.patterns == self.patterns && memo.caller.permit(self.rpc, Some(asked)).is_ok()
    }
}
