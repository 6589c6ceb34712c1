//! Tells by a sequence of its own what a process has found on the disk; when something
//! ends, and which token was granted, as an answer says it.

use std::sync::Arc;

use tollgate::{
    admission::{AdmitDecision, RenewVerdict},
    engine::Engine,
    lock::Acquisition,
    rate::Checked,
    sequence::{Allotment, GetSequence, NextSequence, Sequence},
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

/// Counts it up to a number; whether it was decided.
pub fn advance(engine: &Arc<Engine>, number: u64) -> bool {
    let engine = engine.clone();
    let mut advancing: Answering<Allotment> = Box::pin(async move {
        let (sequence, count, step) = (sequence(), 1, 1);
        let (floor, request, reserve, confirmed) = (None, None, None, None);
        let next = NextSequence { sequence, count, step, floor, request, reserve, confirmed };
        engine.run(&next, deadline()).await
    });
    match poll(&mut advancing) {
        Some(Ok(Allotment::Given { range, .. })) => {
            assert_eq!(range.last, number, "the mark rises by one");
            true
        }
        Some(_) => false,
        // Decided, and on its way to the disk.
        None => true,
    }
}

/// How far it came.
pub fn read(engine: &Arc<Engine>) -> u64 {
    let engine = engine.clone();
    let mut reading: Answering<_> =
        Box::pin(
            async move { engine.run(&GetSequence { sequence: sequence() }, deadline()).await },
        );
    let last = poll(&mut reading).expect("nothing is written yet").unwrap();
    last.map_or(0, |(last, _)| last)
}

/// When something ends that an answer is about.
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
        Answer::Rate(rate::Answer::Checked(Checked::Decided { answer, .. })) => {
            answer.retry_after.map(|wait| now + wait.micros())
        }
        Answer::Rate(rate::Answer::Banned(ban)) => Some(ban.until.0),
        _ => None,
    }
}

/// A new lease's token, and what it is of: the kind by its letter, and the part.
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
