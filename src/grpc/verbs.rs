//! The verbs whose outcomes are counted: those of RPCs with the option `counted`.

use tollgate_core::*;
use tollgate_engine::CountedVerb;

/// Renames types to the names of their RPCs where these differ: `rate::Ban` is a ban in force.
mod rate {
    pub(super) use tollgate_core::rate::{BanKey as Ban, UnbanKey as Unban, *};
}

/// Returns all counted verbs.
pub fn counted_verbs() -> Vec<CountedVerb> {
    include!(concat!(env!("OUT_DIR"), "/verbs.rs"))
}

#[cfg(test)]
mod tests {
    use tollgate_status::metrics::REFUSALS;

    use super::*;

    #[test]
    fn every_refusal_is_an_outcome_of_a_verb() {
        let verbs = counted_verbs();
        for refusal in REFUSALS {
            assert!(verbs.iter().any(|verb| verb.outcomes.contains(&refusal)), "{refusal}");
        }
    }
}
