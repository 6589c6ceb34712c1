//! Waits of any length, divided into calls that keep the place in the queue.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    Error,
    calls::Call,
    claims::{Claim, Grant},
    clock::Moment,
    connection::{Answered, Connection},
};

/// Longest wait of one call.
const SLICE: Duration = Duration::from_secs(10);
/// A call joins the queue this long before the previous call leaves. The place passes to it.
const OVERLAP: Duration = Duration::from_secs(2);
/// Pause after a server that ended a wait early.
const EARLY: Duration = Duration::from_millis(50);
/// How long a dropped wait still accepts an answer that is on its way.
const GRACE: Duration = Duration::from_millis(500);

type Running<A> = Pin<Box<dyn Future<Output = Result<Answered<A>, Error>> + Send>>;

type GiveUp<M> = Box<dyn FnOnce(&Grant) -> M + Send>;

/// A request for a lease. If it is dropped before the caller has received the answer, its lease is
/// given back in the background. An answer that is on its way is still accepted for a moment, after
/// which the calls are cancelled.
pub(crate) struct Wanted<A: 'static, M: Call> {
    claim: Option<Claim>,
    running: Vec<Running<A>>,
    /// The lease of a call without an answer. `None` if another call may have received it.
    unanswered: Option<Grant>,
    granted: Option<Grant>,
    grant: fn(&A) -> Option<Grant>,
    /// The message that gives a lease back, and the time until the lease has then ended.
    message: Option<GiveUp<M>>,
    pause: Duration,
}

impl<A: 'static, M: Call> Wanted<A, M> {
    pub(crate) fn new(
        claim: Claim,
        grant: fn(&A) -> Option<Grant>,
        unanswered: Option<Grant>,
        message: impl FnOnce(&Grant) -> M + Send + 'static,
        pause: Duration,
    ) -> Wanted<A, M> {
        let message: Option<GiveUp<M>> = Some(Box::new(message));
        let running = Vec::new();
        Wanted { claim: Some(claim), running, unanswered, granted: None, grant, message, pause }
    }

    /// Records that the caller gets the answer, with the token of its lease if it has one.
    pub(crate) fn answered(mut self, token: Option<u64>) {
        self.running.clear();
        if let Some(claim) = self.claim.take() {
            claim.answered(token);
        }
    }

    /// Makes calls, each with its own wait, until an answer is final or the whole wait is over.
    /// Returns the last answer. The answer of a call that has a successor is used only if it is
    /// final.
    pub(crate) async fn in_calls<F>(
        &mut self,
        connection: &Connection,
        wait: Duration,
        call: impl Fn(Duration) -> F,
        is_final: impl Fn(&A) -> bool,
    ) -> Result<Answered<A>, Error>
    where
        F: Future<Output = Result<Answered<A>, Error>> + Send + 'static,
    {
        let answered = self.last(connection, wait, call, is_final).await?;
        self.granted = (self.grant)(&answered.answer);
        Ok(answered)
    }

    async fn last<F>(
        &mut self,
        connection: &Connection,
        wait: Duration,
        call: impl Fn(Duration) -> F,
        is_final: impl Fn(&A) -> bool,
    ) -> Result<Answered<A>, Error>
    where
        F: Future<Output = Result<Answered<A>, Error>> + Send + 'static,
    {
        let until = Moment::now() + wait;
        loop {
            let (asked, left) = (Moment::now(), until.left());
            self.running.push(Box::pin(call(left.min(SLICE))));
            let mut successor = pin!(sleep(SLICE - OVERLAP));
            let answered = loop {
                tokio::select! {
                    biased;
                    (is_newest, answered) = first(&mut self.running) => match answered {
                        Ok(answered) if is_final(&answered.answer) => return Ok(answered),
                        answered if is_newest => break Some(answered),
                        _ => {}
                    },
                    () = &mut successor, if left > SLICE => break None,
                }
            };
            match answered {
                None => {}
                Some(Ok(answered)) if until.left().is_zero() => return Ok(answered),
                // A slice is over, or a server ended the wait early.
                Some(Ok(_)) if asked.elapsed() < left.min(SLICE) => {
                    connection.closing().pause(EARLY.min(until.left())).await?;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => match connection.waiting_pause(&error) {
                    Some(pause) if pause < until.left() => {
                        connection.closing().pause(pause).await?;
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}

impl<A: 'static, M: Call> Drop for Wanted<A, M> {
    fn drop(&mut self) {
        let (Some(claim), Some(message)) = (self.claim.take(), self.message.take()) else { return };
        let (running, granted) = (mem::take(&mut self.running), self.granted.take());
        let (unanswered, grant) = (self.unanswered.take(), self.grant);
        if granted.is_some() || unanswered.is_some() || !running.is_empty() {
            let ended = async move { granted.or(ended(running, grant).await).or(unanswered) };
            claim.withdraw(ended, message, self.pause);
        }
    }
}

/// Ends calls. Returns a lease whose answer arrives within a moment.
async fn ended<A>(mut running: Vec<Running<A>>, grant: fn(&A) -> Option<Grant>) -> Option<Grant> {
    let mut grace = pin!(sleep(GRACE));
    while !running.is_empty() {
        tokio::select! {
            biased;
            (_, answered) = first(&mut running) => {
                if let Some(granted) = answered.ok().and_then(|it| grant(&it.answer)) {
                    return Some(granted);
                }
            }
            () = &mut grace => return None,
        }
    }
    None
}

/// Returns the result of the first call that ends, and whether it is the newest call.
async fn first<A>(running: &mut Vec<Running<A>>) -> (bool, Result<Answered<A>, Error>) {
    poll_fn(|context| {
        for index in 0..running.len() {
            if let Poll::Ready(answered) = running[index].as_mut().poll(context) {
                let is_newest = index + 1 == running.len();
                drop(running.remove(index));
                return Poll::Ready((is_newest, answered));
            }
        }
        Poll::Pending
    })
    .await
}
