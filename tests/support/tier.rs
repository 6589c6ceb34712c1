//! The two tiers of the tests: `tests/run.sh`, and `tests/run.sh all`.

/// Returns whether `tests/run.sh all` runs the tests. Histories and loads that search for rare
/// faults are then several times as long.
pub fn is_full() -> bool {
    std::env::var_os("TOLLGATE_TEST_FULL").is_some()
}
