//! The mark: a sequence that shows which state a process has found on the disk. Also the end and
//! the new token in an answer.

use std::sync::Arc;

use tollgate::{
    admission::{AdmitDecision, RenewVerdict},
    engine::Engine,
    lock::Acquisition,
    rate::CheckOutcome,
    sequence::{Allocation, GetSequence, NextSequence, Sequence},
};

use crate::{
    callers::{Answer, Request},
    capability::{Answering, Part, deadline, name},
    lock, pool, rate,
    world::poll,
};

fn sequence() -> Sequence {
    Sequence::new(&name("mark"), None)
}

/// Advances the mark to `number`. Returns whether that was decided.
pub fn advance(engine: &Arc<Engine>, number: u64) -> bool {
    let engine = engine.clone();
    let mut advancing: Answering<Allocation> = Box::pin(async move {
        let (sequence, count, step) = (sequence(), 1, 1);
        let (floor, request, reserve, confirmed) = (None, None, None, None);
        let next = NextSequence { sequence, count, step, floor, request, reserve, confirmed };
        engine.submit(&next, deadline()).await.map(|given| given.outcome)
    });
    match poll(&mut advancing) {
        Some(Ok(Allocation::Given { range, .. })) => {
            assert_eq!(range.last, number, "the mark rises by one");
            true
        }
        Some(_) => false,
        // Decided, and waits for the disk.
        None => true,
    }
}

/// The value of the mark.
pub fn read(engine: &Arc<Engine>) -> u64 {
    let engine = engine.clone();
    let mut reading: Answering<_> = Box::pin(async move {
        let get = GetSequence { sequence: sequence() };
        engine.submit(&get, deadline()).await.map(|last| last.outcome)
    });
    let last = poll(&mut reading).expect("nothing is written yet").unwrap();
    last.map_or(0, |(last, _)| last)
}

/// The end of the lease, wait or ban in an answer, in µs.
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

/// The token of a new lease, with its kind as a letter and its part.
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
