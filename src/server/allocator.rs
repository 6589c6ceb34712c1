//! The allocator of the process (mimalloc), and a thread that purges: it returns freed memory to
//! the operating system.
//!
//! By default mimalloc purges one second after a free, and whichever thread next touches a page
//! purges all due pages. Purging 4 MiB takes half a millisecond, so a decision that has to purge
//! the memory of a million expired leases would take many milliseconds. Therefore a separate thread
//! purges.
//!
//! jemalloc has such threads built in, but compiling it requires `make` and 107 s of CPU time,
//! compared with 7 s for mimalloc (benches/EXPERIMENTS.md).

#![expect(unsafe_code, reason = "mimalloc's options and its collector are C functions")]

use std::{
    ffi::{c_int, c_long},
    thread,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_get, mi_option_set, mi_thread_init};

pub use mimalloc::MiMalloc as Allocator;

/// Number of `mi_option_purge_delay` in mimalloc.h, which the crate does not export. The option is
/// how long mimalloc keeps freed memory, in milliseconds.
const PURGE_DELAY: c_int = 15;
/// The default delay of mimalloc. Any other value means that the user has set
/// `MIMALLOC_PURGE_DELAY`.
const PURGE_DELAY_DEFAULT: c_long = 1000;
/// One day. The purge thread collects every second, so this delay never elapses.
const PURGE_DELAY_LONG: c_long = 24 * 60 * 60 * 1000;
/// Interval between two purges, equal to mimalloc's default delay.
const ROUND: Duration = Duration::from_secs(1);

/// Starts the purge thread, which from then on is the only one that purges, once per second. If
/// `MIMALLOC_PURGE_DELAY` is set or the thread cannot be started, mimalloc purges as usual.
///
/// Must be called at the start of `main`, because threads that are already running ignore a change
/// of the option.
pub fn purge_apart() {
    if purge_delay() != PURGE_DELAY_DEFAULT {
        return;
    }
    set_purge_delay(PURGE_DELAY_LONG);
    let purge = || {
        // SAFETY: any thread may call it at any time. Without it, a thread that has not allocated
        // anything would collect nothing.
        unsafe { mi_thread_init() };
        loop {
            thread::sleep(ROUND);
            // SAFETY: any thread may call it at any time. mimalloc claims freed memory before it
            // returns it to the operating system.
            unsafe { mi_collect(true) };
        }
    };
    if thread::Builder::new().name("purge".to_owned()).spawn(purge).is_err() {
        set_purge_delay(PURGE_DELAY_DEFAULT);
    }
}

fn purge_delay() -> c_long {
    // SAFETY: mimalloc checks the number of the option and reads one word.
    unsafe { mi_option_get(PURGE_DELAY) }
}

fn set_purge_delay(millis: c_long) {
    // SAFETY: mimalloc checks the number of the option and writes one word. A concurrent reader
    // sees the old or the new value, as when mimalloc initializes the option.
    unsafe { mi_option_set(PURGE_DELAY, millis) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new version of mimalloc may renumber the options. No other option defaults to 1000.
    #[test]
    fn the_option_has_the_expected_number() {
        assert!(std::env::var_os("MIMALLOC_PURGE_DELAY").is_none(), "unset it");
        assert_eq!(purge_delay(), PURGE_DELAY_DEFAULT);
    }
}
