//! Waits of any length, cut into calls that keep the place in the queue.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::time::sleep;

use crate::{
    Error,
    clock::Moment,
    connection::{Answered, Connection},
};

/// Longest wait of one call.
const SLICE: Duration = Duration::from_secs(10);
/// A call joins the queue this long before the one before it leaves. The place passes to it.
const OVERLAP: Duration = Duration::from_secs(2);
/// Pause after a server that ended a wait early.
const EARLY: Duration = Duration::from_millis(50);

/// Makes calls, each with its own wait, until an answer is final or the whole wait is over. Returns
/// the last answer. A call that has a successor counts only if its answer is final.
pub(crate) async fn in_calls<A, F>(
    connection: &Connection,
    wait: Duration,
    call: impl Fn(Duration) -> F,
    is_final: impl Fn(&A) -> bool,
) -> Result<Answered<A>, Error>
where
    F: Future<Output = Result<Answered<A>, Error>>,
{
    let until = Moment::now() + wait;
    let mut earlier: Option<Pin<Box<F>>> = None;
    loop {
        let (asked, left) = (Moment::now(), until.left());
        let mut newest = Box::pin(call(left.min(SLICE)));
        let mut successor = Box::pin(sleep(SLICE - OVERLAP));
        let answered = loop {
            tokio::select! {
                biased;
                answered = &mut newest => break Some(answered),
                answered = ended(&mut earlier) => {
                    earlier = None;
                    if let Ok(answered) = answered
                        && is_final(&answered.answer)
                    {
                        return Ok(answered);
                    }
                }
                () = &mut successor, if left > SLICE => break None,
            }
        };
        match answered {
            None => earlier = Some(newest),
            Some(Ok(answered)) if is_final(&answered.answer) || until.left().is_zero() => {
                return Ok(answered);
            }
            // A slice is over, or a server ended the wait early.
            Some(Ok(_)) if asked.elapsed() < left.min(SLICE) => {
                connection.closing().pause(EARLY.min(until.left())).await?;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => match connection.waiting_pause(&error) {
                Some(pause) if pause < until.left() => connection.closing().pause(pause).await?,
                _ => return Err(error),
            },
        }
    }
}

/// The answer of a call; never without one.
async fn ended<F: Future>(call: &mut Option<Pin<Box<F>>>) -> F::Output {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}
