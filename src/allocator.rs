//! The allocator of the process, and the thread that purges: that hands back to the system
//! what is free.
//!
//! Left to itself mimalloc purges a second after something has become free: all that is due at
//! once, in whichever thread has to do with a page then. 4 MiB take half a millisecond, so a
//! decision that meets it when a million leases have lapsed would take many.

#![expect(unsafe_code, reason = "mimalloc's options and its collector are C functions")]

use std::{
    ffi::{c_int, c_long},
    thread,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_get, mi_option_set, mi_thread_init};

pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay` of mimalloc.h, which the crate does not name: for how many
/// milliseconds what is free is kept.
const PURGE_DELAY: c_int = 15;
/// What it is where nobody has set it (`MIMALLOC_PURGE_DELAY`).
const PURGE_DELAY_DEFAULT: c_long = 1000;
/// A day: never, as each round begins it anew.
const PURGE_DELAY_LONG: c_long = 24 * 60 * 60 * 1000;
/// As often as mimalloc would.
const ROUND: Duration = Duration::from_secs(1);

/// From now on a thread of its own purges, once a second, and no other does. Where
/// `MIMALLOC_PURGE_DELAY` says otherwise, or no thread can be had, mimalloc does it.
///
/// For the beginning of `main`: what other threads have seen of the option is not taken back.
pub fn purge_apart() {
    if purge_delay() != PURGE_DELAY_DEFAULT {
        return;
    }
    set_purge_delay(PURGE_DELAY_LONG);
    let purge = || {
        // SAFETY: any thread may call it, at any time. Without it a thread that has not
        // allocated anything yet would collect nothing.
        unsafe { mi_thread_init() };
        loop {
            thread::sleep(ROUND);
            // SAFETY: any thread may call it at any time; the memory that it hands back is
            // nobody's, and claimed while it does.
            unsafe { mi_collect(true) };
        }
    };
    if thread::Builder::new().name("purge".to_owned()).spawn(purge).is_err() {
        set_purge_delay(PURGE_DELAY_DEFAULT);
    }
}

fn purge_delay() -> c_long {
    // SAFETY: it looks a number up, and checks that there is one.
    unsafe { mi_option_get(PURGE_DELAY) }
}

fn set_purge_delay(millis: c_long) {
    // SAFETY: it sets a word, having checked that there is one; who reads it meanwhile sees the
    // one or the other, as when mimalloc sets it itself, in whichever thread asks first.
    unsafe { mi_option_set(PURGE_DELAY, millis) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mimalloc numbers its options anew now and then; no other one is 1000.
    #[test]
    fn the_option_has_the_number_that_we_know() {
        assert!(std::env::var_os("MIMALLOC_PURGE_DELAY").is_none(), "unset it");
        assert_eq!(purge_delay(), PURGE_DELAY_DEFAULT);
    }
}
