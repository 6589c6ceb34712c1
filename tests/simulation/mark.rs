//! The mark: a stock that shows which state a process has found on the disk. Also the end, the new
//! token and the new values in an answer.

use std::sync::Arc;

use tollgate_core::{
    admission::{AdmitDecision, RenewVerdict},
    lock::Acquisition,
    rate::CheckOutcome,
    sequence::{Allocation, Range},
    stock::{GetStock, SetStock, StockOutcome},
};
use tollgate_engine::Engine;

use crate::{
    callers::{Answer, Request},
    capability::{Answering, Part, deadline, name},
    lock, pool, rate, sequence,
    world::poll,
};

/// Advances the mark to `number`. Returns whether that was decided.
pub fn advance(engine: &Arc<Engine>, number: u64) -> bool {
    let engine = engine.clone();
    let mut advancing: Answering<_> = Box::pin(async move {
        let set = SetStock { sku: name("mark"), on_hand: number };
        engine.submit(&set, deadline()).await.map(|set| set.outcome)
    });
    match poll(&mut advancing) {
        Some(Ok(StockOutcome::Decided { .. })) => true,
        Some(_) => false,
        // Decided, and waiting for the disk.
        None => true,
    }
}

/// Returns the value of the mark.
pub fn read(engine: &Arc<Engine>) -> u64 {
    let engine = engine.clone();
    let mut reading: Answering<_> = Box::pin(async move {
        let get = GetStock { sku: name("mark") };
        engine.submit(&get, deadline()).await.map(|found| found.outcome)
    });
    match poll(&mut reading).expect("nothing is written yet").unwrap() {
        StockOutcome::Decided { stock, .. } => stock.on_hand,
        _ => 0,
    }
}

/// Returns the values that a sequence has given out for the first time, with its part.
pub fn values(request: &Request, answer: &Answer) -> Option<((char, Part), Range)> {
    match (request, answer) {
        (
            Request::Serial(part, _),
            Answer::Serial(sequence::Answer::Given(Allocation::Given {
                range,
                replayed: false,
                ..
            })),
        ) => Some((('s', *part), *range)),
        _ => None,
    }
}

/// Returns the end of the lease, wait or ban in an answer, in µs.
pub fn instant(answer: &Answer, now: u64) -> Option<u64> {
    match answer {
        Answer::Pool(pool::Answer::Admitted(admission)) => match &admission.decision {
            AdmitDecision::Admitted { lease, .. } => Some(lease.expire.0),
            _ => None,
        },
        Answer::Pool(pool::Answer::Renewed(RenewVerdict::Renewed(lease))) => Some(lease.expire.0),
        Answer::Lock(lock::Answer::Acquired(Acquisition::Acquired { lease, .. })) => {
            Some(lease.expire.0)
        }
        Answer::Rate(rate::Answer::Checked(CheckOutcome::Decided { answer, .. })) => {
            answer.retry_after.map(|wait| now + wait.micros())
        }
        Answer::Rate(rate::Answer::Banned(ban)) => Some(ban.until.0),
        _ => None,
    }
}

/// Returns the token of a new lease, with its kind as a letter and its part.
pub fn granted(request: &Request, answer: &Answer) -> Option<((char, Part), u64)> {
    match (request, answer) {
        (Request::Pool(part, _), Answer::Pool(pool::Answer::Admitted(admission))) => {
            let AdmitDecision::Admitted { lease, replayed: false, .. } = &admission.decision else {
                return None;
            };
            Some((('p', *part), lease.token))
        }
        (
            Request::Lock(part, _),
            Answer::Lock(lock::Answer::Acquired(Acquisition::Acquired { lease, replayed: false })),
        ) => Some((('l', *part), lease.token)),
        _ => None,
    }
}
