//! Answers kept for repeats of their `request_id`, each until an instant.

use std::collections::{BTreeSet, HashMap};

use crate::time::Timestamp;

/// More than these do not wait for a sweep.
const MANY: usize = 1000;

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

    /// Keeps an answer until `forget`, in place of an earlier one. Of many two go for
    /// one that comes: however fast they come, they end with their time.
    pub(crate) fn keep(&mut self, request: &[u8], answer: A, forget: Timestamp, now: Timestamp) {
        if self.0.as_ref().is_some_and(|kept| kept.answers.len() > MANY) {
            self.sweep(now, 2);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_whose_time_is_over_go_with_those_that_come() {
        let mut replays = Replays::default();
        for now in 0..100_000u64 {
            let request = now.to_le_bytes();
            replays.keep(&request, now, Timestamp(now + 2000), Timestamp(now));
            assert_eq!(replays.get(&request, Timestamp(now + 1999)), Some(&now));
            assert_eq!(replays.get(&request, Timestamp(now + 2000)), None);
        }
        let kept = replays.0.as_ref().map(|kept| (kept.answers.len(), kept.by_end.len()));
        assert_eq!(kept, Some((2000, 2000)));
        // An answer in place of another one leaves nothing of that.
        replays.keep(b"x", 1, Timestamp(200_000), Timestamp(100_000));
        replays.keep(b"x", 2, Timestamp(300_000), Timestamp(100_000));
        assert_eq!(replays.get(b"x", Timestamp(250_000)), Some(&2));
        replays.sweep(Timestamp(300_000), 10_000);
        assert!(replays.is_empty());
    }
}
