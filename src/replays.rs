//! Answers kept for repeats of their `request_id`, each until an instant.

use std::collections::{BTreeSet, HashMap};

use crate::time::Timestamp;

/// Answers by `request_id`.
///
/// Behind a pointer: a million states that keep none must not pay.
#[derive(Debug)]
pub(crate) struct Replays<A>(Option<Box<Kept<A>>>);

#[derive(Debug)]
struct Kept<A> {
    answers: HashMap<Box<[u8]>, (Timestamp, A)>,
    by_end: BTreeSet<(Timestamp, Box<[u8]>)>,
}

impl<A> Default for Replays<A> {
    fn default() -> Replays<A> {
        Replays(None)
    }
}

impl<A> Replays<A> {
    /// The answer that is kept for a request.
    pub(crate) fn get(&self, request: &[u8], now: Timestamp) -> Option<&A> {
        let (forget, answer) = self.0.as_ref()?.answers.get(request)?;
        (*forget > now).then_some(answer)
    }

    /// Keeps an answer until `forget`, in place of an earlier one.
    pub(crate) fn keep(&mut self, request: &[u8], answer: A, forget: Timestamp) {
        let empty = || Box::new(Kept { answers: HashMap::new(), by_end: BTreeSet::new() });
        let kept = self.0.get_or_insert_with(empty);
        if let Some((earlier, _)) = kept.answers.insert(request.into(), (forget, answer)) {
            kept.by_end.remove(&(earlier, request.into()));
        }
        kept.by_end.insert((forget, request.into()));
    }

    /// Drops those whose time is over, at most `budget`.
    pub(crate) fn sweep(&mut self, now: Timestamp, budget: usize) {
        let Some(kept) = &mut self.0 else { return };
        for _ in 0..budget {
            let over = kept.by_end.first().is_some_and(|(forget, _)| *forget <= now);
            let Some((_, request)) = over.then(|| kept.by_end.pop_first()).flatten() else { break };
            kept.answers.remove(&request);
        }
        self.0.take_if(|kept| kept.answers.is_empty());
    }

    /// Whether none is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
