//! The allocator of the process (mimalloc), and the thread that purges, which means that it returns
//! freed memory to the system.
//!
//! By default mimalloc purges one second after a free. It purges all due pages at once, in the
//! thread that next touches a page. Purging 4 MiB takes half a millisecond. A decision that met the
//! purge of a million expired leases would take many milliseconds. So a separate thread purges.
//!
//! jemalloc has such threads built in, but compiling it requires `make` and takes 107 s of processor
//! time, where mimalloc takes 7 s (benches/EXPERIMENTS.md).

#![expect(unsafe_code, reason = "mimalloc's options and its collector are C functions")]

use std::{
    ffi::{c_int, c_long},
    thread,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_get, mi_option_set, mi_thread_init};

pub use mimalloc::MiMalloc as Allocator;

/// Number of `mi_option_purge_delay` in mimalloc.h; the crate has no name for it. Its value is the
/// time in milliseconds for which mimalloc keeps freed memory.
const PURGE_DELAY: c_int = 15;
/// mimalloc's default for the delay. Another value means that the user has set
/// `MIMALLOC_PURGE_DELAY`.
const PURGE_DELAY_DEFAULT: c_long = 1000;
/// One day. The purge thread collects each second, so mimalloc never purges by this delay.
const PURGE_DELAY_LONG: c_long = 24 * 60 * 60 * 1000;
/// Time between two purges: as often as mimalloc's default.
const ROUND: Duration = Duration::from_secs(1);

/// Starts the purge thread. From then on only that thread purges, once a second. If
/// `MIMALLOC_PURGE_DELAY` is set or the thread cannot be started, mimalloc purges as usual.
///
/// Must be called at the start of `main`, because other threads do not notice a later change of the
/// option.
pub fn purge_apart() {
    if purge_delay() != PURGE_DELAY_DEFAULT {
        return;
    }
    set_purge_delay(PURGE_DELAY_LONG);
    let purge = || {
        // SAFETY: any thread may call it, at any time. Without it, a thread that has not allocated
        // anything would collect nothing.
        unsafe { mi_thread_init() };
        loop {
            thread::sleep(ROUND);
            // SAFETY: any thread may call it, at any time. mimalloc claims the freed memory before
            // it returns it to the system.
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

    /// New versions of mimalloc may renumber the options. No other option has the default 1000.
    #[test]
    fn the_option_has_the_number_that_we_know() {
        assert!(std::env::var_os("MIMALLOC_PURGE_DELAY").is_none(), "unset it");
        assert_eq!(purge_delay(), PURGE_DELAY_DEFAULT);
    }
}
