//! Which of the server's threads this is: each has a runtime of its own, and its own
//! lanes to the store.

use std::cell::Cell;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// Makes this thread the server's worker of that number, from 1.
pub fn enter(number: usize) {
    NUMBER.set(number);
}

/// This thread's number; 0 for one that is none of the server's workers.
pub fn number() -> usize {
    NUMBER.get()
}
