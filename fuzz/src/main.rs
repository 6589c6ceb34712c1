//! Runs one target of `tollgate::fuzz` under libFuzzer. `TOLLGATE_FUZZ_TARGET` names it.

#![no_main]

use std::{env, sync::OnceLock};

use libfuzzer_sys::fuzz_target;
use tollgate::fuzz::{TARGETS, Target};

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = env::var("TOLLGATE_FUZZ_TARGET").unwrap_or_default();
    let known = TARGETS.iter().find(|(target, _)| *target == name);
    known.unwrap_or_else(|| panic!("TOLLGATE_FUZZ_TARGET must be one of {TARGETS:?}")).1
}

fuzz_target!(|input: &[u8]| CHOSEN.get_or_init(chosen)(input));
