//! The optional traits of a decision that the store stage uses.

use super::{
    Decision, Grows, Revocable, Takes, Taking, UndoRule,
    acknowledgement::Acknowledgement,
    denial::{AffectsDenials, Effect},
    time::Timestamp,
};

/// A decision that issues numbers that rise with the clock: fencing tokens, and serials with a date.
pub trait Issues: Decision {
    /// Decides like [`Decision::decide`] after a kill that lost the last changes of the store.
    /// Numbers up to `floor` may already be in use, so new ones are above it. Called until `now` has
    /// passed the floor.
    fn decide_above(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        floor: Timestamp,
    ) -> Self::Outcome;
}

/// A decision whose entry is usually not in the cache of the processor.
pub trait Warms: Decision {
    /// Loads the entries of several decisions at once, because a processor can wait for many loads at the
    /// same time. Changes nothing.
    fn warm(decisions: &[Self], state: &Self::State);
}

/// The optional traits of a decision, for code that is generic over all decisions: in Rust such
/// code cannot test whether a type has a trait. A constant, so a trait that a verb lacks costs
/// nothing.
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "each is the signature of the method that it stands for")]
pub struct Optional<D: Decision> {
    /// [`Revocable::acknowledgement`].
    acknowledgement: Option<fn(&D) -> Acknowledgement>,
    /// [`Revocable::undo_rule`].
    undo_rule: Option<fn(&D, &str) -> UndoRule>,
    /// [`AffectsDenials::effect`].
    effect: Option<fn(&D, Option<&D::Outcome>) -> Effect>,
    /// [`Grows::is_new`].
    is_new: Option<fn(&D, &D::State, Timestamp) -> bool>,
    /// [`Grows::adds`].
    adds: Option<fn(&D, &D::State, Timestamp) -> bool>,
    /// [`Grows::takes`].
    takes: Option<fn(&D, &D::State, Timestamp) -> Option<Takes>>,
    /// [`Grows::TAKES`].
    kind: Option<Takes>,
    /// [`Grows::taken`].
    taken: Option<fn(&D::Outcome) -> Taking>,
    /// [`Issues::decide_above`].
    decide_above: Option<fn(&D, &mut D::State, Timestamp, Timestamp) -> D::Outcome>,
    /// [`Warms::warm`].
    warm: Option<fn(&[D], &D::State)>,
}

impl<D: Decision> Optional<D> {
    /// None of them.
    pub const NONE: Optional<D> = Optional {
        acknowledgement: None,
        undo_rule: None,
        effect: None,
        is_new: None,
        adds: None,
        takes: None,
        kind: None,
        taken: None,
        decide_above: None,
        warm: None,
    };

    /// Adds [`Revocable`].
    pub const fn revocable(mut self) -> Optional<D>
    where
        D: Revocable,
    {
        self.acknowledgement = Some(D::acknowledgement);
        self.undo_rule = Some(D::undo_rule);
        self
    }

    /// Adds [`AffectsDenials`].
    pub const fn affects_denials(mut self) -> Optional<D>
    where
        D: AffectsDenials,
    {
        self.effect = Some(D::effect);
        self
    }

    /// Adds [`Grows`].
    pub const fn grows(mut self) -> Optional<D>
    where
        D: Grows,
    {
        self.is_new = Some(D::is_new);
        self.adds = Some(D::adds);
        self.takes = Some(D::takes);
        self.kind = D::TAKES;
        self.taken = Some(D::taken);
        self
    }

    /// Adds [`Issues`].
    pub const fn issues(mut self) -> Optional<D>
    where
        D: Issues,
    {
        self.decide_above = Some(D::decide_above);
        self
    }

    /// Adds [`Warms`].
    pub const fn warms(mut self) -> Optional<D>
    where
        D: Warms,
    {
        self.warm = Some(D::warm);
        self
    }

    /// Loads the entries of decisions that follow one another into the cache of the processor.
    pub fn warm(&self, decisions: &[D], state: &D::State) {
        if let Some(warm) = self.warm {
            warm(decisions, state);
        }
    }

    /// The replicas that must acknowledge the write; none if the decision is not [`Revocable`].
    pub fn acknowledgement(&self, decision: &D) -> Acknowledgement {
        self.acknowledgement.map_or(Acknowledgement::NONE, |needed| needed(decision))
    }

    /// The rule for an outcome that replicas did not acknowledge; `None` if the decision is not
    /// [`Revocable`], and its outcome always counts.
    pub fn undo_rule(&self, decision: &D, prefix: &str) -> Option<UndoRule> {
        self.undo_rule.map(|rule| rule(decision, prefix))
    }

    /// The effect on cached denials; `None` if the decision has none.
    pub fn effect(&self, decision: &D, outcome: Option<&D::Outcome>) -> Option<Effect> {
        self.effect.map(|effect| effect(decision, outcome))
    }

    /// Whether the decision would create an entry in this existing state.
    pub fn is_new(&self, decision: &D, state: &D::State, now: Timestamp) -> bool {
        self.is_new.is_some_and(|is_new| is_new(decision, state, now))
    }

    /// Whether the decision would add bytes to this existing state. A decision without [`Grows`] may.
    pub fn adds(&self, decision: &D, state: &D::State, now: Timestamp) -> bool {
        self.adds.is_none_or(|adds| adds(decision, state, now))
    }

    /// The kind of entry that the decision would add to this state.
    pub fn takes(&self, decision: &D, state: &D::State, now: Timestamp) -> Option<Takes> {
        self.takes.and_then(|takes| takes(decision, state, now))
    }

    /// The kind of entry that the decision can add.
    pub const fn kind(&self) -> Option<Takes> {
        self.kind
    }

    /// Whether the decision has added an entry.
    pub fn taken(&self, outcome: &D::Outcome) -> Taking {
        self.taken.map_or(Taking::Nothing, |taken| taken(outcome))
    }

    /// Decides. New numbers are above `floor`, if the decision [`Issues`] any.
    pub fn decide_above(
        &self,
        decision: &D,
        state: &mut D::State,
        now: Timestamp,
        floor: Timestamp,
    ) -> D::Outcome {
        match self.decide_above {
            Some(decide_above) => decide_above(decision, state, now, floor),
            None => decision.decide(state, now),
        }
    }
}
